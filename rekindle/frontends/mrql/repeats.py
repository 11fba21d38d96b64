"""`repeat` with a small limit: its steps one after the other, each a part of WITH.

A step that gives pairs (value, flag) is followed by another while some flag holds; without flags,
while its collection grows. Where that depends on the rows, a step is guarded by the flags of the
one before: its rows where one of them holds, else the rows that there were.

Collections that are repeated together, as a tuple, have as many steps as the limit says.

Without a limit, or with a large one, it is a recursion of the view (`loops.py`), of which each step
says by a column whether another follows. While it grows, the first step is taken before the
recursion: it is compared with no rows, and all others with the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from rekindle.calculus.terms import Bound
from rekindle.errors import UnsupportedError
from rekindle.frontends.iteration import LIMIT
from rekindle.frontends.mrql.blocks import Block, Branch, Condition, Item, Relation, alias, relation
from rekindle.frontends.mrql.forms import component_of
from rekindle.frontends.mrql.loops import Loop, Turning
from rekindle.frontends.mrql.scope import Scope
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    Sql,
    Tup,
    Value,
    component,
    ddl,
    leaves,
    mapped,
    packed,
    type_of,
    unified,
    unpacked,
)
from rekindle.mrql_language import terms as t
from rekindle.names import quoted

if TYPE_CHECKING:
    from rekindle.frontends.mrql.compile import Compiler

STEPS = 100
"""The most steps that are written out."""


def repeated(compiler: Compiler, term: t.Repeat, scope: Scope) -> Relation:
    """What the last step gives."""
    steps = _limit(compiler, term)
    assert isinstance(term.step.shape, str)
    if steps is None or (steps > STEPS and compiler.view is not None):
        return looped(compiler, term, scope, steps)
    _check_steps(steps)
    if steps < 1:
        return compiler.closed(term.start, scope)
    compiler.paths.append("repeat: its steps one after the other")
    current = compiler.part(compiler.branches(term.start, scope.fresh()))
    grows = _flag(current.row) is not None
    before: Relation | None = None
    going: Sql | None = None
    flags = current
    for _ in range(steps):
        inner = scope.fresh().having(**{term.step.shape: current})
        step = compiler.branches(term.step.body, inner)
        found = compiler.part(step)
        if grows or _flag(found.row) is None:
            grows = True
            step = [_with_growth(found, before)]
            found = compiler.part(step)
        constant = all(packed(component(each.value, 1)).text == "true" for each in step)
        if going is not None:
            found = _unless_done(compiler, found, current, flags, going)
        before = current = Relation(found.text, component(found.row, 0))
        if not constant or going is not None:
            going = packed(component(found.row, 1))
            flags = found
    return current


def repeated_all(compiler: Compiler, term: t.Repeat, scope: Scope) -> list[Relation]:
    """What the last step gives of each of the collections that are repeated together."""
    steps = _limit(compiler, term)
    assert steps is not None, "a repeat over a tuple has a limit"
    shape = term.step.shape
    names = [each for each in shape if isinstance(each, str)]
    if len(names) != len(shape):
        raise UnsupportedError("a repeat over a tuple has to be over collections")

    def each_of(of: t.Term, inner: Scope) -> list[list[Branch]]:
        parts = [component_of(of, i) for i in range(len(names))]
        fits = (
            len(of.items) == len(names)
            if isinstance(of, t.Tuple)
            else all(compiler.is_collection(each, inner) for each in parts)
        )
        if not fits:
            raise UnsupportedError(
                "a repeat over a tuple has to begin with one of collections, and give one",
                detail=f"there are {len(names)}: {', '.join(map(_said, names))}",
            )
        return [compiler.branches(part, inner.fresh()) for part in parts]

    if steps > STEPS and compiler.view is not None:
        return looped_together(compiler, names, term, scope, steps, each_of)
    _check_steps(steps)
    compiler.paths.append("repeat: its steps one after the other")
    current = [compiler.part(each) for each in each_of(term.start, scope)]
    for _ in range(steps):
        inner = scope.fresh().having(**dict(zip(names, current, strict=True)))
        current = [compiler.part(each) for each in each_of(term.step.body, inner)]
    return current


def _said(name: str) -> str:
    """A variable as the text has it."""
    return name.partition(".")[0]


def looped_together(
    compiler: Compiler,
    names: Sequence[str],
    term: t.Repeat,
    scope: Scope,
    limit: int,
    each_of: Callable[[t.Term, Scope], list[list[Branch]]],
) -> list[Relation]:
    """What the end of a recursion of several collections gives, of each."""
    _check_may_loop(compiler)
    called = f"·{compiler.view}·{len(compiler.loops) + 1}"
    titles = [called, *(f"{called}·{i}" for i in range(2, len(names) + 1))]
    compiler.paths.append("repeat: a recursion, exact: a change goes through its iterations")
    compiler.is_looping = True
    try:
        starts = [relation(each) for each in each_of(term.start, scope)]
        # A type that one collection gets may be that of another a step later.
        for _ in range(3 * len(names)):
            current = [_named_relation(*each) for each in zip(titles, starts, strict=True)]
            inner = scope.fresh().having(**dict(zip(names, current, strict=True)))
            found = [relation(each) for each in each_of(term.step.body, inner)]
            rows = [unified([a.row, b.row]) for a, b in zip(starts, found, strict=True)]
            if all(_types(x) == _types(a.row) for (x, _), a in zip(rows, starts, strict=True)):
                break
            starts = [_over(a, x) for a, (x, _) in zip(starts, rows, strict=True)]
        else:
            raise _other_types()
    finally:
        compiler.is_looping = False
    parts = zip(titles, starts, current, found, (after for _, after in rows), strict=True)
    iterated = tuple(Iterated(*each) for each in parts)
    compiler.loops.append(Unwritten(iterated, None, limit, Bound.RESULT))
    return [_result(each) for each in iterated]


def looped(compiler: Compiler, term: t.Repeat, scope: Scope, limit: int | None) -> Relation:
    """What the end of a recursion gives."""
    _check_may_loop(compiler)
    assert isinstance(term.step.shape, str)
    name = f"·{compiler.view}·{len(compiler.loops) + 1}"
    compiler.paths.append("repeat: a recursion, exact: a change goes through its iterations")
    compiler.is_looping = True
    try:
        start = relation(compiler.branches(term.start, scope.fresh()))
        grows = (
            _flag(start.row) is not None or _flag(_step(compiler, term, start, scope).row) is None
        )
        if grows:
            # The first step is compared with nothing.
            start = _step(compiler, term, compiler.part([_rows_of(start)]), scope)
        for _ in range(3):
            current = _named_relation(name, start)
            found = _step(compiler, term, current, scope)
            value = found.row if grows else component(found.row, 0)
            first, after = unified([start.row, value])
            if _types(first) == _types(start.row):
                break
            start = _over(start, first)
        else:
            raise _other_types()
    finally:
        compiler.is_looping = False
    flag = None if grows else packed(component(found.row, 1))
    bound = Bound.ERROR if limit is None else Bound.RESULT
    steps = LIMIT if limit is None else limit - grows
    only = Iterated(name, start, current, found, after)
    compiler.loops.append(Unwritten((only,), flag, steps, bound))
    return _result(only)


def _check_may_loop(compiler: Compiler) -> None:
    if compiler.view is None or compiler.is_looping:
        raise UnsupportedError(
            "a repeat without a small limit is a recursion of a view, and of nothing else",
            detail=f"not of the step of another, and not of a query; small is at most {STEPS}",
            hint="create a view by it: db.create_view(name, rekindle.mrql(...))",
        )


def _other_types() -> UnsupportedError:
    return UnsupportedError(
        "the step of a repeat gives other types than it begins with",
        hint="write: e as long, e as double",
    )


def _named_relation(name: str, like: Relation) -> Relation:
    """The relation that is iterated, by the name that it has in the step."""
    return Relation(lambda: f"SELECT * FROM {quoted(name)}", _named(like.row))


def _result(iterated: Iterated) -> Relation:
    """The relation at the end."""
    text = f"SELECT * FROM {quoted(f'{iterated.name}·result')}"
    return Relation(lambda: text, iterated.current.row)


@dataclass(frozen=True, slots=True)
class Iterated:
    """One relation of a loop: what it is at first, as the step reads it, and after the step."""

    name: str
    start: Relation
    current: Relation
    found: Relation
    after: Value
    """A row of the step as the relation holds it."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A loop whose texts are known when all is compiled."""

    iterated: tuple[Iterated, ...]
    flag: Sql | None
    """Whether another step follows; None if it does while the relation grows."""
    limit: int
    bound: Bound

    def written(self, whole: Callable[[str], str]) -> Loop:
        """The loop; `whole` gives a query with the parts that it names."""
        only, *others = (
            Turning(each.name, whole(_first(each)), whole(self._after(each)))
            for each in self.iterated
        )
        return Loop(only.name, only.first, only.step, self.limit, self.bound, tuple(others))

    def _after(self, of: Iterated) -> str:
        shown, step = _columns(of.after), of.found.text()
        if len(self.iterated) > 1:
            return f"SELECT {shown} FROM ({step})"
        if self.flag is not None:
            return f"SELECT {shown}, coalesce({self.flag.text}, false) AS going FROM ({step})"
        # Without rows there is no group: where nothing was left the step before was the last.
        return (
            f"SELECT {shown}, now.n > before.n AS going FROM ({step}) "
            f"CROSS JOIN (SELECT count(*) AS n FROM ({step}) GROUP BY true) AS now "
            f"CROSS JOIN (SELECT count(*) AS n FROM ({of.current.text()}) GROUP BY true) "
            "AS before"
        )


