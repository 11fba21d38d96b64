"""Names as SQL writes them: between backticks, with those inside doubled."""

from __future__ import annotations

QUOTED = "`(?:[^`]|``)+`"
"""The pattern of a quoted name."""


def is_text(text: str) -> bool:
    """Whether a text can be written in UTF-8, as everything is that is stored or sent to Spark.

    >>> is_text("é"), is_text(chr(0xD800))
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(name: str) -> str:
    """The name between backticks, also where a query reads a column's name as text.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def unquoted(text: str) -> str:
    """The name that a text stands for, which is itself unless it is quoted.

    >>> unquoted("`a``b`"), unquoted("a")
    ('a`b', 'a')
    """
    return text[1:-1].replace("``", "`") if text.startswith("`") else text
