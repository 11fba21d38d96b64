"""DDlog's programs as far as they are plain Datalog: relations of simple columns, and their rules.

DDlog's rules compute with a typed functional language. A relation is taken when its columns are
numbers, strings and booleans, and its rules have atoms, negated atoms, comparisons, assignments,
arithmetic, text with values in it, and groups with a count, a sum, a minimum or a maximum. All else
is left out, with the reason, and with it the relations that need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_DECLARED = re.compile(
    r"(?P<role>input|output)?\s*(?P<kind>relation|stream|multiset)\s+(?P<mark>&?)(?P<name>\w+)\s*"
    r"(?P<open>[(\[])(?P<rest>.*)",
    re.DOTALL,
)
_KEY = re.compile(r"primary\s+key\s*\(\w+\)\s*(.*)", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<sized>\d*'s?[dhob][0-9a-fA-F_]+)
      | (?P<hex>0x[0-9a-fA-F]+)|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)
      | (?P<mark>==|!=|<=|>=|\+\+|[-+*/%&<>()~])""",
    re.VERBOSE,
)
_GROUPED = re.compile(
    r"var\s+(?P<result>\w+)(?:\s*:\s*\w+)?\s*=\s*(?P<value>\w+|\([\w\s,]*\))\s*\.group_by\("
    r"(?P<keys>\w+|\([\w\s,]*\))\)\s*\.(?P<function>\w+)\((?P<argument>[^()]*)\)",
    re.DOTALL,
)
_TYPES = {"string": "STRING", "istring": "STRING", "bool": "BOOLEAN"}
_FUNCTIONS = {
    ("count_distinct", ""): "count",
    ("min", ""): "min",
    ("max", ""): "max",
    ("sum_of", ""): "sum",
}


class NotPlain(Exception):
    """A part of a program has no counterpart; the message names it."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation: the names and Spark types of its columns, and the bits of unsigned numbers."""

    name: str
    role: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    bits: tuple[int | None, ...]
    key: tuple[str, ...]


