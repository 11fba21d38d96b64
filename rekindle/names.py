"""Names and texts as SQL writes them, between backticks and between quotes."""

from __future__ import annotations

import re

from rekindle.errors import DefinitionError

QUOTED = "`(?:[^`]|``)+`"
"""The pattern of a quoted name."""
RESERVED = ("_epoch", "_weight")
"""What changes have besides the columns of their table or view, which cannot be called so."""
HIDDEN = "·"
"""What the names of parts of a view have, which users do not see."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


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


def text(what: str, given: object) -> str:
    """The given text; `what` is what it should be, such as 'a comment'."""
    if not isinstance(given, str):
        raise DefinitionError(f"{what} is a text, not a {type(given).__name__}")
    if not is_text(given):
        raise DefinitionError(f"{what} cannot have half of a character pair (a lone surrogate)")
    return given


def is_hidden(name: str) -> bool:
    """Is it the name of a part of a view?"""
    return HIDDEN in name


def shown(name: str) -> str:
    """The name that users know: that of the table or view which a part is of.

    >>> shown("customers·orders"), shown("customers")
    ('customers', 'customers')
    """
    return name.partition(HIDDEN)[0]


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


def sql_name(name: str) -> str:
    """A name as SQL writes it, quoted only where it has to be.

    >>> sql_name("orders"), sql_name("a b")
    ('orders', '`a b`')
    """
    return name if _PLAIN.match(name) else quoted(name)


def sql_text(text: str) -> str:
    """A text between quotes.

    >>> sql_text("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
