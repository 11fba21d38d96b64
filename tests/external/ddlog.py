"""DDlog's scripts of transactions through `db.datalog`: the changes that they publish are ours.

    python -m tests.external.ddlog [--only simple]

A case is an output relation of a program. The relations that are plain Datalog (`ddlog_dialect`)
become tables and views, a script's transactions are played one by one, and what it prints of a
relation, its changes at a commit and its contents at a dump, must be what we have then.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UnsupportedError
from rekindle.runtime.database import Database
from tests.external.batches import text
from tests.external.compare import Difference, Row, rows_of
from tests.external.ddlog_dialect import (
    NotPlain,
    Program,
    Relation,
    parse_program,
    placed,
    split,
)
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results

SUITE = "ddlog"
ABOUT = "DDlog's scripts of transactions: the output relations that are plain Datalog."
TOO_DEEP = {"Rb": "a recursion of 65,600 iterations, more than the limit of 10,000"}
_PRINTED = re.compile(r"(\w+)\{(.*)\}(?:: ([+-]\d+))?")

Printed = set[tuple[str, int]]
"""Rows as they are printed, with weights; those of a dump have weight 0."""


@dataclass(slots=True)
class Script:
    """A program with its commands and what they print of each relation, in order."""

    name: str
    program: Program
    commands: list[str]
    printed: dict[str, list[Printed]]


def read_script(place: Path) -> Script:
    """A script; rows that cannot be read leave their relation out."""
    program = parse_program(place.read_text(encoding="utf-8"))
    for name, reason in TOO_DEEP.items():
        program.leave_out(name, reason)
    plain = re.sub(r"^\s*#.*$", "", place.with_suffix(".dat").read_text("utf-8"), flags=re.M)
    commands = [" ".join(part.split()) for part in split(plain, ",;") if part]
    for command in commands:
        try:
            change_of(program, command)
        except NotPlain as error:
            program.leave_out(re.findall(r"\w+", command)[1], str(error))
    expected = place.with_suffix(".dump.expected").read_text("utf-8")
    return Script(place.stem, program, commands, dict(printed_of(expected)))


def printed_of(text: str) -> Iterator[tuple[str, list[Printed]]]:
    """What is printed of each relation: a block ends where another kind of line stands."""
    blocks: dict[str, list[Printed]] = {}
    before: tuple[str, bool] | None = None
    for line in text.splitlines():
        found = _PRINTED.fullmatch(line)
        kind = None if found is None else (found[1], found[3] is None)
        if found is not None and kind is not None:
            if kind != before:
                blocks.setdefault(found[1], []).append(set())
            blocks[found[1]][-1].add((found[2], int(found[3] or 0)))
        before = kind
    yield from blocks.items()


@dataclass(frozen=True, slots=True)
class Change:
    """A command that changes a relation: a row, or the values of its key."""

    relation: Relation
    word: str
    values: Row


def change_of(program: Program, command: str) -> Change | None:
    """What a command changes in a plain relation; `NotPlain` where it cannot be read."""
    found = re.fullmatch(
        r"(insert_or_update|insert|delete|delete_key|clear|modify) (\w+)(.*)", command
    )
    if found is None or found[2] in program.reasons or found[2] not in program.relations:
        return None
    word, relation, rest = found[1], program.relations[found[2]], found[3].strip()
    if word == "modify":
        raise NotPlain("rows changed by column")
    if word == "clear":
        return Change(relation, word, ())
    if word == "delete_key":
        return Change(relation, word, tuple(map(constant, split(rest.strip("()")))))
    if not (rest.startswith("(") and rest.endswith(")")):
        raise NotPlain("records")
    given = placed(relation, split(rest[1:-1]) if rest[1:-1].strip() else [])
    return Change(relation, word, tuple(constant(value or "") for value in given))


def constant(written: str) -> object:
    """A value in a script."""
    if written in ("true", "false"):
        return written == "true"
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", written):
        value = int(written, 16 if "x" in written else 10)
        if abs(value) < 1 << 63:
            return value
    if re.fullmatch(r'"(?:[^"\\]|\\.)*"', written):
        return re.sub(r"\\(.)", r"\1", written[1:-1])
    raise NotPlain("values that are not numbers, strings or booleans")


def shown(row: Row, columns: Sequence[str]) -> str:
    """A row as DDlog prints it.

    >>> shown((1, "a", True), ["x", "y", "z"])
    '.x = 1, .y = "a", .z = true'
    """
    values = row[: len(columns)]
    return ", ".join(f".{c} = {_shown(v)}" for c, v in zip(columns, values, strict=True))


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value)


@dataclass(slots=True)
class Session:
    """A script on a database: the rows of the input relations, and what must still be printed."""

    db: Database
    script: Script
    results: Results
    rows: dict[str, set[Row]] = field(default_factory=dict)
    pending: dict[str, set[Row]] = field(default_factory=dict)
    since: int = 0

    def play(self) -> None:
        """All commands; a relation that differs has failed and is not looked at again."""
        silent = {name for name in self.outputs if not self.script.printed.get(name)}
        self._declare()
        for command in self.script.commands:
            match command.split():
                case ["start"]:
                    self.pending = {name: set(rows) for name, rows in self.rows.items()}
                case ["commit", *rest]:
                    self._commit()
                    if rest:
                        self._each(self._require_changes)
                    self.since = self.db.epoch
                case ["dump", *names]:
                    self._each(self._require_contents, names)
                case _:
                    self._change(command)
        self._each(self._require_end)
        for name in self.outputs:
            reason = "it stays empty" if name in silent else ""
            self.results.add(f"{self.script.name}/{name}", Outcome.PASSED, reason)

    @property
    def outputs(self) -> list[str]:
        program = self.script.program
        return [name for name in program.outputs if name not in program.reasons]

    def _declare(self) -> None:
        program = self.script.program
        plain = {n: r for n, r in program.relations.items() if n not in program.reasons}
        texts = []
        for name, relation in plain.items():
            rules = [rule.text for rule in program.rules[name]]
            if relation.role != "input" and rules:
                texts += rules
                continue
            columns = zip(relation.columns, relation.types, strict=True)
            schema = ", ".join(f"`{c}` {t}" for c, t in columns)
            self.db.create_table(name, schema or "holds BOOLEAN")
            self.rows[name] = {_fact(rule) for rule in rules}
            with self.db.transaction() as transaction:
                transaction.insert(name, [row or (True,) for row in self.rows[name]])
        self.db.datalog("\n".join(texts))
        self._each(self._require_first)
        self.since = self.db.epoch

    def _change(self, command: str) -> None:
        change = change_of(self.script.program, command)
        if change is None:
            return
        name, key = change.relation.name, change.relation.key
        rows = self.pending[name]
        places = [change.relation.columns.index(column) for column in key]
        match change.word:
            case "clear":
                rows.clear()
            case "delete":
                rows.discard(change.values)
            case "insert":
                rows.add(change.values)
            case "delete_key":
                rows -= {row for row in rows if tuple(row[i] for i in places) == change.values}
            case "insert_or_update":
                mine = tuple(change.values[i] for i in places)
                rows -= {row for row in rows if tuple(row[i] for i in places) == mine}
                rows.add(change.values)

    def _commit(self) -> None:
        with self.db.transaction() as transaction:
            for name, wanted in self.pending.items():
                gone, new = self.rows[name] - wanted, wanted - self.rows[name]
                if gone:
                    transaction.delete(name, [row or (True,) for row in gone])
                if new:
                    transaction.insert(name, [row or (True,) for row in new])
        self.rows = self.pending

    def _each(self, require: Callable[[str], None], names: Sequence[str] = ()) -> None:
        for name in self.outputs:
            case = f"{self.script.name}/{name}"
            if case not in self.results.cases and (not names or name in names):
                try:
                    require(name)
                except Difference as error:
                    self.results.add(case, Outcome.FAILED, str(error))

    def _contents(self, name: str) -> Printed:
        columns = self.script.program.relations[name].columns
        return {(shown(row, columns), 0) for row in rows_of(self.db.table(name))}

    def _require_first(self, name: str) -> None:
        """What follows from facts in the program is printed as a change, if at all."""
        blocks = self.script.printed.get(name, [])
        if blocks and blocks[0] == {(row, 1) for row, _ in self._contents(name)}:
            blocks.pop(0)

    def _require_changes(self, name: str) -> None:
        columns = self.script.program.relations[name].columns
        changes = rows_of(self.db.changes(name, since=self.since))
        self._require(name, {(shown(row[2:], columns), row[1]) for row in changes})

    def _require_contents(self, name: str) -> None:
        self._require(name, self._contents(name))

    def _require(self, name: str, ours: Printed) -> None:
        if not ours:
            return
        blocks = self.script.printed.get(name, [])
        theirs = blocks.pop(0) if blocks else set()
        if ours != theirs:
            surplus, missing = sorted(ours - theirs)[:3], sorted(theirs - ours)[:3]
            raise Difference(f"at epoch {self.db.epoch}: only ours {surplus}, not ours {missing}")

    def _require_end(self, name: str) -> None:
        left = self.script.printed.get(name, [])
        if left:
            raise Difference(
                f"{len(left)} more blocks are published, such as {sorted(left[0])[:3]}"
            )


def _fact(rule: str) -> Row:
    """The values of a fact in our text."""
    inside = rule[rule.index("(") + 1 : -2]
    found = [part.strip().replace("'", '"').removesuffix("L") for part in split(inside)]
    return tuple(map(constant, found))


def scripts(root: Path) -> list[Path]:
    """The programs with a script and its output."""
    found = sorted((root / "datalog_tests").glob("*.dl"))
    return [p for p in found if all(p.with_suffix(s).exists() for s in (".dat", ".dump.expected"))]


def replay(
    spark: SparkSession, scratch: Path, programs: Sequence[Path], say: Callable[[str], None] = print
) -> Results:
    """The scripts, each on a database of its own under `scratch`."""
    results = Results(SUITE, ABOUT)
    for place in programs:
        script = read_script(place)
        reasons = script.program.reasons
        for name in script.program.outputs:
            if name in reasons:
                results.add(f"{script.name}/{name}", Outcome.NOT_APPLICABLE, reasons[name])
        wanted = [name for name in script.program.outputs if name not in reasons]
        if not wanted:
            continue
        try:
            with rekindle.connect(str(scratch / script.name), spark) as db:
                Session(db, script, results).play()
        except Exception as error:
            outcome = Outcome.REFUSED if isinstance(error, UnsupportedError) else Outcome.FAILED
            for name in wanted:
                results.add(f"{script.name}/{name}", outcome, text(error))
        for name in wanted:
            say(str(results.cases[f"{script.name}/{name}"]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.ddlog")
    parser.add_argument("--only", default="", help="programs whose name has this text")
    asked = parser.parse_args()
    root = material("ddlog")
    if root is None:
        raise SystemExit(absent("ddlog"))
    from rekindle.spark.session import local_session

    chosen = [place for place in scripts(root) if asked.only in place.stem]
    with tempfile.TemporaryDirectory(prefix="rekindle-ddlog-") as scratch:
        session = local_session(**{"spark.ui.enabled": "false"})
        results = replay(session, Path(scratch), chosen)
    results.notes.append(
        "A case is an output relation. One is not applicable when it, or a relation that it reads, "
        "uses DDlog's functional language, its structures, collections or streams."
    )
    print(results.summary)
    if not asked.only:
        print(f"written to {os.path.relpath(results.write())}")
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
