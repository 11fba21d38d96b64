"""Which monoid merges a term's values: ρ ⊢ e : ⊕ (figure 2, lemma 1 and rule 12).

The law of a judgement `ρ ⊢ e : ⊗`: when every variable v of ρ, and every stream, becomes a merge
v ⊕ v' of its own monoid, e's value becomes the merge by ⊗ of its values over the parts,

    e(v ⊕ v', S ⊎ ΔS) = e(v, S) ⊗ e(v', ΔS)

□ stands for what is the same in both. Rules beyond the paper's are marked: (5i) a cMap over what is
invariant, (5j) a cMap over groups whose function gives bags (the paper uses it in lemma 2), sums
and differences of sums, a sum times an invariant, tuples, and `if` with an invariant condition.

A join of two streams has no monoid in general: rows of different batches meet. `Joins` says what is
taken for true of them. ONE_TO_MANY is the paper's rule 12, which merges the 'one' side by □; what
it rests on (`ASSUMPTION`) is stronger than one-to-many, since a row does not meet the rows of later
batches. ANY assumes nothing: both sides are kept, and what pairs them is left to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.monoids import INVARIANT, SUM, UNION, Grouped, Invariant, Monoid, Times
from rekindle.mrql_language.text import text

Rho = Mapping[str, Monoid]


class Joins(Enum):
    """What is known of a coGroup of two streams."""

    ANY = "any"
    ONE_TO_MANY = "one-to-many"
    MANY_TO_ONE = "many-to-one"


ASSUMPTION = "all rows of a join key, of both streams, arrive in one batch"


@dataclass(frozen=True, slots=True)
class Judgement:
    """ρ ⊢ term : monoid, by a rule, from premises."""

    term: t.Term
    monoid: Monoid
    rule: str
    premises: tuple[Judgement, ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The derivation, conclusions before what they rest on."""
        yield f"{'  ' * depth}⊢ {text(self.term)} : {self.monoid}   ({self.rule})"
        for premise in self.premises:
            if premise.rule != "5b":
                yield from premise.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def assumes(self) -> bool:
        """Whether rule 12 is used for two streams."""
        return self.rule == "12" or any(premise.assumes for premise in self.premises)


def bind(shape: t.Shape, monoid: Monoid) -> dict[str, Monoid] | None:
    """The monoids of a shape's variables; None if the monoid cannot be taken apart."""
    if isinstance(shape, str):
        return {shape: monoid}
    if isinstance(monoid, Invariant):
        return dict.fromkeys(t.variables(shape), monoid)
    if not isinstance(monoid, Times) or len(monoid.parts) != len(shape):
        return None
    found: dict[str, Monoid] = {}
    for part, of in zip(shape, monoid.parts, strict=True):
        inner = bind(part, of)
        if inner is None:
            return None
        found |= inner
    return found


def infer(term: t.Term, rho: Rho, joins: Joins = Joins.ANY) -> Judgement | None:
    """The judgement on a term, or None where no rule gives one."""
    return _Inference(joins).judge(term, rho)


