"""`rekindle mrql` and its benchmark."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_script_prints_its_results(run: Run, warehouse: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.mrql"
    script.write_text("n = 7; select (o.id, o.cust) from o in orders where o.cust = n; n + 1;")
    found = run("mrql", warehouse, script)
    assert (found.exit_code, found.stdout) == (0, "{ (1,7), (2,7) }\n8\n")
    found = run("mrql", warehouse, input="select s frm spend;")
    assert found.exit_code == 1
    assert "line 1, column 10: 'frm' cannot stand here" in found.stderr
    script.write_text("1 + 1;\n  count(orders); // so many\n nosuch; 3;")
    found = run("mrql", warehouse, script)
    assert (found.exit_code, found.stdout.split()[0]) == (1, "2"), "what came before is printed"
    assert (
        len(found.stdout.split()) == 2 and "line 3, column 2: there is no 'nosuch'" in found.stderr
    )


def test_the_benchmark_says_what_it_measured(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mrql.json"
    some = "groupBy,k-means-approximate,PageRank-graph"
    found = run("bench", "mrql", "--rows", 2000, "--only", some, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    assert len(report["series"]) == 9 and len(report["verdicts"]) == 3
    graph = report["facts"]["PageRank-graph"]
    assert all(0 < moved <= 2 * graph["ranks"] for moved in graph["ranks_moved"])
    assert len(report["facts"]["k-means-approximate"]["apart"]) == 9
    assert path.with_stem("mrql-groupBy").with_suffix(".svg").exists()
