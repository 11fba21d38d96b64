"""Random sets of Datalog rules: recursive, mutually recursive and stratified.

The relations come in blocks. A rule of a block reads the tables, the blocks before, and its own
block; what it denies belongs to a table or to a block before. The first rule of a relation reads
only what is complete before, so that every relation has a beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

TABLES = {"e": 2, "f": 2, "n": 1}
_VARIABLES = "xyzw"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules, and the number of columns of each relation that they define."""

    text: str
    arities: dict[str, int]

    @property
    def declared(self) -> str:
        """The program in Soufflé's language, in which our rules are rules too."""
        columns = {**TABLES, **self.arities}
        declared = [
            f".decl {name}({', '.join(f'c{i}: number' for i in range(width))})"
            for name, width in columns.items()
        ]
        return "\n".join([*declared, self.text])


@st.composite
def rule_sets(draw: st.DrawFn) -> RuleSet:
    """Two or three blocks of one or two relations."""
    known = dict(TABLES)
    arities: dict[str, int] = {}
    lines: list[str] = []
    for block in range(draw(st.integers(2, 3))):
        names = [f"d{block}{letter}" for letter in "ab"[: draw(st.integers(1, 2))]]
        widths = {name: draw(st.integers(1, 2)) for name in names}
        for name, width in widths.items():
            lines.append(draw(_rule(name, width, known, known)))
            for _ in range(draw(st.integers(1, 2))):
                lines.append(draw(_rule(name, width, {**known, **widths}, known)))
        known |= widths
        arities |= widths
    return RuleSet("\n".join(lines), arities)


@st.composite
def _rule(
    draw: st.DrawFn, head: str, width: int, readable: dict[str, int], complete: dict[str, int]
) -> str:
    atoms = []
    bound: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(readable)))
        arguments = [draw(st.sampled_from(_VARIABLES)) for _ in range(readable[name])]
        bound += arguments
        atoms.append(f"{name}({', '.join(arguments)})")
    values = st.sampled_from(sorted(set(bound)))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(complete)))
        denied = [draw(values | st.just("_")) for _ in range(complete[name])]
        atoms.append(f"!{name}({', '.join(denied)})")
    if draw(st.booleans()):
        compared = draw(st.sampled_from(["<", "!=", "<="]))
        atoms.append(f"{draw(values)} {compared} {draw(values)}")
    shown = ", ".join(draw(values) for _ in range(width))
    return f"{head}({shown}) :- {', '.join(atoms)}."
