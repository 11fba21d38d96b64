"""Run the Python blocks of the tutorial, so that what it tells a reader to type works.

    python scripts/run_tutorial.py [FILE.md ...]      (default: docs/tutorial.md, docs/tutorial/)

The blocks of one page share one namespace and run in order, from an empty directory, in a process
of their own: to Spark a path is relative to where it was started. A block with
`>>>` prompts is a doctest: its output is compared. Other blocks only have to run. Blocks in other
languages are counted and left out.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^```[ \t]*$", re.S | re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block and the number of lines above its first line."""

    language: str
    body: str
    lines_above: int


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(match["language"], match["body"], text.count("\n", 0, match.start("body")))
        for match in FENCE.finditer(text)
    ]


def run_block(block: Block, page: Path, namespace: dict[str, Any]) -> bool:
    """Run one block; True when it did what the page says."""
    if ">>>" not in block.body:
        # Blank lines in front make a traceback name the line of the page.
        code = compile("\n" * block.lines_above + block.body, str(page), "exec")
        exec(code, namespace)
        return True
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(
        block.body, namespace, page.name, str(page), block.lines_above
    )
    test.globs = namespace
    runner = doctest.DocTestRunner(optionflags=flags)
    return runner.run(test, clear_globs=False).failed == 0


def run_page(page: Path) -> bool:
    """Run one page in an empty directory; True when every block worked."""
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    runnable = [block for block in blocks if block.language in ("python", "pycon")]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    home = Path.cwd()
    worked = True
    with tempfile.TemporaryDirectory(prefix="rekindle-tutorial-") as directory:
        os.chdir(directory)
        try:
            for block in runnable:
                if not run_block(block, page, namespace):
                    worked = False
                    break
        except Exception:
            traceback.print_exc()
            worked = False
        finally:
            os.chdir(home)
    left_out = len(blocks) - len(runnable)
    outcome = "ran" if worked else "FAILED"
    print(f"{page}: {outcome}, {len(runnable)} Python blocks, {left_out} others left out")
    return worked


def main(arguments: list[str]) -> int:
    """Run the given pages, or the tutorial; the exit status says whether all worked."""
    pages = [Path(argument).resolve() for argument in arguments]
    if not pages:
        pages = sorted((ROOT / "docs").glob("tutorial*.md"))
        pages += sorted((ROOT / "docs" / "tutorial").glob("**/*.md"))
    if not pages:
        print("no tutorial: neither docs/tutorial*.md nor docs/tutorial/ has a page")
        return 1
    if len(pages) == 1:
        return 0 if run_page(pages[0]) else 1
    codes = [subprocess.run([sys.executable, __file__, str(page)]).returncode for page in pages]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
