"""Which joins look up ranges, in what, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.calculus.scalars import Column, Literal
from rekindle.calculus.terms import Join, Range, RangeCondition
from rekindle.calculus.text import parse, to_text
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import ChangeSize, parts
from rekindle.circuit.explain import explain
from rekindle.circuit.nodes import Arrangement, Exchange, HalfJoin, RangeLookup, Side, Table
from rekindle.circuit.operators.half_join import told_apart
from rekindle.circuit.ranges import branches_of
from rekindle.errors import DefinitionError
from rekindle.incremental.pipeline import derive

READINGS = "source readings (device: bigint, t: bigint!, value: double)"
SHIFTS = "source shifts (id: bigint!, device: bigint, begins: bigint!, ends: bigint!)"
WITHIN = (
    "where and(less($5:bigint!, $1:bigint!):boolean, less($1:bigint!, $6:bigint!):boolean):boolean"
    " find left $1:bigint! from $2:bigint! to $3:bigint! find right $2:bigint! to $1:bigint!"
)
BETWEEN = f"join {WITHIN}\n  {READINGS}\n  {SHIFTS}"
BY_DEVICE = f"join on $0:bigint = $1:bigint {WITHIN}\n  {READINGS}\n  {SHIFTS}"
BY_KEY = f"join on $0:bigint = $0:bigint! {WITHIN}\n  {READINGS}\n  {SHIFTS}"


def _circuit(*texts: str) -> Circuit:
    circuit = Circuit()
    for line, key in ((READINGS, ()), (SHIFTS, (0,))):
        source = parse(line)
        circuit.table(Table(line.split()[1], source.schema, key, "1"))
    for i, text in enumerate(texts):
        term = parse(text)
        circuit.view(f"v{i}", derive(term), term.schema)
    return circuit


def _halves(circuit: Circuit) -> dict[Side, HalfJoin]:
    """The halves of a circuit's one join, by the side that changes."""
    halves = [node for node in circuit.nodes.values() if isinstance(node, HalfJoin)]
    assert len(halves) == 2
    return {half.change_side: half for half in halves}


def _arrangements(circuit: Circuit) -> list[Arrangement]:
    return [node for node in circuit.nodes.values() if isinstance(node, Arrangement)]


def test_both_halves_of_a_join_without_keys_look_up_ranges() -> None:
    circuit = _circuit(BETWEEN)
    halves = _halves(circuit)
    # The columns of a reading are 0 to 2 and its place is 3; of a shift 0 to 3, its ends 5 and 6.
    assert halves[Side.LEFT].lookup == RangeLookup(None, 3)
    assert halves[Side.RIGHT].lookup == RangeLookup(4, 5)
    readings, shifts = (circuit.nodes[halves[side].change] for side in (Side.LEFT, Side.RIGHT))
    assert isinstance(readings, Arrangement) and isinstance(shifts, Arrangement)
    assert readings.order == 3 and shifts.order == 4
    assert halves[Side.LEFT].against == shifts.id and halves[Side.RIGHT].against == readings.id
    assert halves[Side.LEFT].widths == (3, 4)


def test_beside_a_key_only_ranges_with_two_ends_are_looked_up() -> None:
    circuit = _circuit(BY_DEVICE)
    halves = _halves(circuit)
    assert halves[Side.LEFT].lookup is None
    assert halves[Side.RIGHT].lookup == RangeLookup(4, 5)
    shifts = circuit.nodes[halves[Side.LEFT].against]
    assert isinstance(shifts, Arrangement) and shifts.order is None


def test_a_primary_key_needs_no_range() -> None:
    """The table's own trace serves; its change brings the ends of the other side's range along."""
    circuit = _circuit(BY_KEY)
    halves = _halves(circuit)
    assert halves[Side.LEFT].against == circuit.names["shifts"]
    assert isinstance(circuit.nodes[halves[Side.RIGHT].change], Exchange)
    assert halves[Side.RIGHT].lookup == RangeLookup(4, 5)
    assert len(_arrangements(circuit)) == 1
    # A range of the rows of a primary key is one row at the most.
    ranged = (
        "join on $0:bigint = $0:bigint! where less($1:bigint!, $5:bigint!):boolean"
        " find right $2:bigint! from $1:bigint! to $1:bigint!"
    )
    circuit = _circuit(f"{ranged}\n  {READINGS}\n  {SHIFTS}")
    assert all(half.lookup is None for half in _halves(circuit).values())


def test_a_join_without_a_band_is_as_it_was() -> None:
    plain = _circuit(BY_DEVICE.partition(" find")[0] + f"\n  {READINGS}\n  {SHIFTS}")
    assert all(half.lookup is None for half in _halves(plain).values())
    assert all(node.order is None for node in _arrangements(plain))