def _first(of: Iterated) -> str:
    return f"SELECT {_columns(of.start.row)} FROM ({of.start.text()})"


def _step(compiler: Compiler, term: t.Repeat, current: Relation, scope: Scope) -> Relation:
    assert isinstance(term.step.shape, str)
    inner = scope.fresh().having(**{term.step.shape: current})
    return relation(compiler.branches(term.step.body, inner))


def _rows_of(found: Relation) -> Branch:
    name = alias()
    return Branch(Block([found.item(name)]), found.over(name))


def _types(row: Value) -> list[str]:
    return [ddl(leaf.type) for leaf in leaves(row)]


def _columns(row: Value) -> str:
    return ", ".join(f"{leaf.text} AS c{i}" for i, leaf in enumerate(leaves(row)))


def _named(row: Value) -> Value:
    numbers = count()
    return mapped(row, lambda each: Sql(f"c{next(numbers)}", each.type))


def _over(found: Relation, row: Value) -> Relation:
    """The relation with its rows in another form."""
    return Relation(lambda: f"SELECT {_columns(row)} FROM ({found.text()})", _named(row))


def _check_steps(steps: int) -> None:
    if steps > STEPS:
        raise UnsupportedError(f"only a repeat with a limit of at most {STEPS} is followed")


def _limit(compiler: Compiler, term: t.Repeat) -> int | None:
    """How many steps there are at the most; None if nothing is said."""
    if term.limit is None:
        return None
    limit = term.limit
    while isinstance(limit, t.Call) and limit.function.startswith("as "):
        limit = limit.arguments[0]
    if isinstance(limit, t.Stored):
        limit = t.Constant(compiler.known.stored[limit.name])
    if not isinstance(limit, t.Constant) or not isinstance(limit.value, int):
        raise UnsupportedError(
            "a repeat with a limit that is no number cannot be followed",
            hint="write limit n with a number, or no limit",
        )
    return int(limit.value)


