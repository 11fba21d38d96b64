"""Faults of a store: each has a name, a place and a way out, and quotes no secret."""

from __future__ import annotations

import errno
import os
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rekindle.errors import DefinitionError, ExecutionError, RekindleError, StorageError
from rekindle.redaction import without_secrets
from rekindle.traces import store as store_module
from rekindle.traces.faults import named, storage_error
from rekindle.traces.store import Store
from tests.recovery.remote import Remote

SECRET = "s3://AKIA7:topsecret@bucket/warehouse"


@pytest.mark.parametrize(
    ("number", "what", "to_do"),
    [
        (errno.ENOSPC, "is full", "make room"),
        (errno.EDQUOT, "is full", "quota"),
        (errno.EROFS, "is read-only", "mode='read'"),
        (errno.EACCES, "refuses access", "right to read and write"),
        (errno.EPERM, "refuses access", "right to read and write"),
        (errno.EMFILE, "open files", "ulimit -n"),
        (errno.EIO, "its device", "rekindle verify"),
        (errno.ETIMEDOUT, "does not answer", "try again"),
        (errno.ESTALE, "does not answer", "try again"),
        (errno.ENOENT, "no such place", "restore a backup"),
        (errno.EXDEV, "failed", "detail"),
    ],
)
def test_a_number_of_the_system_becomes_words(number: int, what: str, to_do: str) -> None:
    error = storage_error(OSError(number, os.strerror(number), "/w/data/x"), "/w")
    assert what in error.message and "'/w'" in error.message
    assert "last epoch" in error.message
    assert os.strerror(number) in error.detail and "/w/data/x" in error.detail
    assert to_do in error.hint
    assert error.errno == number
    assert isinstance(error, OSError) and isinstance(error, RekindleError)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("AWS Error SLOW_DOWN during PutObject operation: Please reduce your rate", "not answer"),
        ("AWS Error UNKNOWN (HTTP status 503) during GetObject operation", "not answer"),
        ("AWS Error NETWORK_CONNECTION during HeadObject: curlCode: 28, Timeout", "not answer"),
        ("AWS Error ACCESS_DENIED during ListObjectsV2 operation: Access Denied", "refuses access"),
        ("Google Cloud: Quota exceeded", "is full"),
        ("something that nobody has seen", "failed"),
    ],
)
def test_a_sentence_of_an_object_store_becomes_words(said: str, what: str) -> None:
    error = storage_error(OSError(said), "s3://bucket/w")
    assert what in error.message
    assert said in error.detail


def test_an_error_that_came_from_a_task_is_whole() -> None:
    error = storage_error(OSError(errno.ENOSPC, "no room", "/w/x"), "/w")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)


# ---- the store -----------------------------------------------------------------------------------


def test_too_many_open_files(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "w"))
    store.write_bytes("a", b"1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        with pytest.raises(OSError, match="open files"):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(StorageError, match="cannot take more open files"):
            store.write_bytes("b", b"2")
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    store.write_bytes("b", b"2")
    assert store.read_bytes("b") == b"2"


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("in the way")
    with pytest.raises(StorageError, match="no such place"):
        Store(str(tmp_path / "w")).write_bytes("data/a", b"1")


def test_a_missing_file_is_an_answer_where_one_is_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        store.read_bytes("a")
    store.delete(["a"])
    assert store.list("a") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_every_call_of_a_local_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    store = Store(str(tmp_path))

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        if call == "open":
            patch.setattr(store_module, "open", failing, raising=False)
        else:
            patch.setattr(store_module.os, call, failing)
        with pytest.raises(StorageError) as caught:
            store.write_atomically("log/1", b"x")
    assert caught.value.errno == number
    assert not list(tmp_path.rglob("*.tmp")), "nothing is left"
    store.write_atomically("log/1", b"x")
    assert store.read_bytes("log/1") == b"x"


@pytest.fixture
def remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, BaseException], Store]:
    """A store behind a URI with a secret, of whose calls those of a kind fail."""
    handler = Remote(str(tmp_path))
    handler.install(monkeypatch, SECRET)

    def make(failing: str, error: BaseException) -> Store:
        def interfere(_: int, kind: str, path: str) -> None:
            if kind == failing:
                raise error

        handler.interfere = interfere
        return Store(SECRET)

    return make


