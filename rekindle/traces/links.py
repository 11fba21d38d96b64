"""No way out of a directory: symbolic links under the root of a local store are refused.

A directory may come from anywhere, and a link in it names a file that its writer chose: it would be
read as ours, or, worse, listed as garbage and removed. The root itself may be a link; what is under
it may not. Rejected: following links that stay inside, for which nobody has a use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from rekindle.errors import CorruptionError


def refuse_links(root: str, path: str) -> None:
    """Raise if a relative path under the root passes through a symbolic link, or leaves it."""
    place = root
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." or "\0" in part:
            raise _outside(path)
        place = f"{place}/{part}"
        if os.path.islink(place):
            raise _link(root, place)


def files_within(root: str, directory: str) -> Iterator[str]:
    """The files under a directory of the root, at any depth, as relative paths in no order."""
    refuse_links(root, directory)
    waiting = [f"{root}/{directory}".rstrip("/")]
    while waiting:
        current = waiting.pop()
        try:
            found = list(os.scandir(current))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for each in found:
            if each.is_symlink():
                raise _link(root, each.path)
            if each.is_dir(follow_symlinks=False):
                waiting.append(each.path)
            elif each.is_file(follow_symlinks=False):
                yield each.path[len(root) + 1 :]


def _link(root: str, place: str) -> CorruptionError:
    return CorruptionError(
        f"'{place[len(root) + 1 :]}' is a symbolic link",
        detail=f"in the database directory {root}",
        hint="a database has no links; put the files themselves in their place",
    )


def _outside(path: str) -> CorruptionError:
    return CorruptionError(f"'{path[:80]}' does not lie in the database directory")
