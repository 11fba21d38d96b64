"""Views that fail on some rows: Spark says which, and a transaction that brings them is undone."""

from __future__ import annotations

from collections.abc import Mapping

DANGERS: Mapping[str, str] = {
    "division by zero": "SELECT k, 1 / (k - 2) AS e FROM {r}",
    "remainder": "SELECT 7 % (k - 2) AS e FROM {r} WHERE k >= 0",
    "integer overflow": "SELECT k + 2147483646 AS e FROM {r}",
    "decimal overflow": "SELECT CAST(k * 60 AS DECIMAL(3, 1)) AS e FROM {r} WHERE k <> 1",
    "invalid cast": "SELECT CAST(CASE k WHEN 2 THEN 'x' ELSE '1' END AS INT) AS e FROM {r}",
    "invalid date": "SELECT CAST(concat('2024-0', CAST(k * 6 AS STRING), '-01') AS DATE) AS e "
    "FROM {r} WHERE k > 0",
    "array index": "SELECT array(1, 2, NULL)[k + 1] AS e FROM {r}",
    "raise_error": "SELECT CASE WHEN k = 2 THEN raise_error('two') ELSE k END AS e FROM {r}",
    "in a condition": "SELECT k FROM {r} WHERE 1 / (k - 2) < 1",
    "in a key": "SELECT 1 / (k - 2) AS e, count(*) AS c FROM {r} GROUP BY 1 / (k - 2)",
    "in an aggregate": "SELECT b, sum(1 / (k - 2)) AS e FROM {r} GROUP BY b",
    "in a join": "SELECT one.k FROM {r} one JOIN {q} two ON 1 / (one.k + two.k - 4) < 1",
    "in a group's rows": "SELECT b, sort_array(collect_list(1 / (k - 2))) AS e FROM {r} GROUP BY b",
    "in a window": "SELECT k, sum(1 / (k - 2)) OVER (PARTITION BY b ORDER BY k) AS e FROM {r}",
    "after a group": "SELECT b, 1 / (count(*) - 3) AS e FROM {r} GROUP BY b",
    "overflow of a sum": "SELECT b, sum(CAST(k AS BIGINT) * 4000000000000000000) AS e FROM {r} "
    "GROUP BY b",
    "overflow of one sum": "SELECT sum(CAST(k AS BIGINT) * 4000000000000000000) AS e FROM {r}",
    "scalar of several rows": "SELECT k, (SELECT two.k FROM {q} two WHERE two.k = 2) AS e FROM {r}",
    "scalar of several rows, correlated": "SELECT k, (SELECT two.b FROM {q} two "
    "WHERE two.k = one.k + 1) AS e FROM {r} one",
    "scalar of several rows, by an inequality": "SELECT k, (SELECT two.b FROM {q} two "
    "WHERE two.k > one.k) AS e FROM {r} one",
}
"""Queries over two tables with the columns k (0, 1, 2 or NULL) and b (boolean).

None has an equality of two columns beside its danger: Spark would infer the dangerous condition for
the other side too, and leave that out again where it sees that a table has no rows.
"""
