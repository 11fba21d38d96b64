"""OpenIVM's test files: DuckDB's sqllogictest format, and its SQL as Spark spells it.

Loops are unrolled; the threads of a concurrent one take turns. What has no plain spelling in Spark
is left as it is: Spark says then that it cannot run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from tests.external.compare import Difference, Row

Block = tuple[int, list[str]]
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_ARRAY_TYPE = re.compile(r"\b(INT|INTEGER|BIGINT|FLOAT|DOUBLE|VARCHAR)\[\]", re.IGNORECASE)
_ORDERED_LIST = re.compile(
    r"\bLIST\((\w+)\s+ORDER\s+BY\s+(\w+)(\s+DESC)?\)(\s*FILTER\s*\([^()]*\))?", re.IGNORECASE
)
_LIST_SUM = re.compile(
    r"list_reduce\(list\((\w+)\),\s*lambda a, b:\s*"
    r"list_transform\(list_zip\(a, b\),\s*lambda x:\s*x\[1\] \+ x\[2\]\)\)",
    re.IGNORECASE,
)
_AS_OF = re.compile(
    r"\bASOF\s+JOIN\s+(\w+)\s+(\w+)\s+ON\s+(\S+\s*=\s*\S+\s+AND\s+\S+\s*>=\s*(\S+))\b",
    re.IGNORECASE,
)
_PIVOT = re.compile(
    r"\bPIVOT\s+(\w+|\(.*\))\s+ON\s+(\w+)\s+IN\s*(\([^()]*\))\s*USING\s+(\w+\(\w+\))\s*GROUP\s+BY\s+\w+",
    re.IGNORECASE | re.DOTALL,
)
_WRITES = re.compile(r"INSERT|UPDATE", re.IGNORECASE)
_MOMENT = re.compile(
    r"(\b(?:DATE|TIMESTAMP)\s*)?('\d{4}-\d\d-\d\d(\s+\d\d:\d\d(?::\d\d)?[.\d]*)?')", re.IGNORECASE
)
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"\bVARCHAR\b(?!\s*\()", "STRING"),
    (r"\bBOOL\b", "BOOLEAN"),
    (r"\bDECIMAL\b(?!\s*\()", "DECIMAL(18,3)"),
    (r"\s+REFERENCES\s+\w+\s*\(\w+\)", ""),
    (r"\b(ARG_MIN|ARGMIN)\s*\(", "min_by("),
    (r"\b(ARG_MAX|ARGMAX)\s*\(", "max_by("),
    (r"\bAS\s+(?:NOT\s+)?MATERIALIZED\s*\(", "AS ("),
    (
        r"\blist_transform\(generate_series\(1, (\d+)\), lambda x: ([^()]*)\)",
        r"array_repeat(\2, \1)",
    ),
    (
        r"\b(FROM|JOIN)\s+generate_series\(([^()]*)\)",
        r"\1 (SELECT explode(sequence(\2)) AS series)",
    ),
    (r"\bgenerate_series\b", "series"),
    (r"\bCROSS\s+JOIN\s+UNNEST\s*\(", "CROSS JOIN LATERAL explode("),
    (r"\bUNNEST\s*\(", "explode("),
    (r"(?<=[(,=])(\s*)\[([^\[\]]*)\]", r"\1array(\2)"),
    (r"\bDROP\s+(TABLE|VIEW)\s+(\w+)\s+CASCADE", r"DROP \1 \2"),
)


@dataclass(frozen=True, slots=True)
class Record:
    """A statement or a query at a line; what it must print, or that it must fail."""

    line: int
    sql: str
    rows: tuple[tuple[str, ...], ...] | None = None
    fails: bool = False


def read_records(text: str) -> Iterator[Record]:
    """The records of a file.

    >>> text = "loop k 0 2\\n\\nquery I\\nSELECT ${k}\\n----\\n0\\n\\nendloop\\n"
    >>> [(record.sql, record.rows) for record in read_records(text)]
    [('SELECT 0', (('0',),)), ('SELECT 1', (('0',),))]
    """
    blocks: list[Block] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            blocks.append((number, []))
        elif not blocks or not blocks[-1][1]:
            blocks.append((number, [line]))
        else:
            blocks[-1][1].append(line)
    yield from _unrolled([block for block in blocks if block[1]], {})


def _unrolled(blocks: Sequence[Block], values: Mapping[str, int]) -> Iterator[Record]:
    at = 0
    while at < len(blocks):
        number, lines = blocks[at]
        at += 1
        wanted = True
        if given := re.match(r"onlyif (\w+)(>?=)(\d+)", lines[0]):
            value, bound = values[given[1]], int(given[3])
            wanted = value >= bound if given[2] == ">=" else value == bound
            number, lines = number + 1, lines[1:]
        head = lines[0].split()
        if head[0] in ("loop", "concurrentloop"):
            end, depth = at, 1
            while depth:
                first = next(line for line in blocks[end][1] if not line.startswith("onlyif"))
                depth += first.split()[0] in ("loop", "concurrentloop")
                depth -= first == "endloop"
                end += 1
            for value in range(int(head[2]), int(head[3])) if wanted else ():
                yield from _unrolled(blocks[at : end - 1], {**values, head[1]: value})
            at = end
        elif head[0] in ("statement", "query") and wanted:
            yield _record(number, lines, values)


def _record(number: int, lines: Sequence[str], values: Mapping[str, int]) -> Record:
    bar = lines.index("----") if "----" in lines else len(lines)
    sql = "\n".join(lines[1:bar])
    for name, value in values.items():
        sql = sql.replace(f"${{{name}}}", str(value))
    rows = tuple(tuple(line.split("\t")) for line in lines[bar + 1 :])
    sql = re.sub(r"--[^\n]*", "", sql).strip().rstrip(";").rstrip()
    if lines[0].startswith("query"):
        return Record(number, sql, rows)
    return Record(number, sql, fails=lines[0].split()[1] == "error")


@dataclass(slots=True)
class Dialect:
    """What a file's names stand for: its catalogs are dropped, its schemas become prefixes."""

    catalogs: list[str] = field(default_factory=lambda: ["dl", "memory"])
    schemas: list[str] = field(default_factory=list)

    def learn(self, sql: str) -> None:
        """Take note of a catalog that is attached, or of a schema."""
        if attached := re.match(r"ATTACH\s+'[^']*'\s+AS\s+\"?([\w-]+)", sql, re.IGNORECASE):
            self.catalogs.append(attached[1])
        elif schema := re.match(r"CREATE\s+SCHEMA\s+(?:\w+\.)?(\w+)", sql, re.IGNORECASE):
            self.schemas.append(schema[1])

    def spark(self, sql: str) -> str:
        """The statement as Spark spells it.

        >>> Dialect().spark("SELECT i::VARCHAR, '[::VARCHAR' FROM dl.main.t")
        "SELECT i::STRING, '[::VARCHAR' FROM t"
        >>> Dialect().spark("SELECT ARG_MIN(a, b), unnest([1, 2]) FROM t")
        'SELECT min_by(a, b), explode(array(1, 2)) FROM t'
        >>> Dialect().spark("SELECT n FROM generate_series(1, 3) t(n)")
        'SELECT n FROM (SELECT explode(sequence(1, 3)) AS series) t(n)'
        """
        literals = _LITERAL.findall(sql)
        plain = _LITERAL.sub("'?'", sql).replace('"', "`")
        for catalog in (*self.catalogs, "main"):
            plain = re.sub(rf"(?<![\w.`])(`?){re.escape(catalog)}\1\.(?=[`\w])", "", plain)
        for schema in self.schemas:
            plain = re.sub(rf"(?<![\w.`])(`?){schema}\1\.(`?)(\w+)\2", rf"{schema}_\3", plain)
        plain = _ARRAY_TYPE.sub(r"ARRAY<\1>", plain)
        plain = _LIST_SUM.sub(_list_sum, plain)
        plain = _PIVOT.sub(r"SELECT * FROM \1 PIVOT (\4 FOR \2 IN \3)", plain)
        plain = _AS_OF.sub(
            r"JOIN LATERAL (SELECT * FROM \1 \2 WHERE \3 ORDER BY \4 DESC LIMIT 1) AS \2", plain
        )
        plain = _ORDERED_LIST.sub(_ordered_list, plain)
        for pattern, spelling in _SPELLINGS:
            plain = re.sub(pattern, spelling, plain, flags=re.IGNORECASE)
        rest = iter(literals)
        spark = re.sub(r"'\?'", lambda _: next(rest), plain)
        return _MOMENT.sub(_typed, spark) if _WRITES.match(spark) else spark


