"""What is asked of the system before many lookups in a file that is not in memory."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rekindle.traces import paging

ROWS = 2**23
"""More bytes than are read ahead when the file is opened."""


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mapped in one test may stand where a column of the test before stood."""
    monkeypatch.setattr(paging, "_seen", {})


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    """A column in a file that nobody has in memory."""
    place = tmp_path / "column.arrow"
    table = pa.table({"x": np.arange(ROWS)})
    with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    descriptor = os.open(place, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    table = pa.ipc.open_file(pa.memory_map(str(place))).read_all()
    if paging._is_in_memory(_buffer(table)):
        pytest.skip("this filesystem keeps its files in memory")
    return table


def _buffer(table: Any) -> Any:
    return table.column("x").chunk(0).buffers()[1]


def test_many_rows_of_a_column_on_disk_are_read_in_order(mapped: Any) -> None:
    paging.fetch(mapped, ROWS // 100)
    # The system reads while the caller goes on.
    patience = time.monotonic() + 30
    while not paging._is_in_memory(_buffer(mapped)):
        assert time.monotonic() < patience
        time.sleep(0.01)


def test_for_a_few_rows_nothing_is_read(mapped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(paging, "_read_in_order", asked.append)
    paging.fetch(mapped, 10)
    assert not asked
    paging.fetch(mapped, ROWS // 100)
    assert asked


def test_a_column_in_memory_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_read_in_order", lambda _: pytest.fail("it was read"))
    paging.fetch(pa.table({"x": np.ones(ROWS)}), ROWS)
