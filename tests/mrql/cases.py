"""Random queries and data: S and R are streams of pairs of small numbers, D does not change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.parse import parse_expression
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.translate import Translator
from rekindle.mrql_language.unnest import unnest
from rekindle.mrql_language.values import Bag, Value

AGGREGATES = ("sum(v)", "count(v)", "avg(v)", "min(v)", "max(v)", "sum(v) - count(v)", "v")
KEYS = ("k", "k mod 2", "v mod 3", "(k, v mod 2)", "1")
TESTS = ("v > 0", "k <> v", "v mod 2 = 0 or k = 1", "true")
JOINED = "(k,v) in S, (k,w) in R"
FIXED = "(k,v) in S, (k,w) in D"


@dataclass(frozen=True, slots=True)
class Data:
    """The rows of the sources."""

    s: tuple[tuple[int, int], ...]
    r: tuple[tuple[int, int], ...]
    d: tuple[tuple[int, int], ...]

    def plus(self, other: Data) -> Data:
        return Data(self.s + other.s, self.r + other.r, self.d)

    def minus(self, other: Data) -> Data:
        def less(rows: tuple[tuple[int, int], ...], gone: tuple[tuple[int, int], ...]) -> Value:
            return tuple((Counter(rows) - Counter(gone)).elements())

        return Data(less(self.s, other.s), less(self.r, other.r), self.d)


def reader(data: Data) -> Interpreter:
    """An interpreter that reads the data."""
    held = {"S": Bag(data.s), "R": Bag(data.r), "D": Bag(data.d)}
    return Interpreter(lambda source: held[source.name])


def session() -> Session:
    found = Session(tables={"S": Bag(), "R": Bag(), "D": Bag()})
    found.definitions.tables["D"] = "invariant"
    return found


def direct(query: str) -> t.Term:
    """The term of a text, as it is written."""
    return Translator(session().definitions).expression(parse_expression(query))


def unnested(query: str) -> t.Term:
    return unnest(direct(query))


def over(query: str, data: Data) -> Value:
    """The value of a query by its meaning."""
    return reader(data).evaluate(direct(query))


pairs = st.tuples(st.integers(0, 3), st.integers(-3, 4))
rows = st.lists(pairs, max_size=6).map(tuple)
data = st.builds(Data, rows, rows, rows)


def _grouped(sources: str) -> st.SearchStrategy[str]:
    def build(head: tuple[str, ...], key: str, test: str, having: str) -> str:
        return (
            f"select (g, {', '.join(head)}) from {sources} where {test} group by g: {key}{having}"
        )

    heads = st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3).map(tuple)
    having = st.sampled_from(("", " having sum(v) > 1", " having count(v) > 1"))
    return st.builds(build, heads, st.sampled_from(KEYS), st.sampled_from(TESTS), having)


def _flat(sources: str) -> st.SearchStrategy[str]:
    heads = st.sampled_from(("(k, v)", "v + 1", "k"))
    return st.builds(
        lambda head, test, kind: f"select {kind} {head} from {sources} where {test}",
        heads,
        st.sampled_from(TESTS),
        st.sampled_from(("", "distinct")),
    )


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda query, form: form.format(query),
        inner,
        st.sampled_from(
            ("count({0})", "({0}) + ({0})", "exists({0})", "count({0}) * 2 - sum({{1,2}})")
        ),
    )


NESTED = st.sampled_from(
    (
        "select (k, v) from (k,v) in S where v > sum(select w from (j,w) in R where j = k)",
        "select (k, count(select w from (j,w) in R where j = k)) from (k,v) in S",
        "select k from (k,v) in S where not exists(select w from (j,w) in R where j = k)",
        "select (m, count(k)) from (k,s) in (select (k,sum(v)) from (k,v) in S group by k) "
        "group by m: s mod 3",
        "select (v, sum(select w from (j,w) in R where j = k), max(select w from (j,w) in D "
        "where j = v)) from (k,v) in S",
        "select (k, v, w, u) from (k,v) in S, (k,w) in R, (u,w) in S",
        "(select k from (k,v) in S) except (select k from (k,v) in R)",
        "(select k from (k,v) in S) intersect (select k from (k,v) in R)",
        "sum(select v from (k,v) in S) - count(R)",
        "select v from (k,v) in S order by v, k",
        "avg(select v from (k,v) in S)",
        "select (k, w, count(select v from (j,v) in S where j = k)) from (k,w) in D",
        "max(select v * w from (k,v) in S, (k,w) in D)",
    )
)
ONE = st.one_of(_grouped("(k,v) in S"), _flat("(k,v) in S"))
queries = st.one_of(
    NESTED,
    NESTED,
    ONE,
    _grouped(JOINED),
    _grouped(FIXED),
    _flat(JOINED),
    _flat(FIXED),
    _wrapped(ONE),
)
joins = st.one_of(_grouped(JOINED), _flat(JOINED))


def parts(given: Data, keys: Mapping[int, int]) -> tuple[Data, Data]:
    """The rows in two batches, each join key's in one of them."""

    def take(rows: tuple[tuple[int, int], ...], batch: int) -> tuple[tuple[int, int], ...]:
        return tuple(row for row in rows if keys.get(row[0], 0) == batch)

    first, second = (Data(take(given.s, i), take(given.r, i), given.d) for i in (0, 1))
    return first, second
