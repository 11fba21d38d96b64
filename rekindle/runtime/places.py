"""Where a database is, in the spellings that users and Spark have for it.

A local directory may be written as a path or as a URI with one slash or three. Spark's catalog
writes `file:/data/my shop`, in which nothing is escaped; a URI with an authority, as browsers and
`Path.as_uri()` write it, has its escapes: `file:///data/my%20shop`. Both are the path that the rest
of the system works with. Other URIs are left to `pyarrow.fs`.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from rekindle.errors import DefinitionError
from rekindle.names import is_text

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(/.*)", re.DOTALL)
"""Two characters at least: a single letter is a drive of Windows."""


def placed(path: object, what: str = "a database") -> str:
    """The absolute local path, or the URI, that a path or URI stands for; refuses what is neither.

    >>> placed("file:/data/my shop"), placed("file:///data/my%20shop")
    ('/data/my shop', '/data/my shop')
    >>> placed("FILE://localhost/data"), placed("s3://bucket/data"), placed("hdfs:/data")
    ('/data', 's3://bucket/data', 'hdfs:///data')
    """
    path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(path, str) or not path or "\0" in path or not is_text(path):
        raise DefinitionError(
            f"{what} cannot be at {path!r}", hint="give the path or URI of a directory"
        )
    found = _SCHEME.fullmatch(path)
    if found is None:
        return path if "://" in path else os.path.abspath(path)
    scheme, rest = found[1].lower(), found[2]
    if scheme != "file":
        return path if rest.startswith("//") else f"{scheme}://{rest}"
    if not rest.startswith("//"):
        return os.path.abspath(rest)
    uri = urlsplit(path)
    if uri.netloc.lower() not in ("", "localhost"):
        raise DefinitionError(
            f"'{path}' names the host '{uri.netloc}', and files are those of this machine",
            hint=f"write file:///{uri.netloc}{uri.path} if '{uri.netloc}' is a directory",
        )
    # From the text: what urlsplit takes for a query or a fragment is a part of the name here.
    return os.path.abspath(unquote(path.split("//", 1)[1][len(uri.netloc) :]))


def database_place(path: object) -> str:
    """The place of a database that a user names; refuses what cannot be one."""
    place = placed(path)
    if is_local(place) and os.path.exists(place) and not os.path.isdir(place):
        raise DefinitionError(
            f"'{path}' is a file, and a database is a directory",
            hint="name a directory; it is made if it does not exist",
        )
    return place


def is_local(place: str) -> bool:
    """Is this a directory of a mounted file system?"""
    return "://" not in place