@dataclass(slots=True)
class Program:
    """What is plain in a program, and why the rest is not."""

    relations: dict[str, Relation] = field(default_factory=dict)
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def leave_out(self, name: str, reason: str) -> None:
        """Note a relation that is not plain, and those that read it, directly or not."""
        if name in self.reasons:
            return
        self.reasons[name] = reason
        for other, rules in self.rules.items():
            if any(name in rule.reads for rule in rules):
                self.leave_out(other, reason)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in our text, and the relations that it reads; a fact reads none."""

    text: str
    reads: frozenset[str]


def parse_program(text: str) -> Program:
    """The plain part of a program."""
    program = Program()
    types: dict[str, str] = {}
    chunks = list(_chunks(_uncommented(text)))
    for chunk in chunks:
        alias = re.fullmatch(r"typedef\s+(\w+)\s*=\s*([\w<>]+)\s*", chunk)
        if alias is not None:
            types[alias[1]] = alias[2]
    for chunk in chunks:
        declared = _DECLARED.fullmatch(chunk)
        if declared is not None:
            _declare(program, declared, types)
    for chunk in chunks:
        _read_chunk(program, chunk)
    return program


def _uncommented(text: str) -> str:
    pattern = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return pattern.sub(lambda m: m[0] if m[0][0] == '"' else "", text)


def _chunks(text: str) -> Iterator[str]:
    """Statements: each begins at the start of a line, after one that is complete."""
    found: list[str] = []
    for line in text.splitlines():
        complete = not found or (
            sum(_BRACKETS.get(c, 0) for c in _blanked("\n".join(found))) == 0
            and not found[-1].rstrip().endswith((",", ":-", "="))
        )
        if (
            complete
            and line[:1].strip()
            and line[0] not in "|}{"
            and not line.startswith("primary")
        ):
            if found:
                yield "\n".join(found).strip()
            found = []
        if line.strip():
            found.append(line)
    if found:
        yield "\n".join(found).strip()


def _blanked(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def split(text: str, separators: str = ",") -> list[str]:
    """The parts between separators that stand outside brackets and strings."""
    parts, depth = [""], 0
    for piece in re.findall(r'"(?:[^"\\]|\\.)*"|.', text, re.DOTALL):
        depth += _BRACKETS.get(piece, 0)
        if depth == 0 and piece in separators:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def _declare(program: Program, declared: re.Match[str], types: dict[str, str]) -> None:
    name, kind = declared["name"], declared["kind"]
    if declared["role"] == "output":
        program.outputs.append(name)
    if kind != "relation":
        program.leave_out(name, f"a {kind}")
        return
    if declared["open"] == "[" or declared["mark"]:
        program.leave_out(name, "records")
        return
    inside, _, after = _bracketed("(" + declared["rest"])
    columns, spark, bits = [], [], []
    for column in split(inside) if inside.strip() else []:
        label, _, written = (part.strip() for part in column.partition(":"))
        found = _spark_type(written, types)
        if found is None:
            program.leave_out(name, f"columns of type {re.sub(r'<.*', '', written)}")
            return
        columns.append(label)
        spark.append(found[0])
        bits.append(found[1])
    key = _KEY.fullmatch(after.strip())
    keys = tuple(re.findall(r"\.(\w+)", key[1])) if key is not None else ()
    program.relations[name] = Relation(
        name, declared["role"] or "", tuple(columns), tuple(spark), tuple(bits), keys
    )
    program.rules.setdefault(name, [])


def _bracketed(text: str) -> tuple[str, int, str]:
    """What stands in the brackets that a text begins with, where they end, and the rest."""
    depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|.', text, re.DOTALL):
        depth += _BRACKETS.get(match[0], 0)
        if depth == 0:
            return text[1 : match.start()], match.end(), text[match.end() :]
    raise NotPlain("brackets that are not closed")


def _spark_type(written: str, types: dict[str, str]) -> tuple[str, int | None] | None:
    seen = set()
    while written in types and written not in seen:
        seen.add(written)
        written = types[written]
    match re.match(r"(bit|signed|u|s|i)<?(\d+|size)?>?$|(\w+)$", written):
        case re.Match() as found if found[1] and found[2]:
            width = 64 if found[2] == "size" else int(found[2])
            return "BIGINT", width if found[1] in ("bit", "u") and width < 63 else None
        case re.Match() as found if found[3] in ("bigint", "usize", "isize"):
            return "BIGINT", None
        case re.Match() as found if found[3] in _TYPES:
            return _TYPES[found[3]], None
    return None


def _read_chunk(program: Program, chunk: str) -> None:
    """Take a rule's text for the relations in its head, or note why they are left out."""
    if re.match(r"(for|apply)\b", chunk):
        for name in re.findall(r"\b[A-Z]\w*", chunk):
            if name in program.relations and program.relations[name].role != "input":
                program.leave_out(name, "loops and transformers")
        return
    if not re.match(r"&?[A-Z]\w*\s*[(\[]", chunk):
        return
    head, _, body = chunk.removesuffix(".").partition(":-")
    names = [found[1] for part in split(head) if (found := re.match(r"&?(\w+)", part))]
    try:
        for part in split(head):
            rule = _rule(program, part, body.strip())
            program.rules[re.findall(r"\w+", part)[0]].append(rule)
        for name in rule.reads & program.reasons.keys():
            raise NotPlain(program.reasons[name])
    except NotPlain as error:
        for name in names:
            program.leave_out(name, str(error))


def _rule(program: Program, head: str, body: str) -> Rule:
    reads: set[str] = set()
    literals: list[str] = []
    shown = [_atom(program, head, reads, is_head=True)]
    reads.clear()
    variables: list[str] = []
    for literal in split(body) if body else []:
        if literal.startswith("Inspect"):
            continue
        grouped = _GROUPED.fullmatch(literal)
        if grouped is not None:
            literals.append(_aggregate(grouped, literals, variables))
        else:
            literals.append(_literal(program, literal, reads))
        variables += re.findall(r"\b[a-z_]\w*\b", re.sub(r"'[^']*'", "", literals[-1]))
    text = f"{shown[0]} :- {', '.join(literals)}." if literals else f"{shown[0]}."
    return Rule(text, frozenset(reads))


