"""The paper's worked example, k-means and PageRank: h, ⊗, the diffusion and the answer as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import UnsupportedError
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.inference import Joins
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.iteration import iteration
from rekindle.mrql_language.lineage import annotate
from rekindle.mrql_language.normalise import normalise
from rekindle.mrql_language.parse import parse_expression
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.split import split
from rekindle.mrql_language.text import text
from rekindle.mrql_language.values import Bag, Record, Value

GOLDEN = Path(__file__).parent / "golden"
JOIN = "select (k, avg(y.D)) from x in S1, y in S2 where x.B = y.C group by k: x.A"
NESTED = "select x from x in S1 where x.D > sum(select y.C from y in S2 where x.A = y.B)"
DEFINITIONS = """
type point = < X: double, Y: double >;
function distance ( x: point, y: point ): double {
   sqrt(pow(x.X-y.X,2)+pow(x.Y-y.Y,2))
};
store graph_size := 4;
factor = 0.85;
graph = select (src,dst) from (src,dst) in G group by src;
"""
K_MEANS = """
repeat centroids = { < X: 3.0, Y: 3.0 >, < X: 7.0, Y: 7.0 > }
  step select ( < X: avg(s.X), Y: avg(s.Y) >, true )
         from s in P
        group by k: (select c from c in centroids order by distance(c,s))[0]
  limit 5
"""
PAGERANK = """
repeat nodes = select < id: key, rank: 1.0/graph_size as double, adjacent: al >
                 from (key,al) in graph
  step select ( < id: m.id, rank: n.rank, adjacent: m.adjacent >, true )
         from n in (select < id: key, rank: (1-factor)/graph_size+factor*sum(rank) >
                      from c in ( select < id: a, rank: n.rank/count(n.adjacent) >
                                    from n in nodes, a in n.adjacent ),
                           rank = c.rank
                     group by key: c.id),
              m in nodes
        where n.id = m.id
  limit 5
"""
EDGES = ((1, 2), (2, 3), (3, 1), (1, 3), (4, 1))
POINTS = ((3.0, 3.5), (2.5, 3.0), (7.0, 7.5), (7.5, 6.5))


def record(**fields: Value) -> Record:
    return Record(tuple(fields.items()))


def points(of: tuple[tuple[float, float], ...]) -> Bag:
    return Bag(record(X=x, Y=y) for x, y in of)


def session(**tables: Bag) -> Session:
    found = Session(tables={"S1": Bag(), "S2": Bag(), "P": Bag(), "G": Bag(), **tables})
    assert all(result.error is None for result in found.run(DEFINITIONS))
    return found


def term(query: str) -> t.Term:
    return session().term(parse_expression(query))


def lines(*sections: tuple[str, object]) -> str:
    return "\n".join(f"{title}\n{body}\n" for title, body in sections)


def join() -> str:
    query = term(JOIN)
    found = split(query, Joins.ONE_TO_MANY)
    judgements = "\n".join(str(judgement) for judgement in found.components[0].judgements)
    return lines(
        ("query", JOIN),
        ("normal form (definition 2)", text(normalise(query))),
        ("with lineage (algorithm 1)", text(annotate(normalise(query)))),
        ("judgements", judgements),
        ("split, with rule 12", found),
        ("split, for any join", split(query)),
    )


def nested() -> str:
    query = term(NESTED)
    return lines(("query", NESTED), ("unnested", text(query)), ("split", split(query)))


def k_means() -> str:
    return lines(("query", K_MEANS.strip()), ("step", iteration(term(K_MEANS))))


def pagerank() -> str:
    return lines(("query", PAGERANK.strip()), ("step", iteration(term(PAGERANK))))


@pytest.mark.parametrize("made", [join, nested, k_means, pagerank], ids=lambda made: made.__name__)
def test_texts(made: object) -> None:
    assert made() == (GOLDEN / f"{made.__name__}.txt").read_text()  # type: ignore[operator, attr-defined]


def test_the_worked_example_has_the_papers_lineage_merger_and_answer() -> None:
    """Sections 2 and 10: a group has the lineage (k, (j, ((), ()))), a sum and a count."""
    found = split(term(JOIN), Joins.ONE_TO_MANY)
    assert [str(each.merger) for each in found.components] == ["↑[□×((+)×(+))]"]
    held = {
        "S1": Bag((record(A="a", B=1), record(A="a", B=2), record(A="b", B=3))),
        "S2": Bag((record(C=1, D=10), record(C=1, D=20), record(C=2, D=60), record(C=3, D=5))),
    }
    run = Interpreter(lambda source: held[source.name])
    (state,) = found.state(run)
    assert state == Bag(
        (
            (("a", (1, ((), ()))), ("a", (30, 2))),
            (("a", (2, ((), ()))), ("a", (60, 1))),
            (("b", (3, ((), ()))), ("b", (5, 1))),
        )
    )
    assert found.result(run, (state,)) == Bag((("a", 30.0), ("b", 5.0)))


def reading(base: Session, **tables: Bag) -> Interpreter:
    run = base.interpreter
    return Interpreter(lambda source: tables[source.name], run.functions, run.stored)


def test_k_means_follows_new_points() -> None:
    """The answer over the states equals the query, and new points of known clusters move it so."""
    base = session()
    found = iteration(base.term(parse_expression(K_MEANS)))
    first = reading(base, P=points(POINTS))
    centroids, states = found.begin(first)
    whole = session(P=points(POINTS)).evaluate(parse_expression(K_MEANS))
    assert centroids == whole == Bag((record(X=2.75, Y=3.25), record(X=7.25, Y=7.0)))
    assert [len(state) for state in states] == [2]
    more = (*POINTS, (3.0, 3.0), (7.0, 7.0))
    came, states = found.advance(first, states, reading(base, P=points(more[4:])), threshold=1.0)
    again = session(P=points(more)).evaluate(parse_expression(K_MEANS))
    assert came == again == Bag((record(X=8.5 / 3, Y=9.5 / 3), record(X=21.5 / 3, Y=7.0)))
    assert [len(state) for state in states] == [2]


def test_pagerank_by_its_states_equals_the_query() -> None:
    base = session()
    found = iteration(base.term(parse_expression(PAGERANK)))
    run = reading(base, G=Bag(EDGES))
    ranks, states = found.begin(run)
    whole = session(G=Bag(EDGES)).evaluate(parse_expression(PAGERANK))
    assert ranks == whole
    with pytest.raises(UnsupportedError, match="no key to be followed by"):
        found.advance(run, states, reading(base, G=Bag(((2, 4),))))
