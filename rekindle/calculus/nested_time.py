"""Nested time as a column: a term over rows that are stamped with an iteration.

Inside a recursive scope a collection is a stream of its own, one value for each iteration, and the
scope as a whole is evaluated once for each transaction: streams of streams (DBSP, section 6). Here
the inner stream is kept as its changes, each row stamped with the iteration at which it comes or
goes, so that the collection at iteration i is the sum of the rows stamped at most i. Lifting a term
to such collections is again a term:

| operator          | over stamped rows                                                       |
|-------------------|-------------------------------------------------------------------------|
| a term outside    | δ₀: all its rows are stamped 0                                          |
| linear            | the same; the stamp is carried along                                    |
| join              | a pair comes into being with the later of its two rows                  |
| per key           | f at every iteration, as its changes from one iteration to the next     |
| z⁻¹ (the back edge) | the stamp plus one                                                    |
| ∫ (the way out)   | the stamp is forgotten                                                  |

What it becomes over streams of transactions is derived by the ordinary rules, since it is an
ordinary term: (↑(↑R)^Δ)^Δ of circuit (6.1) is the incremental version of `stamped(R)`.

A scope inside a scope needs nothing more. At every iteration of the outer one the inner one comes
to its own end, so ↑fix(R) = fix(↑R): the lifted recursion is a recursion over rows with the outer
stamp, which is stamped once more when its turn comes. Times are then pairs, ordered when both
their parts are; a join of rows at two times is at the least time after both.

An aggregate of all rows, without keys, has a row over no rows too:

    γ[; m](x) = π(γ[1; m](x)) + (γ[; m](∅) ▷ x)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from rekindle.calculus.bodies import Measures
from rekindle.calculus.derived import LEFT, RIGHT, definition
from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Call, Column, Literal, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    STAMP,
    STAMPED,
    Aggregate,
    Answer,
    Bound,
    Condition,
    Constant,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Join,
    Linearity,
    Map,
    Negate,
    OuterJoin,
    PerGroup,
    SemiJoin,
    Source,
    Term,
    UnionAll,
    sources,
    with_children,
)
from rekindle.calculus.walks import fold
from rekindle.errors import UnsupportedError

Named = tuple[str, Scalar]


def stamped_bodies(fix: Fix) -> tuple[Term, ...]:
    """The bodies of a recursion over stamped rows; a source of one of its names is stamped.

    With seeds a relation holds its seed at iteration 0 and its body's value after that. What it
    holds at iteration n is what n iterations give, so the last stamp of a recursion that is over
    by its limit n is n - 1.
    """
    variables: dict[str, Term] = {
        name: Source(name, fix.schema_of(name) + STAMPED) for name in fix.names
    }
    is_once = fix.bound is Bound.RESULT and fix.limit == 1
    for name, seed in zip(fix.names, fix.seeds, strict=False):
        first = (entered(seed, 0), *(() if is_once else (Negate(entered(seed, 1)),)))
        variables[name] = UnionAll((variables[name], *first))
    return tuple(map(_Lifting(variables).whole, fix.bodies))


def entered(term: Term, iteration: int) -> Term:
    """δ₀: a term from outside the scope, all of whose rows come at one iteration."""
    kept = _columns(term)
    return Map(term, (*kept, (STAMP, Literal(iteration, "int"))))


def stamped(term: Term, variables: Mapping[str, Term]) -> Term:
    """The term over stamped rows, with what its variables are there."""
    return _Lifting(variables).whole(term)


class _Lifting:
    """Lifts terms that read some variables; each node once, whatever reads it."""

    def __init__(self, variables: Mapping[str, Term]) -> None:
        self.variables = variables
        # An identity is a node's own only as long as the node is held.
        self._lifted: dict[int, tuple[Term, Term]] = {}
        self._names: dict[int, tuple[Term, frozenset[str]]] = {}

    def reads(self, term: Term) -> bool:
        """Does the term depend on a variable?"""

        def below(node: Term) -> tuple[Term, ...]:
            return () if id(node) in self._names else node.children

        def names(node: Term, inputs: tuple[frozenset[str], ...]) -> frozenset[str]:
            if id(node) not in self._names:
                own = {node.name} if isinstance(node, Source) else set()
                bound = node.names if isinstance(node, Fix) else ()
                self._names[id(node)] = node, frozenset(own.union(*inputs).difference(bound))
            return self._names[id(node)][1]

        return not fold(term, below, names).isdisjoint(self.variables)

    def whole(self, term: Term) -> Term:
        """The lifted term, made from below: no call is far inside another."""

        def below(node: Term) -> tuple[Term, ...]:
            inside = () if isinstance(node, Fix) else node.children
            return tuple(child for child in inside if self.reads(child))

        return fold(term, below, lambda node, _: self.term(node))

    def term(self, term: Term) -> Term:
        """The lifted term of a node whose inputs are lifted already, or are few."""
        if id(term) not in self._lifted:
            self._lifted[id(term)] = term, self._made(term)
        return self._lifted[id(term)][1]

    def _made(self, term: Term) -> Term:
        if not self.reads(term):
            return entered(term, 0)
        match term:
            case Source():
                return self.variables[term.name]
            case Map():
                stamp = _stamp(len(term.child.schema))
                return Map(self.term(term.child), (*term.outputs, (STAMP, stamp)))
            case Filter() | Negate():
                return with_children(term, (self.term(term.child),))
            case UnionAll():
                return UnionAll(tuple(map(self.term, term.children)))
            case FlatMap():
                return _flat_map(term, self.term(term.child))
            case Join():
                sides = (self.term(s) if self.reads(s) else s for s in term.children)
                return _join(term, *sides)
            case Distinct():
                return Distinct(self.term(term.child), term.stamps + 1)
            case PerGroup(body=Measures()) if not term.keys:
                return self.term(_of_all(term))
            case PerGroup():
                # Which rows of a group are near a change depends on the iteration: all are seen.
                child = self.term(term.child)
                return replace(term, child=child, reach=None, stamps=term.stamps + 1)
            case Fix():
                return self._recursion(term)
            case _ if term.linearity is Linearity.DERIVED:
                return self.term(_expanded(term))
        raise _refusal(term)

    def _recursion(self, fix: Fix) -> Term:
        """↑fix(R) = fix(↑R): its own relations have the outer stamp too."""
        own: dict[str, Term] = {
            name: Source(name, fix.schema_of(name) + STAMPED) for name in fix.names
        }
        inside = _Lifting({**self.variables, **own})
        return replace(
            fix,
            bodies=tuple(map(inside.whole, fix.bodies)),
            seeds=tuple(map(self.whole, fix.seeds)),
        )


def by_levels(term: Term, name: str) -> Term:
    """The term at every level by itself; its source `name` has the level as its last column.

    A level is no time: what is of one level is computed of what is of the same level, and not of
    what there is by then. To a join with something else and to a row of its own it is one column
    more, and so it is to a distinct.
    """
    schema = next(schema for source, schema in sources(term).items() if source == name)
    return _Levels({name: Source(name, schema + STAMPED)}).whole(term)


class _Levels(_Lifting):
    """The same over rows that have the level that they are of."""

    def _made(self, term: Term) -> Term:
        match term:
            case Distinct():
                return Distinct(self.term(term.child))
            case Source() | Map() | Filter() | Negate() | FlatMap():
                return super()._made(term)
            case UnionAll() if all(map(self.reads, term.children)):
                return super()._made(term)
            case Join() if all(map(self.reads, term.children)):
                return _of_one_level(term, *map(self.term, term.children))
            case Join():
                return super()._made(term)
            case SemiJoin() | OuterJoin() if not self.reads(term.right):
                return super()._made(term)
        raise _refusal(term)


def _stamp(position: int) -> Column:
    return Column(position, "int", nullable=False)


def _columns(term: Term, offset: int = 0) -> tuple[Named, ...]:
    return tuple(
        (f.name, Column(offset + i, f.type, f.nullable)) for i, f in enumerate(term.schema)
    )


def _flat_map(term: FlatMap, child: Term) -> Term:
    """The generated columns come last, so the stamp is moved behind them."""
    inner = FlatMap(child, term.generator, (*term.kept, len(term.child.schema)))
    kept = len(term.kept)
    positions = [*range(kept), *range(kept + 1, len(inner.schema))]
    fields = inner.schema.fields
    columns = tuple(
        (fields[i].name, Column(i, fields[i].type, fields[i].nullable)) for i in positions
    )
    return Map(inner, (*columns, (STAMP, _stamp(kept))))


def _join(term: Join, left: Term, right: Term) -> Term:
    """A side from outside is there from the beginning and needs no stamp."""
    joined = Join(left, right, term.left_keys, term.right_keys)
    width = len(term.left.schema)
    stamps = []
    if left is not term.left:
        stamps.append(_stamp(width))
    if right is not term.right:
        stamps.append(_stamp(len(joined.schema) - 1))
    later: Scalar = stamps[0] if len(stamps) == 1 else Call("greatest", tuple(stamps), "int")
    columns = (*_columns(term.left), *_columns(term.right, len(left.schema)), (STAMP, later))
    paired = Map(joined, columns)
    return paired if term.residual is None else Filter(paired, term.residual)


def _of_one_level(term: Join, left: Term, right: Term) -> Term:
    """The pairs of rows of the same level."""
    ours, theirs = _stamp(len(term.left.schema)), _stamp(len(term.right.schema))
    joined = Join(left, right, (*term.left_keys, ours), (*term.right_keys, theirs))
    columns = (*_columns(term.left), *_columns(term.right, len(left.schema)), (STAMP, ours))
    paired = Map(joined, columns)
    return paired if term.residual is None else Filter(paired, term.residual)


def _expanded(term: Term) -> Term:
    """A derived operator as its definition over its own inputs."""
    given = dict(zip((LEFT, RIGHT), term.children, strict=False))

    def substitute(inner: Term) -> Term:
        if isinstance(inner, Source):
            return given[inner.name]
        return with_children(inner, tuple(map(substitute, inner.children)))

    return substitute(definition(term))


def _of_all(term: PerGroup) -> Term:
    """An aggregate without keys as one by a constant key, and its row over no rows."""
    child, body = term.child, term.body
    assert isinstance(body, Measures)
    key = Field("one", "int", nullable=False)
    keyed = Map(child, (*_columns(child), (key.name, Literal(1, key.type))))
    some = PerGroup(keyed, (len(child.schema),), Measures(Schema((key,)), body.measures))
    kept = tuple(
        (f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(some.schema) if i > 0
    )
    nothing = Map(_NOTHING, tuple((f.name, Literal(None, f.type)) for f in child.schema))
    none = SemiJoin(PerGroup(nothing, (), body), child, (Condition(),), Answer.UNMATCHED)
    return UnionAll((Map(some, kept), none))


_NOTHING = Constant(Schema.of(one="int"), Relation.of(pa.table({"c0": pa.array([], pa.int32())})))


def _refusal(term: Term) -> UnsupportedError:
    match term:
        case Aggregate():
            what = "an aggregate that is kept as running sums of a relation"
        case _:
            what = f"{type(term).__name__} of a relation"
    return UnsupportedError(
        f"{what} cannot be part of that relation's own recursion",
        hint="compute it in a view over the recursive one",
    )