def _literal(program: Program, literal: str, reads: set[str]) -> str:
    denied = re.match(r"not\s+(?=[A-Z])", literal)
    if denied is not None:
        return "!" + _atom(program, literal[denied.end() :], reads)
    if re.match(r"[A-Z]\w*\s*\(", literal):
        return _atom(program, literal, reads)
    given = re.match(r"var\s+(\w+)(?:\s*:\s*\w+)?\s*=(?!=)(.*)", literal, re.DOTALL)
    if given is not None:
        return f"{given[1]} = {expression(given[2])}"
    return expression(literal)


def _atom(program: Program, text: str, reads: set[str], is_head: bool = False) -> str:
    found = re.match(r"(\w+)\s*\(", text)
    if found is None:
        raise NotPlain("records")
    name = found[1]
    relation = program.relations.get(name)
    if relation is None:
        raise NotPlain(program.reasons.get(name, "records"))
    inside, _, after = _bracketed(text[found.end() - 1 :])
    if after.strip():
        raise NotPlain("references to rows")
    reads.add(name)
    arguments = placed(relation, split(inside) if inside.strip() else [])
    written = ["_" if a in (None, "_") else expression(str(a)) for a in arguments]
    if is_head:
        written = [
            f"{value} & {(1 << bits) - 1}L" if bits and not re.fullmatch(r"\w+", value) else value
            for value, bits in zip(written, relation.bits, strict=True)
        ]
    return f"{name}({', '.join(written)})"


def placed(relation: Relation, arguments: Sequence[str]) -> list[str | None]:
    """Arguments in the order of the columns, where some are given by name."""
    named = [re.match(r"\.(\w+)\s*=(?!=)(.*)", a, re.DOTALL) for a in arguments]
    if not all(named):
        if len(arguments) != len(relation.columns):
            raise NotPlain("records")
        return list(arguments)
    given = {found[1]: found[2].strip() for found in named if found is not None}
    return [given.get(column) for column in relation.columns]


def _aggregate(grouped: re.Match[str], literals: Sequence[str], variables: Sequence[str]) -> str:
    """A group as an aggregate over the literals before it, with names of its own inside."""
    keys, values = (re.findall(r"\w+", grouped[part]) for part in ("keys", "value"))
    function = _FUNCTIONS.get(
        (grouped["function"], re.sub(r"\|(\w+)\| \1", "", grouped["argument"]))
    )
    inner = set(variables) - set(keys) - {"_"}
    covers = function in ("min", "max") or inner <= {*values, *keys}
    if function is None or not covers or (function != "count" and len(values) != 1):
        raise NotPlain("functions of groups")

    def renamed(text: str) -> str:
        return re.sub(r"'[^']*'|\b\w+\b", lambda m: f"{m[0]}_" if m[0] in inner else m[0], text)

    value = "" if function == "count" else f" {renamed(values[0])}"
    return f"{grouped['result']} = {function}{value} : {{ {', '.join(map(renamed, literals))} }}"


def expression(text: str) -> str:
    """An expression of Spark SQL."""
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotPlain("functions, structures or collections")
        position = match.end()
        after = text[position:].lstrip()[:1]
        if match[0] == "i" and after == '"':
            continue
        if match.lastgroup == "name" and (after in tuple('({."') or match[0][0].isupper()):
            raise NotPlain("functions, structures or collections")
        found.append(_token(str(match.lastgroup), match[0]))
    return "".join(found).strip()


def _token(kind: str, text: str) -> str:
    match kind:
        case "string":
            return _text(text[1:-1])
        case "sized":
            digits = re.sub(r"^\d*'s?", "", text)
            base = {"d": 10, "h": 16, "o": 8, "b": 2}[digits[0]]
            return f"{int(digits[1:].replace('_', ''), base)}L"
        case "hex" | "number":
            return f"{int(text, 0 if kind == 'hex' else 10)}L"
        case "space":
            return " "
    return {"==": "=", "++": "||", "/": " DIV "}.get(text, text)


def _text(inside: str) -> str:
    """A string, with the values of expressions where it has `${...}`."""
    parts = re.split(r"\$\{([^{}]*)\}", inside)
    if len(parts) == 1:
        return _quoted(inside)
    written = [
        f"CAST({expression(part)} AS STRING)" if i % 2 else _quoted(part)
        for i, part in enumerate(parts)
        if part
    ]
    return f"concat({', '.join(written)})"


def _quoted(inside: str) -> str:
    return "'" + inside.replace('\\"', '"').replace("'", "\\'") + "'"