def _typed(found: re.Match[str]) -> str:
    """Spark takes no string for a date."""
    return found[0] if found[1] else f"{'TIMESTAMP' if found[3] else 'DATE'} {found[2]}"


def _ordered_list(found: re.Match[str]) -> str:
    """Elements that tie are in the order of their values, which DuckDB leaves open."""
    value, key, descending, condition = found.groups()
    pairs = f"collect_list(struct({key} AS k, {value} AS v)){condition or ''}"
    return f"transform(sort_array({pairs}, {'false' if descending else 'true'}), p -> p.v)"


def _list_sum(found: re.Match[str]) -> str:
    lists = f"collect_list({found[1]})"
    added = "(a, b) -> zip_with(a, b, (x, y) -> x + y)"
    return f"aggregate(slice({lists}, 2, size({lists})), {lists}[0], {added})"


def require_recorded(actual: Sequence[Row], record: Record) -> None:
    """Raise `Difference` unless the rows are the recorded ones, in any order.

    >>> recorded = Record(1, "", (("1", "(empty)"), ("NULL", "1.5")))
    >>> require_recorded([(None, 1.5), (True, "")], recorded)
    """
    left = list(actual)
    for row in record.rows or ():
        found = next((ours for ours in left if _same(ours, row)), None)
        if found is None:
            raise Difference(f"line {record.line}: {list(row)} is not among {actual[:5]}")
        left.remove(found)
    if left:
        raise Difference(f"line {record.line}: {len(left)} row(s) too many, such as {left[0]}")


def _same(ours: Row, recorded: Sequence[str]) -> bool:
    return len(ours) == len(recorded) and all(map(_same_value, ours, recorded))


def _same_value(ours: object, recorded: str) -> bool:
    if ours is None:
        return recorded == "NULL"
    if isinstance(ours, bool):
        return recorded.lower() in (("true", "1") if ours else ("false", "0"))
    if isinstance(ours, int | float | Decimal):
        try:
            return abs(Decimal(str(ours)) - Decimal(recorded)) <= Decimal("1e-9")
        except InvalidOperation:
            return False
    if isinstance(ours, list):
        return str(ours).replace("'", "") == recorded
    return str(ours) == ("" if recorded == "(empty)" else recorded)
