"""Two writers on one database: one of them commits an epoch, and the other one is told.

Most of it is said of leases and logs alone, which need no Spark, on a local path and on a server
that speaks S3.
"""

from __future__ import annotations

import gc
import http.server
import json
import os
import secrets
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pyarrow import fs
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    CorruptionError,
    DefinitionError,
    FencedError,
    LockedError,
    PrerequisiteError,
    UnsupportedError,
)
from rekindle.runtime.epochs import log as log_module
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.writers import lease as lease_module
from rekindle.runtime.writers import lease_file
from rekindle.runtime.writers.host_lock import HostLock
from rekindle.runtime.writers.lease import Lease
from rekindle.traces import conditional
from rekindle.traces import store as store_module
from rekindle.traces.conditional import UncertainError
from rekindle.traces.store import Store
from tests.recovery.s3_server import S3Server
from tests.recovery.writers import TERM, Writer, fall_asleep, from_elsewhere, hold_elsewhere

Opened = Callable[..., Writer]
LONG_TERM = 2.0
"""A term in which a writer renews its lease even where the machine is busy."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    server = S3Server.start()
    yield server
    server.stop()


@pytest.fixture(params=["local", "s3"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The root of a database that does not exist yet."""
    if request.param == "local":
        return str(tmp_path / "warehouse")
    server: S3Server = request.getfixturevalue("s3")
    return server.uri(secrets.token_hex(6))


@pytest.fixture
def remote(s3: S3Server) -> str:
    return s3.uri(secrets.token_hex(6))


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens writers with a short term, and closes them after the test."""
    opened: list[Writer] = []

    def opener(uri: str, wait: float = 0.0, term: float = TERM) -> Writer:
        monkeypatch.setattr(lease_module, "TERM", term)
        opened.append(Writer.open(uri, wait))
        return opened[-1]

    yield opener
    for one in opened:
        one.close()


# ---- a file that is created once -----------------------------------------------------------------


def test_of_many_that_create_a_file_one_succeeds(uri: str) -> None:
    store = Store(uri)
    for number in range(5):
        path = f"log/{number}"

        def attempt(who: int, path: str = path) -> int | None:
            try:
                store.create(path, b"%d" % who)
            except FileExistsError:
                return None
            return who

        with ThreadPoolExecutor(8) as threads:
            won = [who for who in threads.map(attempt, range(8)) if who is not None]
        assert len(won) == 1
        assert store.read_bytes(path) == b"%d" % won[0]
    assert len(store.list("log")) == 5, "nothing but the files is left"


def test_a_created_file_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    data = b"x" * 300_000
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for path in store.list("log"):
                if not path.endswith(".tmp"):
                    seen.add(len(store.read_bytes(path)))

    watcher = threading.Thread(target=look)
    watcher.start()
    for number in range(30):
        store.create(f"log/{number}", data)
    done.set()
    watcher.join()
    assert seen <= {len(data)}


def test_a_link_whose_answer_was_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network file system does it: linked, not answered, asked again, and then in its way."""
    store = Store(str(tmp_path))
    store.create("log/0", b"")
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    store.create("log/1", b"one")
    assert store.read_bytes("log/1") == b"one"
    with pytest.raises(FileExistsError):
        store.create("log/1", b"two")


