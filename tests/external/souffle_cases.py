"""The programs of the suite with their facts and published results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.external.souffle_components import Program, flattened
from tests.external.souffle_functors import Value, cast
from tests.external.souffle_naive import Row
from tests.external.souffle_syntax import NotApplicable, parse
from tests.external.souffle_witnesses import with_witnesses


@dataclass(frozen=True, slots=True)
class Published:
    """A program, the facts that it reads from files, and the lines of its results."""

    name: str
    program: Program
    facts: dict[str, list[Row]]
    results: dict[str, list[str]]
    sizes: dict[str, int]


def places(root: Path) -> list[Path]:
    """The programs' files."""
    return sorted((root / "evaluation").glob("*/*.dl"))


def read(place: Path) -> Published:
    """A case; `NotApplicable` where the program has no counterpart."""
    program = flattened(parse(place.read_text(encoding="utf-8")))
    program.clauses = [with_witnesses(clause) for clause in program.clauses]
    facts = {
        name: list(_facts(place.parent / "facts" / f"{name}.facts", program.relations[name].types))
        for name in program.inputs
    }
    results = {}
    for name in program.outputs:
        file = place.parent / f"{name}.csv"
        if not file.exists():
            raise NotApplicable("it has no published result")
        results[name] = file.read_text(encoding="utf-8").split("\n")[:-1]
    sizes = {}
    if program.sizes:
        printed = place.with_suffix(".out").read_text(encoding="utf-8")
        pairs = [line.split("\t") for line in printed.splitlines() if "\t" in line]
        sizes = {name: int(size) for name, size in pairs}
    return Published(place.stem, program, facts, results, sizes)


def _facts(place: Path, types: tuple[str, ...]) -> Iterator[Row]:
    for line in place.read_text(encoding="utf-8").splitlines():
        if line or types:
            yield tuple(_value(v, k) for v, k in zip(line.split("\t"), types, strict=True))


def _value(text: str, kind: str) -> Value:
    match kind:
        case "symbol":
            return text
        case "float":
            return float(text)
    return cast(int(text, 16 if text.startswith("0x") else 10), kind)


def printed(rows: list[Row], types: tuple[str, ...]) -> list[str]:
    """The rows as lines of a result, in order; floats with six digits."""
    if not types:
        return ["()"] * len(rows)
    lines = ("\t".join(map(_text, row, types)) for row in rows)
    return sorted(line for text in lines for line in text.split("\n"))


def rounded(lines: list[str], types: tuple[str, ...]) -> list[str]:
    """Published lines in the form of `printed`."""
    if "float" not in types:
        return sorted(lines)
    rows = [line.split("\t") for line in lines]
    return printed([tuple(map(_value, row, types)) for row in rows], types)


def _text(value: Value, kind: str) -> str:
    return f"{value:.6g}" if kind == "float" else str(value)
