"""Small circuits to explain and to share, over tables of a shop."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Source, Term
from rekindle.calculus.text import parse
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.explain import NodeFacts
from rekindle.circuit.nodes import Arrangement, Group, Table, View
from rekindle.incremental.pipeline import derive
from tests.incremental.test_golden import EXAMPLE

ORDERS = Schema.of(id="bigint", cust="bigint", total="double")
CUSTOMERS = Schema.of(id="bigint", region="string", nation="bigint")
NATIONS = Schema.of(id="bigint", name="string")

ORDER_LINES = "source orders (id: bigint, cust: bigint, total: double)"
CUSTOMER_LINES = "source customers (id: bigint, region: string, nation: bigint)"

BY_REGION = f"""\
aggregate by region = $4:string compute total = sum($2:double):double, n = count():bigint
  join on $1:bigint = $0:bigint
    filter greater($2:double, 0:double):boolean
      {ORDER_LINES}
    {CUSTOMER_LINES}
"""

LARGE_ORDERS = f"""\
map id = $0:bigint, region = $4:string, nation = $5:bigint, total = $2:double
  join on $1:bigint = $0:bigint
    filter greater($2:double, 0:double):boolean
      {ORDER_LINES}
    {CUSTOMER_LINES}
"""

OVER_A_VIEW = f"""\
aggregate by nation = $5:string, region = $1:string compute total = sum($3:double):double
  join on $0:bigint = $0:bigint
    join on $2:bigint = $0:bigint
      source large (id: bigint, region: string, nation: bigint, total: double)
      source nations (id: bigint, name: string)
    filter greater($2:double, 0:double):boolean
      {ORDER_LINES}
"""

BITS_AND_MODES = f"""\
aggregate by nation = $2:bigint compute a = bit_and($0:bigint):bigint, \
o = bit_or($0:bigint):bigint, x = bit_xor($0:bigint):bigint, \
m = mode($2:bigint, -1:bigint):bigint order $2:bigint, \
d = mode_descending($2:bigint, -1:bigint):bigint order $2:bigint
  {CUSTOMER_LINES}
"""


def shop() -> Circuit:
    """Tables only: orders and customers by id, nations by id."""
    circuit = Circuit()
    circuit.table(Table("orders", ORDERS, (0,), "1"))
    circuit.table(Table("customers", CUSTOMERS, (0,), "1"))
    circuit.table(Table("nations", NATIONS, (0,), "1"))
    return circuit


def add_view(circuit: Circuit, name: str, text: str) -> View:
    term = parse(text)
    return circuit.view(name, derive(term), term.schema)


def joined_and_grouped() -> Circuit:
    circuit = shop()
    add_view(circuit, "by_region", BY_REGION)
    return circuit


def section_4_5() -> Circuit:
    """The worked example of DBSP, section 4.5; its tables have no key."""
    circuit = Circuit()
    for source in _sources(parse(EXAMPLE)):
        circuit.table(Table(source.name, source.schema, (), "1"))
    add_view(circuit, "v", EXAMPLE)
    return circuit


def view_over_a_view() -> Circuit:
    """Three views that share arrangements; the last one reads the second, and joins three ways."""
    circuit = joined_and_grouped()
    add_view(circuit, "large", LARGE_ORDERS)
    add_view(circuit, "by_nation", OVER_A_VIEW)
    return circuit


def some_facts(circuit: Circuit) -> Mapping[str, NodeFacts]:
    """Facts as an engine would give them, different for each node."""
    facts = {}
    for i, node in enumerate(circuit.nodes.values(), start=1):
        keeps = isinstance(node, Table | Arrangement | Group | View)
        facts[node.id] = NodeFacts(
            rows_stored=1200 * i if keeps else None,
            bytes_stored=38_120 * i if keeps else None,
            runs=i % 3 + 1 if keeps else None,
            rows_in=3 + i,
            rows_out=2 * i,
            seconds=0.0004 * i,
            placement="inline",
            epoch=12,
        )
    return facts


def _sources(term: Term) -> list[Source]:
    if isinstance(term, Source):
        return [term]
    return [source for child in term.children for source in _sources(child)]