class _Conditions(http.server.BaseHTTPRequestHandler):
    """Answers puts: yes, and no to those of a name with `taken`; keeps what it was asked."""

    asked: list[tuple[str, dict[str, str]]]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.path, headers))
        self.send_response(412 if "taken" in self.path else 201)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    ("root", "condition", "signed"),
    [
        (
            "gs://anonymous@bucket/w?scheme=http&endpoint_override={server}",
            ("x-goog-if-generation-match", "0"),
            "",
        ),
        (
            "abfs://account:a2V5@container/w?blob_storage_authority={server}&enable_tls=false",
            ("if-none-match", "*"),
            "SharedKey account:",
        ),
        (
            "s3://someone:secret@bucket/w?scheme=http&region=eu-west-1&endpoint_override={server}",
            ("if-none-match", "*"),
            "AWS4-HMAC-SHA256 Credential=someone/",
        ),
    ],
    ids=["gcs", "abfs", "s3"],
)
def test_every_store_is_asked_on_condition(
    root: str, condition: tuple[str, str], signed: str
) -> None:
    """The request bears the condition, and what the URI says of place and credentials."""
    handler = type("Handler", (_Conditions,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store = Store(root.format(server=f"127.0.0.1:{server.server_port}"))
        store.create("log/new", b"one")
        with pytest.raises(FileExistsError):
            store.create("log/taken", b"two")
        server.shutdown()
    assert len(handler.asked) == 2
    for _, headers in handler.asked:
        assert headers[condition[0]] == condition[1]
        assert headers.get("authorization", "").startswith(signed)


class _Hadoop:
    """A file system with the promises of HDFS: a rename is atomic, and never onto a file."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()
        self._one = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def move(self, source: str, target: str) -> None:
        with self._one:
            if os.path.exists(target):
                raise OSError(5, "rename failed")
            self._files.move(source, target)


def test_hadoop_is_asked_to_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hadoop = _Hadoop()
    monkeypatch.setattr(store_module, "_resolve", lambda uri: (hadoop, str(tmp_path)))
    store = Store("hdfs://namenode/w")
    store.check_creatable()
    store.create("log/1", b"one")
    with pytest.raises(FileExistsError):
        store.create("log/1", b"two")
    assert store.read_bytes("log/1") == b"one" and store.list("log") == ["log/1"]


def test_a_file_system_without_conditions_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot be written to on the file system 'mock'"):
        rekindle.connect("mock:///warehouse")


def test_a_writer_is_told_of_the_package_that_it_lacks(
    remote: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(remote)
    one.commit()
    one.close()
    conditional._creator.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'rekindle\[object-store\]'"):
        rekindle.connect(remote)
    assert CommitLog(Store(remote)).load().epoch == 1, "readers need nothing more"


def test_secrets_of_a_uri_are_not_shown(remote: str, writer: Opened) -> None:
    writer(remote)
    with pytest.raises(LockedError) as refusal:
        writer(remote)
    assert "s3://***@warehouses/" in str(refusal.value) and "secret" not in str(refusal.value)
    for wrong in ("s3://someone:secret@[", "nosuch://someone:secret@place/x"):
        with pytest.raises(DefinitionError) as unread:
            rekindle.connect(wrong)
        assert "secret" not in str(unread.value)


def test_a_file_that_goes_while_it_is_read_is_gone(
    remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow asks S3 for its size first, and calls what comes after any error."""
    store = Store(remote)
    store.create("log/1", b"one")
    other = Store(remote + "&connect_timeout=7")

    class Slow:
        type_name = "s3"

        def __getattr__(self, name: str) -> Any:
            return getattr(store.filesystem, name)

        def open_input_stream(self, place: str) -> Any:
            stream = store.filesystem.open_input_stream(place)
            store.delete(["log/1"])
            return stream

    resolve = store_module._resolve
    monkeypatch.setattr(
        store_module,
        "_resolve",
        lambda uri: (Slow(), store.root) if uri == other.uri else resolve(uri),
    )
    with pytest.raises(FileNotFoundError):
        other.read_bytes("log/1")


# ---- modes ---------------------------------------------------------------------------------------


def modes(root: Path) -> tuple[set[int], set[int]]:
    """The modes of the files and of the directories under a root."""
    found = [root, *root.rglob("*")]
    return (
        {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()},
        {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()},
    )


@pytest.mark.parametrize(
    ("umask", "files", "directories"), [(0o022, 0o600, 0o700), (0o277, 0o400, 0o500)]
)
def test_files_are_private(tmp_path: Path, umask: int, files: int, directories: int) -> None:
    """Whatever the umask lets others do; what it forbids to the user too is forbidden."""
    if umask == 0o277 and os.geteuid() != 0:
        pytest.skip("only root writes into such directories")
    before = os.umask(umask)
    try:
        one = Writer.open(str(tmp_path / "warehouse"))
        Store(str(tmp_path / "warehouse")).write_bytes("data/node/1.arrow", b"rows")
        one.commit()
        one.close()
    finally:
        os.umask(before)
    assert modes(tmp_path / "warehouse") == ({files}, {directories})


def test_files_of_a_step_on_spark_are_private(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    with rekindle.connect(str(root), spark) as db:
        db.sql("CREATE TABLE numbers (n BIGINT)")
        db.place("spark")
        db.sql("INSERT INTO numbers SELECT id FROM range(100)")
        db.place("inline")
        db.sql("INSERT INTO numbers SELECT id FROM range(5)")
    assert modes(root) == ({0o600}, {0o700})


# ---- who may write -------------------------------------------------------------------------------


def test_the_second_is_told_who_the_first_is(uri: str, writer: Opened) -> None:
    one = writer(uri)
    one.commit()
    with pytest.raises(LockedError, match="being written to") as refusal:
        writer(uri)
    detail = refusal.value.detail
    assert detail.startswith(f"held by process {os.getpid()} on ")
    assert " since 20" in detail and " until 20" in detail
    assert "wait=60" in refusal.value.hint
    one.close()
    two = writer(uri)
    assert two.state.epoch == 1 and two.lease.number > one.lease.number
    assert not two.lease.contested


def test_a_writer_waits_for_another(uri: str, writer: Opened) -> None:
    one = writer(uri, term=LONG_TERM)
    threading.Timer(1.0, one.close).start()
    started = time.monotonic()
    two = writer(uri, wait=30)
    assert 0.8 < time.monotonic() - started < 10
    assert two.commit() == 1


def test_a_writer_waits_no_longer_than_it_was_told(uri: str, writer: Opened) -> None:
    """A lease that is renewed is respected for longer than its term."""
    one = writer(uri, term=LONG_TERM)
    started = time.monotonic()
    with pytest.raises(LockedError):
        writer(uri, wait=1.5 * LONG_TERM)
    assert 1.5 * LONG_TERM <= time.monotonic() - started < 1.5 * LONG_TERM + 5
    assert one.commit() == 1


def test_a_wait_is_a_number_of_seconds(tmp_path: Path) -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(DefinitionError, match="wait is a number of seconds"):
            rekindle.connect(str(tmp_path), wait=wrong)


def test_a_killed_writer_on_this_host_is_followed_at_once(tmp_path: Path, writer: Opened) -> None:
    root = str(tmp_path / "warehouse")
    process = hold_elsewhere(root, term=3600)
    with process:
        with pytest.raises(LockedError, match=f"held by process {process.pid} on"):
            writer(root)
        process.kill()
        process.wait()
        two = writer(root)
    assert two.state.epoch == 1, "a process that is certainly dead needs no barrier"
    assert two.commit() == 2


def test_a_killed_writer_elsewhere_is_followed_after_its_term(remote: str, writer: Opened) -> None:
    process = hold_elsewhere(remote)
    with process:
        process.kill()
        process.wait()
        with pytest.raises(LockedError, match=f"held by process {process.pid} on"):
            writer(remote)
        started = time.monotonic()
        two = writer(remote, wait=30)
        assert time.monotonic() - started >= TERM
    assert two.lease.contested and two.state.epoch == 2, "the epoch that shuts the other out"
    assert two.commit() == 3


def test_a_forgotten_connection_ends(tmp_path: Path, writer: Opened) -> None:
    root = str(tmp_path / "warehouse")
    forgotten = Writer.open(root)
    forgotten.commit()
    del forgotten
    gc.collect()
    assert writer(root).state.epoch == 1


def test_clocks_that_disagree_do_no_harm(
    tmp_path: Path, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder whose clock is a year behind renews its lease, and is respected."""
    now = time.time
    monkeypatch.setattr(lease_module.time, "time", lambda: now() - 365 * 86400)
    root = str(tmp_path / "warehouse")
    one = writer(root, term=LONG_TERM)
    assert one.lease._lock is not None
    one.lease._lock.release()
    monkeypatch.setattr(lease_module.time, "time", now)
    from_elsewhere(monkeypatch)
    with pytest.raises(LockedError):
        writer(root, wait=1.5 * LONG_TERM)
    assert one.commit() == 1


# ---- zombies -------------------------------------------------------------------------------------


@pytest.fixture
def zombie(uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch) -> tuple[Writer, Writer]:
    """A writer that fell asleep after an epoch, and the one that took over from it."""
    one = writer(uri)
    one.commit()
    fall_asleep(one.lease)
    from_elsewhere(monkeypatch)
    two = writer(uri, wait=30)
    assert two.lease.contested and two.lease.number == one.lease.number + 1
    return one, two


def test_a_zombie_commits_nothing(zombie: tuple[Writer, Writer]) -> None:
    one, two = zombie
    assert two.commit() == 3
    with pytest.raises(FencedError, match="another writer has taken over") as refusal:
        one.commit()
    assert "rekindle.connect again" in refusal.value.hint
    assert not one.log.may_be_committed(2)
    with pytest.raises(FencedError):
        one.log.check_writer()
    one.close()
    assert two.commit() == 4
    assert CommitLog(Store(two.log._store.uri)).load().epoch == 4


def test_a_zombie_commits_nothing_however_late(
    zombie: tuple[Writer, Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints remove records, and must not make the name free that the zombie would take."""
    one, two = zombie
    monkeypatch.setattr(log_module, "CHECKPOINT_EVERY", 4)
    while two.commit() < 13:
        pass
    left = [path for path in two.log._files() if path.endswith(".record")]
    assert [log_module._epoch_of(path) for path in left] == [2, 13]
    with pytest.raises(FencedError):
        one.commit()
    assert CommitLog(Store(two.log._store.uri)).load().epoch == 13


def test_a_zombie_that_was_quicker_is_followed(
    uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits after the other has loaded the log, and before that one has shut it out."""
    one = writer(uri)
    one.commit()
    fall_asleep(one.lease)
    from_elsewhere(monkeypatch)
    take_over = CommitLog.take_over

    def late(self: CommitLog, state: Any) -> Any:
        assert state.epoch == 1
        assert one.commit() == 2
        return take_over(self, state)

    monkeypatch.setattr(CommitLog, "take_over", late)
    two = writer(uri, wait=30)
    assert two.state.epoch == 3, "what was acknowledged to the other is there"
    with pytest.raises(FencedError):
        one.commit()


@pytest.mark.parametrize("how", ["closed", "dead"])
def test_who_takes_over_and_ends_leaves_the_barrier_to_the_next(
    uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The second took the lease and came no further; the first may still be alive."""
    one = writer(uri)
    one.commit()
    fall_asleep(one.lease)
    from_elsewhere(monkeypatch)
    second = Lease(Store(uri), 30)
    assert second.contested
    if how == "closed":
        second.release()
    else:
        fall_asleep(second)
    three = writer(uri, wait=30)
    assert three.lease.contested and three.state.epoch == 2
    with pytest.raises(FencedError):
        one.commit()
    three.close()
    assert not writer(uri).lease.contested


def test_a_zombie_learns_of_it_before_it_asks(
    uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(uri)
    one.commit()
    fall_asleep(one.lease)
    from_elsewhere(monkeypatch)
    writer(uri, wait=30)
    awake: Any = one.lease
    del awake.renew, awake.check
    one.lease._renewed -= 3600
    monkeypatch.setattr(Store, "create", lambda *_: pytest.fail("it must not even try"))
    with pytest.raises(FencedError, match="on elsewhere since"):
        one.commit()


def test_a_late_checkpoint_of_a_zombie_harms_nobody(
    zombie: tuple[Writer, Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = zombie
    store = Store(two.log._store.uri)
    two.commit()
    one.log.checkpoint(one.state)
    assert CommitLog(store).load() == two.state
    monkeypatch.setattr(log_module, "CHECKPOINT_EVERY", 4)
    two.commit()
    before = {path: store.read_bytes(path) for path in store.list("log")}
    one.log.checkpoint(one.state)
    assert CommitLog(store).load() == two.state
    assert before.items() <= {path: store.read_bytes(path) for path in store.list("log")}.items()


def test_a_record_of_a_replaced_writer_is_not_read(uri: str, writer: Opened) -> None:
    one = writer(uri)
    one.commit()
    one.close()
    two = writer(uri)
    two.commit()
    store = Store(uri)
    name = store.list("log")[-1]
    record = json.loads(store.read_bytes(name).partition(b"\n")[2])
    assert record["fence"] == two.lease.number and record["writer"] == two.lease.token
    record.update(epoch=3, fence=one.lease.number)
    body = json.dumps(record).encode()
    data = xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body
    store.create(name.replace("2.record", "3.record"), data)
    with pytest.raises(CorruptionError, match="of a writer that had been replaced"):
        CommitLog(store).load()


def test_fencing_numbers_grow_although_the_leases_are_gone(uri: str, writer: Opened) -> None:
    for _ in range(3):
        one = writer(uri)
        one.commit()
        one.close()
    store = Store(uri)
    store.delete(store.list("lease"))
    assert writer(uri).lease.number == 4


# ---- answers that are lost -----------------------------------------------------------------------


def test_a_commit_whose_answer_was_lost_is_a_commit(
    s3: S3Server, remote: str, writer: Opened
) -> None:
    one = writer(remote)
    for number, how in enumerate([["done"], ["refused"], ["refused", "done"], ["done"] * 9], 1):
        s3.lose(*how)
        assert one.commit() == number
    s3.lose()
    assert CommitLog(Store(remote)).load() == one.state


def test_a_commit_that_nobody_can_tell_of_ends_the_connection(
    s3: S3Server, remote: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may still arrive: nothing is deleted, and the next writer shuts it out."""
    monkeypatch.setattr(log_module, "QUESTIONS", 1)
    one = writer(remote)
    one.commit()
    s3.lose(*["refused"] * 5)
    with pytest.raises(UncertainError):
        one.commit()
    s3.lose()
    assert one.log.may_be_committed(2)
    [(_, late)] = [one.log._begun] if one.log._begun else []
    one.close()
    two = writer(remote, wait=30)
    assert two.lease.contested and two.state.epoch == 2
    with pytest.raises(FileExistsError):
        Store(remote).create(f"log/{2:016}.record", late)


def test_a_commit_that_certainly_failed_leaves_nothing_open(
    tmp_path: Path, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(str(tmp_path / "warehouse"))

    def full(source: str, target: str) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        with pytest.raises(OSError, match="no space left"):
            one.commit()
    assert not one.log.may_be_committed(1)
    assert one.commit() == 1


def test_a_record_whose_name_was_not_synced_is_synced(
    tmp_path: Path, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(str(tmp_path / "warehouse"))
    one.commit()
    syncs: list[str] = []
    sync = Store.sync

    def failing_once(self: Store, directory: str = "") -> None:
        syncs.append(directory)
        if len(syncs) == 1:
            raise OSError(5, "input/output error")
        sync(self, directory)

    monkeypatch.setattr(Store, "sync", failing_once)
    assert one.commit() == 2
    assert len(syncs) >= 2


# ---- the head ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_tail_of_the_log_is_found(uri: str, writer: Opened, lost: int) -> None:
    one = writer(uri)
    while one.commit() < 5:
        pass
    one.close()
    store = Store(uri)
    store.delete(store.list("log")[-lost:])
    with pytest.raises(CorruptionError, match="5 had been committed") as error:
        CommitLog(store).load()
    assert f"ends at epoch {5 - lost}" in error.value.detail
    assert ("its last record\n" if lost == 1 else f"its last {lost} records\n") in str(error.value)
    with pytest.raises(CorruptionError):
        rekindle.connect(uri)
    with pytest.raises(CorruptionError):
        writer(uri)
    # As the hint says.
    store.delete(store.list("lease"))
    assert writer(uri).state.epoch == 5 - lost


def test_a_head_behind_the_log_is_no_alarm(
    uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer died after the record and before the note, or its note could not be written."""
    one = writer(uri)
    one.commit()
    monkeypatch.setattr(one.lease, "note", lambda epoch: None)
    one.commit()
    one.commit()
    one.close()
    assert lease_file.recorded_head(Store(uri)) == 1
    assert writer(uri).state.epoch == 3


def test_a_reader_beside_a_busy_writer_is_not_alarmed(tmp_path: Path, writer: Opened) -> None:
    """The head is read before the log is listed, and noted after the record."""
    root = str(tmp_path / "warehouse")
    one = writer(root)
    files = CommitLog._files
    loads = []
    for _ in range(20):
        log = CommitLog(Store(root))

        def listing(log: CommitLog = log) -> list[str]:
            one.commit()
            found = files(log)
            one.commit()
            return found

        log._files = listing  # type: ignore[method-assign]
        loads.append(log.load().epoch)
    assert loads == sorted(loads) and loads[-1] >= 20


def test_a_database_without_leases_is_opened(tmp_path: Path, writer: Opened) -> None:
    """As an older version wrote it: no lease, and records without a fencing number."""
    store = Store(str(tmp_path / "warehouse"))
    log = CommitLog(store)
    state = log.create()
    log.commit(state, replace(state, epoch=1))
    for path in store.list("log"):
        record = json.loads(store.read_bytes(path).partition(b"\n")[2])
        del record["fence"]
        body = json.dumps(record).encode()
        store.write_atomically(path, xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body)
    assert not store.list("lease")
    one = writer(store.uri)
    assert one.state.epoch == 1 and one.commit() == 2 and not one.lease.contested


def test_a_torn_lease_is_waited_for(uri: str, writer: Opened) -> None:
    one = writer(uri)
    one.commit()
    one.close()
    store = Store(uri)
    [path] = store.list("lease")
    data = store.read_bytes(path)
    (store.write_bytes if store.is_local else store.overwrite)(path, data[:100])
    with pytest.raises(LockedError, match="held by another process"):
        writer(uri)
    two = writer(uri, wait=30)
    assert two.lease.contested and two.commit() == 3


# ---- through the database ------------------------------------------------------------------------


def test_a_database_that_was_taken_over(
    uri: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zombie's transaction fails as a whole; the other's files are all there."""
    monkeypatch.setattr(lease_module, "TERM", TERM)
    one = rekindle.connect(uri, spark)
    one.sql("CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k))")
    one.sql("CREATE MATERIALIZED VIEW s AS SELECT v, count(*) AS n FROM t GROUP BY v")
    one.sql("INSERT INTO t VALUES (1, 1)")
    assert one._connection.lease is not None
    with monkeypatch.context() as patch:
        fall_asleep(one._connection.lease)
        from_elsewhere(patch)
        two = rekindle.connect(uri, spark, wait=30)
    epoch = two.epoch
    two.sql("INSERT INTO t VALUES (2, 1)")
    store = Store(uri)
    store.write_bytes(f"data/node/e{epoch:010}-{two._engine.store.writer}-0.arrow", b"under way")
    files = set(store.list("data"))
    with pytest.raises(FencedError, match="taken over"):
        one.sql("INSERT INTO t VALUES (3, 1)")
    assert one.epoch == epoch - 1
    assert set(store.list("data")) == files, "its own files are gone, and no others"
    for refused in (one.collect, lambda: one.sql("DROP VIEW s")):
        with pytest.raises(FencedError):
            refused()
    assert set(store.list("data")) == files
    one.close()
    two.sql("INSERT INTO t VALUES (4, 2)")
    two.check("s")
    two.close()
    with rekindle.connect(uri, spark) as db:
        assert db.epoch == epoch + 2
        assert sorted(row.k for row in db.table("t").collect()) == [1, 2, 4]
        db.check("s")


# ---- that these tests would notice ---------------------------------------------------------------


def test_without_a_barrier_a_zombie_is_noticed(
    uri: str, writer: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommitLog, "take_over", lambda self, state: state)
    one = writer(uri)
    one.commit()
    fall_asleep(one.lease)
    from_elsewhere(monkeypatch)
    writer(uri, wait=30)
    assert one.commit() == 2, "this is what the barrier is for"


def test_a_lock_of_this_host_is_one(tmp_path: Path) -> None:
    first, second = HostLock(str(tmp_path)), HostLock(str(tmp_path))
    assert first.take() and first.take() and not second.take()
    first.release()
    assert second.take()
    second.release()