def test_an_index_is_shared_by_joins_that_look_up_alike_and_by_no_others() -> None:
    residual = "where less($1:bigint!, $5:bigint!):boolean"
    again = BETWEEN.replace(WITHIN, f"{residual} find{WITHIN.partition(' find')[2]}")
    shared = _circuit(BETWEEN, again)
    assert len(_arrangements(shared)) == 2
    other = BETWEEN.replace("find right $2:bigint! to $1", "find right $3:bigint! from $1")
    apart = _circuit(BETWEEN, other)
    assert len(_arrangements(apart)) == 3


def test_explain_says_what_range_is_looked_up() -> None:
    circuit = _circuit(BETWEEN)
    explanation = explain(circuit, circuit.names["v0"], {})
    text = str(explanation)
    assert "where t is in the range from begins to ends" in text
    assert "where begins is in the range to t" in text
    assert "without a key, in the order of t" in text
    halves = [node for node in explanation.nodes if node.half is not None]
    assert all("found by binary search" in half.why for half in halves)
    assert "range" in explanation.svg() and "added up" not in text
    hiding = _circuit(f"map n = $0:bigint\n  join {DECIDED}\n    {READINGS}\n    {SHIFTS}")
    text = str(explain(hiding, hiding.names["v0"], {}))
    assert "to ends; rows that are not told apart have their ranges added up first" in text


def test_a_range_is_expected_to_give_less_than_all_rows() -> None:
    rows = 50_000
    follow = {}
    for name, text in (
        ("range", BETWEEN),
        ("all", BETWEEN.replace(" find", "\n#").split("\n#")[0]),
    ):
        whole = text if name == "range" else f"{text}\n  {READINGS}\n  {SHIFTS}"
        circuit = _circuit(whole)
        stored = dict.fromkeys(circuit.nodes, rows)
        change = {circuit.names["shifts"]: ChangeSize(2_000, 0)}
        (part,) = parts(circuit, change, stored, {})
        follow[name] = part.incremental
    assert follow["range"] < 100_000 < 2_000 * rows < follow["all"]


DECIDED = f"{WITHIN.replace(' find right', ' decides find right')} decides"


@pytest.mark.parametrize(
    ("shown", "readings", "shifts"),
    [
        ("n = $0:bigint", (0,), ()),
        ("n = $2:double, m = $4:bigint", (2,), (1,)),
        ("n = less($1:bigint!, $6:bigint!):boolean", (1,), (3,)),
    ],
)
def test_what_is_shown_of_pairs_tells_the_rows_of_a_change_apart(
    shown: str, readings: tuple[int, ...], shifts: tuple[int, ...]
) -> None:
    circuit = _circuit(f"map {shown}\n  join {DECIDED}\n    {READINGS}\n    {SHIFTS}")
    branches = branches_of(circuit.nodes.values())
    found = {side: told_apart(half, branches[half.id]) for side, half in _halves(circuit).items()}
    assert found == {Side.LEFT: readings, Side.RIGHT: shifts}


def test_rows_are_told_apart_by_all_who_read_the_pairs() -> None:
    hiding = f"map n = $0:bigint\n  join {{}}\n    {READINGS}\n    {SHIFTS}"
    alone = _circuit(hiding.format(DECIDED))
    keyed = _circuit(hiding.format(f"on $0:bigint = $1:bigint {DECIDED}"))
    beside = _circuit(hiding.format(DECIDED), f"join {DECIDED}\n  {READINGS}\n  {SHIFTS}")
    undecided = _circuit(hiding.format(WITHIN))
    for circuit, expected in (
        (alone, ()),
        (keyed, (1,)),
        (beside, None),
        (undecided, None),
    ):
        half = _halves(circuit)[Side.RIGHT]
        assert told_apart(half, branches_of(circuit.nodes.values())[half.id]) == expected


def test_a_band_is_written_and_read_back() -> None:
    for text in (BETWEEN, BY_DEVICE, BETWEEN.replace(WITHIN, DECIDED)):
        assert to_text(parse(text)) == text
    for head in (f"semijoin matched always {WITHIN}", f"outerjoin both {WITHIN}"):
        text = f"{head}\n  {READINGS}\n  {SHIFTS}"
        assert to_text(parse(text)) == text


def test_a_band_that_says_nothing_or_too_much_cannot_be_built() -> None:
    join = parse(BETWEEN)
    assert isinstance(join, Join) and join.band is not None
    place = Column(1, "bigint", nullable=False)
    for band in (
        RangeCondition(),
        RangeCondition(Range(place, None, None)),
        RangeCondition(Range(Column(3, "bigint", nullable=False), place, None)),
        RangeCondition(Range(place, Column(4, "bigint", nullable=False), None)),
        RangeCondition(Range(place, Column(1, "bigint"), None)),
        RangeCondition(Range(place, Literal(1, "int"), None)),
    ):
        with pytest.raises(DefinitionError):
            replace(join, band=band)
    with pytest.raises(DefinitionError):
        replace(join, residual=None)
