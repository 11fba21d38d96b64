"""The eight tables of TPC-H: columns, keys, and which of them a query reads."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "DECIMAL(15,2)": pa.decimal128(15, 2),
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table's columns with their SQL types, and its primary key."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([(name, _ARROW[type_]) for name, type_ in self.columns])

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)}))"

    @property
    def casts(self) -> list[str]:
        """Expressions that bring columns of other integer widths into this shape."""
        return [f"CAST({name} AS {type_}) AS {name}" for name, type_ in self.columns]


def _shape(name: str, columns: str, *key: str) -> TableShape:
    pairs = [column.split(" ") for column in columns.split("; ")]
    return TableShape(name, tuple((column, type_) for column, type_ in pairs), key)


TABLES: dict[str, TableShape] = {
    shape.name: shape
    for shape in (
        _shape("region", "r_regionkey INT; r_name STRING; r_comment STRING", "r_regionkey"),
        _shape(
            "nation",
            "n_nationkey INT; n_name STRING; n_regionkey INT; n_comment STRING",
            "n_nationkey",
        ),
        _shape(
            "supplier",
            "s_suppkey BIGINT; s_name STRING; s_address STRING; s_nationkey INT; s_phone STRING; "
            "s_acctbal DECIMAL(15,2); s_comment STRING",
            "s_suppkey",
        ),
        _shape(
            "customer",
            "c_custkey BIGINT; c_name STRING; c_address STRING; c_nationkey INT; c_phone STRING; "
            "c_acctbal DECIMAL(15,2); c_mktsegment STRING; c_comment STRING",
            "c_custkey",
        ),
        _shape(
            "part",
            "p_partkey BIGINT; p_name STRING; p_mfgr STRING; p_brand STRING; p_type STRING; "
            "p_size INT; p_container STRING; p_retailprice DECIMAL(15,2); p_comment STRING",
            "p_partkey",
        ),
        _shape(
            "partsupp",
            "ps_partkey BIGINT; ps_suppkey BIGINT; ps_availqty BIGINT; "
            "ps_supplycost DECIMAL(15,2); ps_comment STRING",
            "ps_partkey",
            "ps_suppkey",
        ),
        _shape(
            "orders",
            "o_orderkey BIGINT; o_custkey BIGINT; o_orderstatus STRING; "
            "o_totalprice DECIMAL(15,2); o_orderdate DATE; o_orderpriority STRING; "
            "o_clerk STRING; o_shippriority INT; o_comment STRING",
            "o_orderkey",
        ),
        _shape(
            "lineitem",
            "l_orderkey BIGINT; l_partkey BIGINT; l_suppkey BIGINT; l_linenumber BIGINT; "
            "l_quantity DECIMAL(15,2); l_extendedprice DECIMAL(15,2); l_discount DECIMAL(15,2); "
            "l_tax DECIMAL(15,2); l_returnflag STRING; l_linestatus STRING; l_shipdate DATE; "
            "l_commitdate DATE; l_receiptdate DATE; l_shipinstruct STRING; l_shipmode STRING; "
            "l_comment STRING",
            "l_orderkey",
            "l_linenumber",
        ),
    )
}


def tables_of(query: str) -> list[str]:
    """The tables that a query names.

    >>> tables_of("SELECT * FROM orders, lineitem l1")
    ['orders', 'lineitem']
    """
    words = set(re.findall(r"\b[a-z]+\b", query))
    return [name for name in TABLES if name in words]