@pytest.mark.parametrize("call", ["create_dir", "create", "write", "move"])
def test_every_call_of_a_remote_store(
    remote: Callable[[str, BaseException], Store], call: str
) -> None:
    busy = OSError(f"When writing {SECRET}/x: AWS Error SLOW_DOWN (HTTP status 503)")
    with pytest.raises(StorageError, match="does not answer") as caught:
        remote(call, busy).write_bytes("data/x", b"x")
    assert "topsecret" not in str(caught.value) + repr(caught.value.__cause__)
    assert "s3://***@bucket/warehouse" in caught.value.message
    store = remote("", busy)
    store.write_bytes("data/x", b"x")
    assert store.read_bytes("data/x") == b"x"


def test_listing_a_remote_store(remote: Callable[[str, BaseException], Store]) -> None:
    slow = OSError("AWS Error NETWORK_CONNECTION: curlCode: 28, Timeout was reached")
    with pytest.raises(StorageError, match="does not answer"):
        remote("list", slow).list("data")


# ---- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (SECRET, "s3://***@bucket/warehouse"),
        ("s3://AKIA7:top/secret+x@bucket/w", "s3://***@bucket/w"),
        ("s3://AKIA7:top%2Fsecret@bucket/w", "s3://***@bucket/w"),
        ("s3://AKIA7@bucket/w", "s3://***@bucket/w"),
        ("s3://bucket/w?secret_key=topsecret&region=x", "s3://bucket/w?secret_key=***&region=x"),
        ("abfs://c@a.dfs.core/w?sig=topsecret", "abfs://***@a.dfs.core/w?sig=***"),
        ("/home/me@work/w", "/home/me@work/w"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_secrets_of_a_uri_are_not_shown(uri: str, shown: str) -> None:
    assert without_secrets(f"before '{uri}' after") == f"before '{shown}' after"
    assert without_secrets(f"before {uri} after") == f"before {shown} after"
    assert uri == shown or uri not in str(RekindleError(uri, detail=uri, hint=uri))
    assert repr(Store(uri)) == f"Store({shown!r})"


@pytest.mark.parametrize("uri", ["nosuch://k:topsecret@b/w", "s3://k:top secret@b/w"])
def test_a_uri_that_is_none_is_refused_without_its_secret(uri: str) -> None:
    with pytest.raises(DefinitionError, match="is not a place") as caught:
        Store(uri).list()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_has_a_name_of_ours_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody waits for it: a commit asks again whether its record was created."""
    uncertain = type("UncertainError", (OSError,), {"__module__": "rekindle.traces.somewhere"})

    def failing(*_: Any, **__: Any) -> Any:
        raise uncertain("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "open", failing, raising=False)
        with pytest.raises(uncertain):
            Store(str(tmp_path)).write_bytes("a", b"x")
    with pytest.raises(uncertain), named("/w"):
        failing()


def test_a_block_names_what_happens_in_it() -> None:
    with pytest.raises(StorageError, match=r"the store of '/w' is full"), named("/w"):
        raise OSError(errno.ENOSPC, "no room")
    with pytest.raises(pa.ArrowInvalid), named("/w"):
        raise pa.ArrowInvalid("no fault of the store")


def test_a_jvm_that_has_ended_is_no_fault_of_a_store() -> None:
    """The connection to Java is refused as that to a store is: whose it was tells them apart."""
    client: dict[str, Any] = {"__name__": "py4j.clientserver"}
    exec("def connect(): raise ConnectionRefusedError(111, 'Connection refused')", client)
    with pytest.raises(ExecutionError, match="the JVM of Spark has ended"), named("/warehouse"):
        client["connect"]()
    with pytest.raises(StorageError, match="does not answer"), named("/warehouse"):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