class _Inference:
    def __init__(self, joins: Joins) -> None:
        self._joins = joins

    def judge(self, term: t.Term, rho: Rho) -> Judgement | None:
        """The judgement by the first rule that fits."""
        if not t.sources(term):
            names = t.free(term)
            if all(isinstance(rho.get(name), Invariant) for name in names):
                return Judgement(term, INVARIANT, "5b")
        match term:
            case t.Var():
                return Judgement(term, rho[term.name], "5a") if term.name in rho else None
            case t.Source() | t.Read():
                return Judgement(term, UNION, "5a")
            case t.Reduce():
                return self._on_bags(term, term.monoid, "5c", (term.operand,), rho)
            case t.Union():
                return self._on_bags(term, UNION, "5d", (term.left, term.right), rho)
            case t.GroupBy():
                return self._on_bags(term, Grouped(UNION), "5f", (term.operand,), rho)
            case t.CoGroup():
                return self._co_group(term, rho)
            case t.CMap():
                return self._cmap(term, rho)
            case t.Tuple():
                parts = [self.judge(item, rho) for item in term.items]
                known = tuple(part for part in parts if part is not None)
                if len(known) < len(parts):
                    return None
                monoid = Times(tuple(part.monoid for part in known))
                return Judgement(term, monoid, "tuple", known)
            case t.Project():
                of = self.judge(term.operand, rho)
                if of is None or not isinstance(of.monoid, Times):
                    return None
                return Judgement(term, of.monoid.parts[term.index], "tuple", (of,))
            case t.If():
                return self._if(term, rho)
            case t.Call():
                return self._linear(term, rho)
            case _:
                return None

    def _on_bags(
        self, term: t.Term, monoid: Monoid, rule: str, operands: tuple[t.Term, ...], rho: Rho
    ) -> Judgement | None:
        """A rule whose premises are that the operands merge by ⊎."""
        premises = []
        for operand in operands:
            premise = self.judge(operand, rho)
            if premise is None or not _is_union(premise):
                return None
            premises.append(premise)
        return Judgement(term, monoid, rule, tuple(premises))

    def _co_group(self, term: t.CoGroup, rho: Rho) -> Judgement | None:
        left, right = self.judge(term.left, rho), self.judge(term.right, rho)
        if left is None or right is None:
            return None
        sides = (left.monoid, right.monoid)
        if sides == (UNION, UNION):
            one = {Joins.ONE_TO_MANY: 0, Joins.MANY_TO_ONE: 1}.get(self._joins)
            parts = tuple(INVARIANT if index == one else UNION for index in range(2))
            rule = "5g" if one is None else "12"
            return Judgement(term, Grouped(Times(parts)), rule, (left, right))
        if set(sides) == {INVARIANT, UNION}:
            return Judgement(term, Grouped(Times(sides)), "12, one side invariant", (left, right))
        return None

    def _cmap(self, term: t.CMap, rho: Rho) -> Judgement | None:
        operand = self.judge(term.operand, rho)
        if operand is None:
            return None
        monoid = operand.monoid
        if isinstance(monoid, Grouped):
            return self._over_groups(term, operand, monoid.of, rho)
        if monoid == UNION:
            rows = dict.fromkeys(t.variables(term.function.shape), INVARIANT)
            body = self.judge(term.function.body, {**rho, **rows})
            if body is not None and isinstance(body.monoid, Invariant):
                return Judgement(term, UNION, "5e", (operand,))
        if isinstance(monoid, Invariant):
            rows = dict.fromkeys(t.variables(term.function.shape), INVARIANT)
            body = self.judge(term.function.body, {**rho, **rows})
            if body is not None and body.monoid == UNION:
                return Judgement(term, UNION, "5i", (operand, body))
        return None

    def _over_groups(
        self, term: t.CMap, operand: Judgement, group: Monoid, rho: Rho
    ) -> Judgement | None:
        bound = bind(term.function.shape, Times((INVARIANT, group)))
        if bound is None:
            return None
        inner = {**rho, **bound}
        body = self.judge(term.function.body, inner)
        if body is not None and body.monoid == UNION:
            return Judgement(term, UNION, "5j", (operand, body))
        match term.function:
            case t.Lambda((k, _), t.Braces((t.Tuple((key, value)),))) if key == t.as_term(k):
                of = self.judge(value, inner)
                if of is not None:
                    return Judgement(term, Grouped(of.monoid), "5h", (operand, of))
        return None

    def _if(self, term: t.If, rho: Rho) -> Judgement | None:
        condition = self.judge(term.condition, rho)
        if condition is None or not isinstance(condition.monoid, Invariant):
            return None
        then, other = self.judge(term.then, rho), self.judge(term.otherwise, rho)
        if then is None or other is None:
            return None
        for one, two in ((then, other), (other, then)):
            if one.monoid == two.monoid or (one.monoid == UNION and two.term == t.EMPTY):
                return Judgement(term, one.monoid, "if", (condition, then, other))
        return None

    def _linear(self, term: t.Call, rho: Rho) -> Judgement | None:
        if term.function not in ("+", "-", "*") or len(term.arguments) != 2:
            return None
        left, right = (self.judge(side, rho) for side in term.arguments)
        if left is None or right is None:
            return None
        sides = [left.monoid, right.monoid]
        scaled = term.function == "*" and SUM in sides and INVARIANT in sides
        fits = scaled or (term.function != "*" and sides == [SUM, SUM])
        return Judgement(term, SUM, "linear", (left, right)) if fits else None


def _is_union(judgement: Judgement) -> bool:
    return judgement.monoid == UNION or judgement.term == t.EMPTY
