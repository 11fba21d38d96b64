"""Errors of Spark about a scalar expression, in words of the text that the user wrote.

Spark reads an expression with names of ours in the place of what `for` binds, inside of a query of
ours. What it says of these is nothing that the user could find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rekindle.errors import StatementError, did_you_mean
from rekindle.frontends.comprehension.syntax import Call, Expression, Group, Path, Scalar
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import Record


@contextmanager
def naming_unbound(
    pieces: Iterable[str | Expression], scope: Mapping[str, KeyTerm | RingTerm]
) -> Iterator[None]:
    """Errors of a block about an expression say what of its text cannot be read, or is unknown."""
    pieces = list(pieces)
    try:
        yield
    except StatementError as error:
        said = f"{error.message} {error.detail}"
        if "PARSE_SYNTAX_ERROR" in said:
            raise StatementError(
                f"'{_written(pieces)}' is no expression of Spark SQL",
                hint="something is missing, too much, or out of place in it",
            ) from error
        for path in _paths(pieces) if "UNRESOLVED_COLUMN" in said else ():
            name = path.names[0]
            if name.lower() not in scope and f"`{name}`" in said:
                raise path.place.error(
                    f"unknown name '{'.'.join(path.names)}'", _hint(name, scope)
                ) from error
        raise


def _hint(name: str, scope: Mapping[str, KeyTerm | RingTerm]) -> str:
    """What was meant: a field of something that is bound, or a name like it."""
    fields = [
        f"{variable}.{field}"
        for variable, bound in scope.items()
        if isinstance(bound.type, Record)
        for field in bound.type.names
        if field.lower() == name.lower()
    ]
    if fields:
        return f"did you mean {' or '.join(fields)}?"
    return did_you_mean(name, scope) or f"bound are: {', '.join(scope) or 'no names'}"


def _written(pieces: Iterable[str | Expression]) -> str:
    """The text of an expression, without that of collections in it."""
    found = []
    for piece in pieces:
        match piece:
            case str():
                found.append(piece)
            case Path(names):
                found.append(".".join(names))
            case Group(inner):
                found.append(f"({_written([inner])})")
            case Scalar(parts):
                found.append(_written(parts))
            case Call(name, arguments):
                found.append(f"{name}({', '.join(_written([each]) for each in arguments)})")
            case _:
                found.append("...")
    return "".join(found).strip()


def _paths(pieces: Iterable[str | Expression]) -> Iterator[Path]:
    """The names in an expression, but for those in collections."""
    for piece in pieces:
        match piece:
            case Path():
                yield piece
            case Group(inner):
                yield from _paths([inner])
            case Scalar(parts):
                yield from _paths(parts)
            case Call(_, arguments):
                yield from _paths(arguments)