def _unless_done(
    compiler: Compiler, found: Relation, before: Relation, flags: Relation, going: Sql
) -> Relation:
    """The rows of the step, or those before it where no flag says to go on."""
    name = alias()
    shown = f"SELECT coalesce(bool_or({going.text}), false) AS g FROM ({flags.text()})"
    item = Item(name, "CROSS JOIN", lambda: f"({shown}) AS {name}")
    read = frozenset((name,))
    yes, no = Block(), Block()
    rows, old = alias(), alias()
    for block, relation_, each, test in (
        (yes, found, rows, f"{name}.g"),
        (no, before, old, f"NOT {name}.g"),
    ):
        block.add(relation_.item(each))
        block.add(item)
        block.where.append(Condition(Sql(test, BOOLEAN, read)))
    stopped = Tup((before.over(old), Sql("false", BOOLEAN)))
    return compiler.part([Branch(yes, found.over(rows)), Branch(no, stopped)])


def _with_growth(found: Relation, before: Relation | None) -> Branch:
    """The rows of a step, each with whether they are more than those of the step before."""
    rows, now, then = alias(), alias(), alias()

    def counted(each: Relation, name: str) -> Item:
        return Item(
            name, "CROSS JOIN", lambda: f"(SELECT count(*) AS n FROM ({each.text()})) AS {name}"
        )

    block = Block([found.item(rows), counted(found, now)])
    size, read = "0", frozenset((now,))
    if before is not None:
        block.add(counted(before, then))
        size, read = f"{then}.n", frozenset((now, then))
    return Branch(block, Tup((found.over(rows), Sql(f"({now}.n > {size})", BOOLEAN, read))))


def _flag(row: Value) -> Sql | None:
    """The flag of a pair (value, flag)."""
    made = unpacked(row) if isinstance(row, Sql) else row
    if isinstance(made, Tup) and len(made.items) == 2 and type_of(made.items[1]) == BOOLEAN:
        return packed(made.items[1])
    return None
