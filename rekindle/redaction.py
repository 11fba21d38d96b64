"""Text that may be shown: what opens a store is taken out of it.

A store is named by a URI, and a URI may carry the key that opens it. Whatever leaves the program as
words (an error, a `repr`, a line on the screen) passes through `without_secrets`; errors of ours do
so when they are made. Too much may be taken out, never too little: a key that somebody wrote
without escaping its slashes is taken for a key.
"""

from __future__ import annotations

import re

_SCHEME = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)"
_USER = re.compile(
    # Between quotes a secret may have blanks.
    rf"""(?<=['"]){_SCHEME}[^'"/:]+:[^'"]*@"""
    rf"""|{_SCHEME.replace("scheme", "bare")}(?:[^/\s'"@]*|[^\s'"/:]+:[^\s'"]*)@"""
)
_OPTION = re.compile(
    r"(?P<name>[?&;][^=&;\s'\"]*(?:secret|key|token|passw|sig|credential)[^=&;\s'\"]*=)[^&;\s'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """The text, with *** for users, passwords and keys in the URIs that it quotes.

    >>> without_secrets("no database at 's3://AKIA7:wJal/rX@bucket/orders'")
    "no database at 's3://***@bucket/orders'"
    >>> without_secrets("abfs://c@account/x?sig=a%2Fb&part=1")
    'abfs://***@account/x?sig=***&part=1'
    >>> without_secrets("s3://bucket/year=2026/a@b")
    's3://bucket/year=2026/a@b'
    """
    if "://" not in text:
        return text
    return _OPTION.sub(r"\g<name>***", _USER.sub(r"\g<scheme>\g<bare>***@", text))
