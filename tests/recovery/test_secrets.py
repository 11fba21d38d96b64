"""A key in the URI of a store is never said: not by errors, `repr`, explain, files or the screen.

A database is opened under a URI with a secret, everything goes wrong that can, and all that was
said is searched.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import rekindle
from rekindle.cli.main import app
from rekindle.errors import RekindleError
from rekindle.runtime.reading.source import RekindleSource
from rekindle.runtime.upkeep.backup import backup
from rekindle.runtime.upkeep.restore import restore
from rekindle.runtime.upkeep.verify import verify
from rekindle.traces import store as store_module
from rekindle.traces.opened import OPEN_SEGMENTS
from tests.recovery.disk import Disk, Interference, Operation, image_of

URI = "s3://AKIA7:topsecret@bucket/warehouse"
SHOWN = "s3://***@bucket/warehouse"
SECRETS = ("AKIA7", "topsecret")


class Said:
    """All that was said, as a user would see it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *texts: object) -> None:
        self.texts += map(str, texts)

    @contextmanager
    def raised(self, words: str) -> Iterator[None]:
        """The block raises an error of ours, with these words; its traceback is noted."""
        with pytest.raises(RekindleError) as caught:
            yield
        assert words in str(caught.value)
        frames = traceback.format_exception(caught.value, chain=True)
        # Lines of source show names of variables, never their values.
        self.add(*frames, repr(caught.value), caught.value.args)

    def check(self) -> None:
        for text in self.texts:
            for secret in SECRETS:
                assert secret not in text, text


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of a bucket: what is at the URI is in a directory."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    resolve = store_module._resolve

    def resolved(uri: str) -> tuple[Any, str]:
        if not uri.startswith(URI):
            return resolve(uri)
        return fs.LocalFileSystem(), str(bucket) + uri.removeprefix(URI)

    monkeypatch.setattr(store_module, "_resolve", resolved)
    watched = Disk(bucket)
    watched.install(monkeypatch)
    within = store_module.files_within

    def listed(root: str, directory: str) -> Any:
        return watched.perform(
            Operation("list", f"{root}/{directory}"), lambda: within(root, directory)
        )

    monkeypatch.setattr(store_module, "files_within", listed)
    return watched


def failing(kind: str, error: Callable[[], Exception]) -> Interference:
    def interfere(number: int, operation: Operation) -> None:
        if operation.kind == kind:
            raise error()

    return interfere


def test_no_secret_is_ever_said(
    disk: Disk, spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = Said()
    root = tmp_path / "bucket"
    command = CliRunner()
    with said.raised("there is no database"):
        rekindle.connect(URI, spark, mode="read")
    with said.raised("there is no database"):
        verify(URI)
    db = rekindle.connect(URI, spark)
    db.sql("CREATE TABLE t (n BIGINT, m BIGINT, PRIMARY KEY (n))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS c FROM t GROUP BY m")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    said.add(repr(db), db.explain("v"), db.explain("v").json(), db.check("v"), db.last_step)
    said.add(repr(db._engine.store), db._engine.state)
    assert f"'{SHOWN}'" in repr(db)

    busy = failing("create", lambda: OSError(f"PUT {URI}/x: AWS Error SLOW_DOWN"))
    disk.interfere = busy
    with said.raised("does not answer"):
        db.sql("INSERT INTO t VALUES (3, 1)")
    with said.raised("does not answer"):
        backup(str(root), URI + "/copy")
    disk.interfere = failing("list", lambda: PermissionError(13, "Forbidden", URI))
    with said.raised("refuses access"):
        verify(URI)
    with said.raised("refuses access"):
        rekindle.connect(URI, spark, mode="read")
    disk.interfere = None
    db.sql("INSERT INTO t VALUES (3, 1)")
    said.add(db.verify(), db.verify().to_json(), db.backup(URI + "/copy"))
    said.add(restore(URI + "/copy", URI + "/restored"))
    with said.raised("is not empty"):
        restore(URI + "/copy", URI + "/restored")
    with said.raised("is not empty"):
        backup(URI, URI + "/restored")
    with said.raised("cannot be restored"):
        restore(URI + "/copy", URI + "/other", 99)
    with rekindle.connect(URI, spark, mode="read") as reader, said.raised("is for reading"):
        reader.sql("INSERT INTO t VALUES (4, 1)")

    source = RekindleSource({"path": f"{URI}/nosuch"})
    with said.raised("unknown table or view"):
        source.schema()
    with said.raised("there is no database"):
        RekindleSource({"path": f"{URI}/nowhere/t"}).schema()
    with said.raised("unknown option"):
        RekindleSource({"path": f"{URI}/t", "key": "1"}).schema()

    for arguments in (
        ["verify", URI],
        ["verify", URI, "--json"],
        ["verify", URI + "/nowhere"],
        ["backup", URI, URI + "/copy"],
        ["restore", URI + "/copy", URI + "/restored"],
    ):
        result = command.invoke(app, arguments)
        said.add(result.output, result.stderr, result.exception)

    segment = next(iter(db._engine.state.traces.values())).segments[0]
    db.close()
    with said.raised("is closed"):
        db.sql("SELECT 1")
    OPEN_SEGMENTS.clear()
    (root / segment.path).write_bytes(b"")
    with rekindle.connect(URI, spark) as damaged, said.raised("is truncated"):
        damaged.table("t").collect()
    said.add(verify(URI))
    for record in (root / "log").iterdir():
        said.add(record.read_text())
        record.write_bytes(b"")
    with said.raised("is damaged"):
        rekindle.connect(URI, spark)
    for record in (root / "log").iterdir():
        record.unlink()
    with said.raised("is missing, but there are data files"):
        rekindle.connect(URI, spark)
    said.add(*image_of(root), *image_of(root).values())
    said.add(*capfd.readouterr())
    said.check()
