"""The queries of Apache MRQL's material under the reference semantics, against recorded results.

Each file's statements run in order in one session. A statement counts as

    equal      the value is the recorded one: bags as multisets, numbers to a relative 1e-9
    meaning    the original has a quirk here; the value is what the text says (see `QUIRKS`)
    refused    the original refuses the statement, and so do we
    accepted   the original refuses it (mostly its type checker), and we give a value
    random     the value depends on chance
    different  none of these

`python -m tests.external.mrql` prints the counts and every difference.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.errors import RekindleError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.files import Files
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.iteration import iteration
from rekindle.mrql_language.parse import parse_statement, pieces
from rekindle.mrql_language.printing import shortest, show
from rekindle.mrql_language.session import NOTHING, Session
from rekindle.mrql_language.split import split
from rekindle.mrql_language.unnest import unnest
from rekindle.mrql_language.values import Bag, Float, List, Record, Value, sort_key
from tests.external.material import material

QUIRKS = {
    ("factorization3", 12): "a global name captures a macro's parameter",
    ("x_collections", 4): "a bag and a list make a list",
    ("x_collections", 5): "intersect multiplies multiplicities",
    ("x_collections", 19): "max of negative doubles is the smallest positive one",
    ("x_collections", 40): "distinct undoes the order",
    ("x_collections", 41): "limit n keeps n+1",
    ("x_collections", 42): "limit n keeps n+1",
    ("x_collections", 53): "two plain variables of one name do not join",
    ("x_collections", 63): "max of nothing is the least int",
    ("x_collections", 64): "min of nothing is the largest int",
    ("x_collections", 67): "max of nothing is the smallest positive double",
    ("x_collections", 7): "intersect of lists is a list, in no stated order; here it is a bag",
    ("x_expressions", 64): "bags are compared in stored order",
    ("x_files", 41): "intersect multiplies multiplicities",
    ("x_syntax", 43): "or true is simplified before a division by zero is come to",
    ("x_files", 39): "limit n keeps n+1",
    ("x_groupby", 5): "partition has wrong labels",
    ("x_groupby", 41): "a quantifier that is the whole condition repeats the row",
    ("x_groupby", 42): "a quantifier that is the whole condition repeats the row",
    ("x_groupby", 43): "not all becomes some without negation",
    ("x_syntax", 17): "a global name captures a macro's parameter",
}
"""Where the original's result is not what the text says, and why."""
SUITES = ("tests", "extra", "examples")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one statement went."""

    file: str
    index: int
    text: str
    verdict: str
    detail: str = ""


def same(value: Value, wanted: Any) -> bool:
    """Whether a value is a recorded one."""
    match wanted:
        case {"bag": items} | {"list": items}:
            kind = Bag if "bag" in wanted else List
            if not isinstance(value, kind) or len(value) != len(items):
                return False
            if kind is List:
                return all(map(same, value.elements, items))
            ours = sorted(value.elements, key=sort_key)
            theirs = sorted(items, key=lambda item: sort_key(parsed(item)))
            return all(map(same, ours, theirs))
        case {"tuple": items}:
            fits = isinstance(value, tuple) and len(value) == len(items)
            return fits and all(map(same, value, items))
        case {"record": fields}:
            fits = isinstance(value, Record) and len(value.fields) == len(fields)
            if not fits or {name for name, _ in value.fields} != set(fields):
                return False
            return all(same(value.get(name), item) for name, item in fields.items())
        case {"string": text}:
            return bool(value == text)
        case "NaN":
            return isinstance(value, float) and math.isnan(value)
        case "Infinity" | "-Infinity":
            return bool(value == float(wanted))
        case bool():
            return value is wanted
        case _:
            if isinstance(value, Float):
                value = shortest(value)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)


def parsed(wanted: Any) -> Value:
    """A recorded value as one of ours."""
    match wanted:
        case {"bag": items}:
            return Bag(map(parsed, items))
        case {"list": items}:
            return List(tuple(map(parsed, items)))
        case {"tuple": items}:
            return tuple(map(parsed, items))
        case {"record": fields}:
            return Record(tuple((name, parsed(item)) for name, item in fields.items()))
        case {"string": text}:
            return text
        case "NaN" | "Infinity" | "-Infinity":
            return float(wanted)
        case _:
            return wanted


def generated(place: Path, name: str) -> Value:
    """What the original's generators had written: `source(binary, "tmp/N.bin")`."""
    rows = [line.split(",") for line in (place / f"data/generated/{name}.csv").read_text().split()]
    match name:
        case "points":
            return Bag(Record((("X", float(x)), ("Y", float(y)))) for x, y in rows)
        case "graph":
            return Bag((int(x), int(y)) for x, y in rows)
        case _:
            return Bag((float(x), int(i), int(j)) for x, i, j in rows)


def session(
    place: Path, arguments: tuple[str, ...], prepare: Callable[[t.Term], t.Term]
) -> Session:
    """A session over the material's files."""

    def locate(name: str) -> Path:
        if name.startswith("queries/data"):
            # The directory that was streamed had this file (expected/examples).
            return place / "data/customers.tbl"
        return place / "data" / name.removeprefix("../tests/data/").removeprefix("data/")

    files = Files(locate)
    for path in (place / "data/generated").glob("*.csv"):
        files.stored[f"tmp/{path.stem}.bin"] = generated(place, path.stem)
    return Session(files, files, arguments=arguments, prepare=prepare)


