"""Q1 to Q7 of Lupei's thesis (table 5.1, appendix A.5) in three forms.

A comprehension is what Rekindle keeps as flat parts. The plain query is what one writes in Spark:
`collect_list` by group where a result is nested, `explode` and functions of arrays where an input
is. A customer without an order is there with an empty bag, as the comprehension has it; the thesis'
Spark queries leave it out.

A partially shredded query gives rows whose inner bags are arrays, but for bags of more than so many
elements: these are in a table of their own, by label, and the array is empty. Which bags are heavy
is found first, by counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.benchmarks.tpch_queries import chosen_numbers


@dataclass(frozen=True, slots=True)
class Partial:
    """Tables that a partially shredded query gives, in the order in which they are written.

    `staged` is computed once for all of them. Where a text says `{h}`, the keys of those groups of
    the query `heavy["h"]` stand that are large.
    """

    outputs: Mapping[str, str]
    heavy: Mapping[str, str] = field(default_factory=dict)
    staged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """One of the queries in its forms; it reads tables, or one of the nested results."""

    number: int
    comprehension: str
    plain: str
    partial: Partial
    tables: tuple[str, ...]
    source: int | None = None

    @property
    def name(self) -> str:
        return f"q{self.number}"


_Q1 = Query(
    1,
    """for c in customer
       yield (name: c.name,
              orders: for o in orders where o.custkey = c.custkey
                      yield (orderdate: o.orderdate,
                             parts: for l in lineitem where l.orderkey = o.orderkey,
                                        p in part where p.partkey = l.partkey
                                    yield (name: p.name, quantity: l.quantity)))""",
    """WITH order_parts AS (
         SELECT l.orderkey, collect_list(struct(p.name, l.quantity)) AS parts
         FROM lineitem l JOIN part p ON l.partkey = p.partkey GROUP BY l.orderkey),
       customer_orders AS (
         SELECT o.custkey,
                collect_list(struct(o.orderdate, coalesce(parts, array()) AS parts)) AS orders
         FROM orders o LEFT JOIN order_parts op ON o.orderkey = op.orderkey GROUP BY o.custkey)
       SELECT c.name, coalesce(orders, array()) AS orders
       FROM customer c LEFT JOIN customer_orders co ON c.custkey = co.custkey""",
    Partial(
        {
            "p1_parts": """
                SELECT l.orderkey AS label, p.name, l.quantity
                FROM lineitem l JOIN part p ON l.partkey = p.partkey
                WHERE l.orderkey IN ({orders})""",
            "p1_orders": """
                SELECT custkey AS label, orderdate, parts_label, parts
                FROM p1_elements WHERE custkey IN ({customers})""",
            "p1": """
                SELECT c.name, coalesce(orders, array()) AS orders,
                       CASE WHEN c.custkey IN ({customers}) THEN c.custkey END AS orders_label
                FROM customer c LEFT JOIN (
                  SELECT custkey, collect_list(struct(orderdate, parts_label, parts)) AS orders
                  FROM p1_elements WHERE custkey NOT IN ({customers}) GROUP BY custkey) e
                ON c.custkey = e.custkey""",
        },
        {
            "orders": "SELECT orderkey FROM lineitem GROUP BY orderkey",
            "customers": "SELECT custkey FROM orders GROUP BY custkey",
        },
        {
            "p1_elements": """
                SELECT o.custkey, o.orderdate, coalesce(parts, array()) AS parts,
                       CASE WHEN o.orderkey IN ({orders}) THEN o.orderkey END AS parts_label
                FROM orders o LEFT JOIN (
                  SELECT l.orderkey, collect_list(struct(p.name, l.quantity)) AS parts
                  FROM lineitem l JOIN part p ON l.partkey = p.partkey
                  WHERE l.orderkey NOT IN ({orders}) GROUP BY l.orderkey) e
                ON o.orderkey = e.orderkey"""
        },
    ),
    ("customer", "orders", "lineitem", "part"),
)

_CUSTOMERS_OF = (
    "lineitem l JOIN orders o ON l.orderkey = o.orderkey JOIN customer c ON c.custkey = o.custkey"
)

_Q2 = Query(
    2,
    """for s in supplier
       yield (name: s.name,
              customers: for l in lineitem where l.suppkey = s.suppkey,
                             o in orders where o.orderkey = l.orderkey,
                             c in customer where c.custkey = o.custkey
                         yield c.name)""",
    f"""SELECT s.name, coalesce(customers, array()) AS customers
        FROM supplier s LEFT JOIN (
          SELECT l.suppkey, collect_list(c.name) AS customers
          FROM {_CUSTOMERS_OF} GROUP BY l.suppkey) e
        ON s.suppkey = e.suppkey""",
    Partial(
        {
            "p2_customers": f"""
                SELECT l.suppkey AS label, c.name AS value
                FROM {_CUSTOMERS_OF} WHERE l.suppkey IN ({{suppliers}})""",
            "p2": f"""
                SELECT s.name, coalesce(customers, array()) AS customers,
                       CASE WHEN s.suppkey IN ({{suppliers}}) THEN s.suppkey END AS customers_label
                FROM supplier s LEFT JOIN (
                  SELECT l.suppkey, collect_list(c.name) AS customers
                  FROM {_CUSTOMERS_OF} WHERE l.suppkey NOT IN ({{suppliers}})
                  GROUP BY l.suppkey) e
                ON s.suppkey = e.suppkey""",
        },
        {"suppliers": "SELECT suppkey FROM lineitem GROUP BY suppkey"},
    ),
    ("supplier", "lineitem", "orders", "customer"),
)

_PART_SUPPLIERS = """
    SELECT ps.partkey, collect_list(struct(s.name, s.nationkey)) AS suppliers
    FROM partsupp ps JOIN supplier s ON s.suppkey = ps.suppkey GROUP BY ps.partkey"""

_Q3 = Query(
    3,
    """for p in part
       yield (name: p.name,
              suppliers: for ps in partsupp where ps.partkey = p.partkey,
                             s in supplier where s.suppkey = ps.suppkey
                         yield (name: s.name, nationkey: s.nationkey),
              customers: for l in lineitem where l.partkey = p.partkey,
                             o in orders where o.orderkey = l.orderkey,
                             c in customer where c.custkey = o.custkey
                         yield (name: c.name, nationkey: c.nationkey))""",
    f"""SELECT p.name, coalesce(suppliers, array()) AS suppliers,
               coalesce(customers, array()) AS customers
        FROM part p LEFT JOIN ({_PART_SUPPLIERS}) ss ON p.partkey = ss.partkey LEFT JOIN (
          SELECT l.partkey, collect_list(struct(c.name, c.nationkey)) AS customers
          FROM {_CUSTOMERS_OF} GROUP BY l.partkey) cs
        ON p.partkey = cs.partkey""",
    # A part has four suppliers whatever the skew: only customers may be heavy.
    Partial(
        {
            "p3_customers": f"""
                SELECT l.partkey AS label, c.name, c.nationkey
                FROM {_CUSTOMERS_OF} WHERE l.partkey IN ({{parts}})""",
            "p3": f"""
                SELECT p.name, coalesce(suppliers, array()) AS suppliers,
                       coalesce(customers, array()) AS customers,
                       CASE WHEN p.partkey IN ({{parts}}) THEN p.partkey END AS customers_label
                FROM part p LEFT JOIN ({_PART_SUPPLIERS}) ss ON p.partkey = ss.partkey LEFT JOIN (
                  SELECT l.partkey, collect_list(struct(c.name, c.nationkey)) AS customers
                  FROM {_CUSTOMERS_OF} WHERE l.partkey NOT IN ({{parts}}) GROUP BY l.partkey) cs
                ON p.partkey = cs.partkey""",
        },
        {"parts": "SELECT partkey FROM lineitem GROUP BY partkey"},
    ),
    ("part", "partsupp", "supplier", "lineitem", "orders", "customer"),
)

_Q4 = Query(
    4,
    """for c in q1, o in c.orders, l in o.parts
       yield (customer: c.name, part: l.name, year: year(o.orderdate)) => l.quantity""",
    """SELECT customer, l.name AS part, year(o.orderdate) AS year, sum(l.quantity) AS value
       FROM (SELECT customer, o, explode(o.parts) AS l
             FROM (SELECT name AS customer, explode(orders) AS o FROM q1))
       GROUP BY ALL""",
    Partial(
        {
            "p4": """
                WITH rows AS (
                  SELECT customer, o.orderdate, o.parts_label, o.parts
                  FROM (SELECT name AS customer, explode(orders) AS o FROM p1)
                  UNION ALL
                  SELECT p1.name, d.orderdate, d.parts_label, d.parts
                  FROM p1_orders d JOIN p1 ON d.label = p1.orders_label)
                SELECT customer, part, year, sum(quantity) AS value
                FROM (
                  SELECT customer, year(orderdate) AS year, l.name AS part, l.quantity
                  FROM (SELECT customer, orderdate, explode(parts) AS l FROM rows)
                  UNION ALL
                  SELECT customer, year(orderdate), d.name, d.quantity
                  FROM p1_parts d JOIN rows ON d.label = rows.parts_label)
                GROUP BY ALL""",
        }
    ),
    (),
    1,
)

_Q5 = Query(
    5,
    """for p in q3, c in p.customers where forall(s in p.suppliers: c.nationkey <> s.nationkey)
       yield (name: p.name) => 1""",
    """SELECT name, count(*) AS value
       FROM (SELECT name, suppliers, explode(customers) AS c FROM q3)
       WHERE forall(suppliers, s -> c.nationkey <> s.nationkey)
       GROUP BY name""",
    Partial(
        {
            "p5": """
                SELECT name, count(*) AS value
                FROM (
                  SELECT name, suppliers, c.nationkey AS nation
                  FROM (SELECT name, suppliers, explode(customers) AS c FROM p3)
                  UNION ALL
                  SELECT p3.name, p3.suppliers, d.nationkey
                  FROM p3_customers d JOIN p3 ON d.label = p3.customers_label)
                WHERE forall(suppliers, s -> nation <> s.nationkey)
                GROUP BY name""",
        }
    ),
    (),
    3,
)

_Q6 = Query(
    6,
    """for c in customer
       yield (name: c.name,
              suppliers: for s in q2, n in s.customers where n = c.name yield s.name)""",
    """SELECT c.name, coalesce(suppliers, array()) AS suppliers
       FROM customer c LEFT JOIN (
         SELECT customer, collect_list(name) AS suppliers
         FROM (SELECT name, explode(customers) AS customer FROM q2) GROUP BY customer) e
       ON c.name = e.customer""",
    Partial(
        {
            "p6_suppliers": """
                SELECT customer AS label, name AS value FROM p6_elements
                WHERE customer IN ({customers})""",
            "p6": """
                SELECT c.name, coalesce(suppliers, array()) AS suppliers,
                       CASE WHEN c.name IN ({customers}) THEN c.name END AS suppliers_label
                FROM customer c LEFT JOIN (
                  SELECT customer, collect_list(name) AS suppliers
                  FROM p6_elements WHERE customer NOT IN ({customers}) GROUP BY customer) e
                ON c.name = e.customer""",
        },
        {"customers": "SELECT customer FROM p6_elements GROUP BY customer"},
        {
            "p6_elements": """
                SELECT name, explode(customers) AS customer FROM p2
                UNION ALL
                SELECT p2.name, d.value
                FROM p2_customers d JOIN p2 ON d.label = p2.customers_label"""
        },
    ),
    ("customer",),
    2,
)

_Q7 = Query(
    7,
    """for n in nation
       yield (name: n.name,
              parts: for p in q3
                     where exists(s in p.suppliers where s.nationkey = n.nationkey)
                       and forall(c in p.customers: c.nationkey <> n.nationkey)
                     yield p.name)""",
    """SELECT n.name, coalesce(parts, array()) AS parts
       FROM nation n LEFT JOIN (
         SELECT n.nationkey, collect_list(p.name) AS parts
         FROM nation n JOIN q3 p
         ON exists(p.suppliers, s -> s.nationkey = n.nationkey)
            AND forall(p.customers, c -> c.nationkey <> n.nationkey)
         GROUP BY n.nationkey) e
       ON n.nationkey = e.nationkey""",
    Partial(
        {
            "p7_parts": """
                SELECT nationkey AS label, name AS value FROM p7_elements
                WHERE nationkey IN ({nations})""",
            "p7": """
                SELECT n.name, coalesce(parts, array()) AS parts,
                       CASE WHEN n.nationkey IN ({nations}) THEN n.nationkey END AS parts_label
                FROM nation n LEFT JOIN (
                  SELECT nationkey, collect_list(name) AS parts
                  FROM p7_elements WHERE nationkey NOT IN ({nations}) GROUP BY nationkey) e
                ON n.nationkey = e.nationkey""",
        },
        {"nations": "SELECT nationkey FROM p7_elements GROUP BY nationkey"},
        {
            "p7_elements": """
                SELECT n.nationkey, p.name
                FROM nation n JOIN (
                  SELECT p3.name, p3.suppliers,
                         coalesce(d.nations, transform(p3.customers, c -> c.nationkey)) AS nations
                  FROM p3 LEFT JOIN (
                    SELECT label, collect_set(nationkey) AS nations
                    FROM p3_customers GROUP BY label) d
                  ON p3.customers_label = d.label) p
                ON exists(p.suppliers, s -> s.nationkey = n.nationkey)
                   AND NOT array_contains(p.nations, n.nationkey)"""
        },
    ),
    ("nation",),
    3,
)

QUERIES: dict[int, Query] = {q.number: q for q in (_Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7)}


def tables_of(number: int) -> tuple[str, ...]:
    """The tables that a query reads, itself or through the nested result that it reads."""
    query = QUERIES[number]
    below = () if query.source is None else tables_of(query.source)
    return tuple(dict.fromkeys([*query.tables, *below]))


def with_sources(numbers: list[int]) -> list[int]:
    """The queries, and before them those whose results they read."""
    sources = [QUERIES[n].source for n in numbers]
    return sorted({*numbers, *(s for s in sources if s is not None)})


def chosen(text: str | None) -> list[int]:
    """The queries that a text such as `1,4-7` names, or all.

    >>> chosen("1, 4-6"), chosen(None)
    ([1, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7])
    """
    return chosen_numbers(text, QUERIES)