def outcomes(
    place: Path, suite: str, prepare: Callable[[t.Term], t.Term] = unnest
) -> Iterator[Outcome]:
    """How each statement with a recorded result, or a refusal, went."""
    for path in sorted((place / "expected" / suite).glob("*.json")):
        recorded = json.loads(path.read_text())
        if "statements" not in recorded:
            continue
        script = (place / "queries" / suite / f"{path.stem}.mrql").read_text()
        setup = recorded.get("setup", "")
        given = tuple(setup.split()[1:3]) if setup.startswith("args:") else ()
        run = session(place, given, prepare)
        for piece, wanted in zip(pieces(script), recorded["statements"], strict=True):
            value: Value = NOTHING
            error = ""
            try:
                statement = parse_statement(piece)
                value = run.execute(statement)
                if isinstance(statement, s.StoreFile) and wanted.get("random"):
                    value = NOTHING
            except RekindleError as failure:
                error = str(failure)
            made = _outcome(path.stem, wanted, value, error)
            if made is not None:
                yield made


def _outcome(file: str, wanted: Any, value: Value, error: str) -> Outcome | None:
    def outcome(verdict: str, detail: str = "") -> Outcome:
        return Outcome(file, wanted["index"], wanted["text"], verdict, detail)

    if "error" in wanted:
        return outcome("refused" if error else "accepted", error)
    if wanted.get("random"):
        return outcome("different" if error else "random", error)
    if error:
        quirk = (file, wanted["index"]) in QUIRKS
        return outcome("meaning" if quirk else "different", error)
    if "result" not in wanted:
        return None
    if "value" in wanted:
        equal = same(value, wanted["value"])
        if not equal and wanted.get("ties") and isinstance(value, List):
            equal = same(Bag(value), {"bag": wanted["value"]["list"]})
    else:
        equal = (
            show(value) == wanted["result"].splitlines()[-1]
            if wanted["text"].startswith("trace")
            else show(value) == wanted["result"]
        )
    if equal:
        return outcome("equal")
    if (file, wanted["index"]) in QUIRKS:
        meaning = wanted.get("meaning")
        if meaning is None or show(value) == meaning:
            return outcome("meaning", show(value))
    return outcome("different", f"ours: {show(value)[:200]}\n    theirs: {wanted['result'][:200]}")


def _batch(place: Path, number: int) -> Callable[[t.Source], Value]:
    """Reads the rows that arrived with one batch."""

    def read(source: t.Source) -> Value:
        request = source.request
        assert request is not None
        if request.parser == "binary":
            stem = Path(str(request.arguments[0])).stem
            path = place / f"data/incremental/{stem}_{number}.csv"
            rows = [line.split(",") for line in path.read_text().split()]
            if stem == "points":
                return Bag(Record((("X", float(x)), ("Y", float(y)))) for x, y in rows)
            return Bag((int(x), int(y)) for x, y in rows)
        folder = place / "data/incremental"
        name = Path(str(request.arguments[0])).name
        path = folder / (f"{name}_{number}.csv" if source.kind == "stream" else name)
        return Files(lambda _: path)(source)

    return read


def stream_outcomes(place: Path) -> Iterator[Outcome]:
    """The `incr` queries batch by batch: state ⊗ h(ΔS), and the answer against recomputation."""
    paths = [
        *sorted((place / "expected/incremental").glob("*.json")),
        place / "expected/examples/incremental-streaming.json",
        place / "expected/examples/incremental-kmeans.json",
    ]
    for path in paths:
        recorded = json.loads(path.read_text())
        script = (place / "queries" / path.parent.name / f"{path.stem}.mrql").read_text()
        base = Session(_batch(place, 1))
        statement: s.Statement = s.Evaluate("", s.Literal(0))
        for piece in pieces(script):
            statement = parse_statement(piece)
            if not isinstance(statement, s.Evaluate):
                base.execute(statement)
        if not isinstance(statement, s.Evaluate) or statement.mode != "incr":
            continue
        term = base.term(statement.expression)
        for batch, value in zip(recorded["batches"], _followed(base, term, place), strict=True):
            wanted = batch.get("recomputed_value", batch.get("value"))
            verdict = "equal" if same(value, wanted) else "different"
            detail = f"ours: {show(value)[:200]}\n    theirs: {batch['recomputed'][:200]}"
            yield Outcome(path.stem, batch["batch"], str(recorded["query_file"]), verdict, detail)


def _followed(base: Session, term: t.Term, place: Path) -> Iterator[Value]:
    """The answer after each of the three batches."""
    run = base.interpreter
    readers = [Interpreter(_batch(place, n), run.functions, run.stored) for n in (1, 2, 3)]
    if isinstance(term, t.Repeat):
        loop = iteration(term)
        value, states = loop.begin(readers[0])
        yield value
        for reader in readers[1:]:
            value, states = loop.advance(reader, states, reader, threshold=1.0)
            yield value
        return
    found = split(term)
    states = found.start()
    for reader in readers:
        states = found.merged(states, found.state(reader))
        yield found.result(reader, states)


def main() -> int:
    """Prints the counts of every suite, and what differs."""
    place = material("mrql")
    if place is None:
        print("the material is not here")
        return 1
    failures = 0
    for suite in SUITES:
        found = list(outcomes(place, suite))
        print(suite, len(found), dict(Counter(each.verdict for each in found)))
        for each in found:
            if each.verdict in ("different", "accepted"):
                print(f"  {each.verdict}: {each.file} #{each.index}: {each.text}")
                print(f"    {each.detail}")
            failures += each.verdict == "different"
    found = list(stream_outcomes(place))
    print("streams", len(found), dict(Counter(each.verdict for each in found)))
    for each in found:
        if each.verdict == "different":
            print(f"  {each.verdict}: {each.file} batch {each.index}\n    {each.detail}")
            failures += 1
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
