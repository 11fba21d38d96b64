"""The disk between the store and the operating system: watched, made to fail, and replayed.

`Disk` stands in for the file calls of `rekindle.traces.store`. It numbers every operation, lets a
test interfere just before one, and keeps a journal with all bytes. From a journal `crash_images`
rebuilds what the disk would hold had the machine stopped after any operation:

- *killed*: the process died; everything it did is there, the write under way perhaps by half.
- *power lost*: what POSIX does not promise is gone. A file's bytes survive from its last fsync, a
  name from the last fsync of its directory, and so do names of directories.

So one run of a transaction is crashed at every one of its operations without being run again.
"""

from __future__ import annotations

import builtins
import errno
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rekindle.traces import links as links_module
from rekindle.traces import store as store_module

Image = dict[str, bytes]
"""The files of a directory by their relative names."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One file operation: create, write, sync, rename, link, remove, mkdir or list."""

    kind: str
    path: str
    data: bytes = b""
    target: str = ""

    @property
    def file(self) -> str:
        """What it is about, as a reader of test output wants it."""
        return self.target or self.path


class Fault(OSError):
    """An I/O error that a test planted."""


def fault(number: int) -> Callable[[Operation], Fault]:
    """The error of the operating system with that number."""
    return lambda operation: Fault(number, f"planted at {operation.kind}", operation.path)


input_output_error = fault(errno.EIO)


class ShortWrite(Exception):
    """A write that takes half of the bytes, and then may fail for the rest."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__()
        self.error = error


Interference = Callable[[int, Operation], None]


class Disk:
    """Watches the store's file operations while it is installed."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.journal: list[Operation] = []
        self.interfere: Interference | None = None
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        resolve = store_module._resolve

        def watched(uri: str) -> tuple[Any, str]:
            filesystem, root = resolve(uri)
            return (_Filesystem(self), root) if root == self.root else (filesystem, root)

        patch.setattr(store_module, "_resolve", watched)
        patch.setattr(store_module, "os", _System(self))
        patch.setattr(links_module, "os", _System(self))
        patch.setattr(store_module, "open", self._open, raising=False)

    def run(self, action: Callable[[], Any], interfere: Interference | None = None) -> Any:
        """Run `action` with a new journal and perhaps an interference."""
        self.journal, self.interfere = [], interfere
        try:
            return action()
        finally:
            self.interfere = None

    def perform(self, operation: Operation, effect: Callable[[], Any]) -> Any:
        """Note an operation, let the test interfere, then do it."""
        if not operation.path.startswith(self.root):
            return effect()
        with self._lock:
            number = len(self.journal)
            self.journal.append(operation)
        if self.interfere is not None:
            self.interfere(number, operation)
        return effect()

    def name(self, descriptor: int) -> str:
        return self._names.get(descriptor, "")

    def remember(self, descriptor: int, name: str) -> None:
        self._names[descriptor] = name

    def _open(self, path: str, mode: str = "r", **options: Any) -> Any:
        def effect() -> Any:
            return builtins.open(path, mode, **options)

        file = self.perform(Operation("create", path), effect) if "w" in mode else effect()
        self.remember(file.fileno(), path)
        return file


class _System:
    """The module `os` as the store sees it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, *rest: Any) -> int:
        descriptor = os.open(path, flags, *rest)
        self._disk.remember(descriptor, path)
        return descriptor

    def write(self, descriptor: int, data: Any) -> int:
        operation = Operation("write", self._disk.name(descriptor), bytes(data))
        try:
            return int(self._disk.perform(operation, lambda: os.write(descriptor, data)))
        except ShortWrite as short:
            written = os.write(descriptor, data[: max(1, len(data) // 2)])
            if short.error is not None:
                raise short.error from None
            return written

    def fsync(self, descriptor: int) -> None:
        operation = Operation("sync", self._disk.name(descriptor))
        self._disk.perform(operation, lambda: os.fsync(descriptor))

    def replace(self, source: str, target: str) -> None:
        operation = Operation("rename", source, target=target)
        self._disk.perform(operation, lambda: os.replace(source, target))

    def link(self, source: str, target: str) -> None:
        operation = Operation("link", source, target=target)
        self._disk.perform(operation, lambda: os.link(source, target))

    def unlink(self, path: str) -> None:
        self._disk.perform(Operation("remove", path), lambda: os.unlink(path))

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        entries: Iterator[os.DirEntry[str]] = self._disk.perform(
            Operation("list", path), lambda: os.scandir(path)
        )
        return entries

    def makedirs(self, path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        self._disk.perform(
            Operation("mkdir", path), lambda: os.makedirs(path, mode, exist_ok=exist_ok)
        )


class _Filesystem(fs.LocalFileSystem):  # type: ignore[misc]
    """Arrow's local filesystem with its removals watched; listings go through `links`."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk

    def delete_file(self, path: str) -> None:
        self._disk.perform(
            Operation("remove", path), lambda: fs.LocalFileSystem.delete_file(self, path)
        )


# ---- replay --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Replay:
    """Names and bytes as the running system sees them, and as a power failure leaves them."""

    root: str
    bytes_now: dict[int, bytes] = field(default_factory=dict)
    bytes_safe: dict[int, bytes] = field(default_factory=dict)
    names_now: dict[str, int] = field(default_factory=dict)
    names_safe: dict[str, int] = field(default_factory=dict)
    directories_now: set[str] = field(default_factory=set)
    directories_safe: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, image: Mapping[str, bytes], root: str) -> _Replay:
        replay = cls(root)
        for number, (name, data) in enumerate(image.items()):
            replay.names_now[name] = replay.names_safe[name] = number
            replay.bytes_now[number] = replay.bytes_safe[number] = data
            replay._make_directories(os.path.dirname(name))
        replay.directories_safe = set(replay.directories_now)
        return replay

    def do(self, operation: Operation) -> None:
        path = self._relative(operation.path)
        match operation.kind:
            case "create":
                number = len(self.bytes_now)
                self.names_now[path], self.bytes_now[number] = number, b""
                # An empty directory of before is in no image, and nobody knows that it is safe.
                self._make_directories(os.path.dirname(path))
            case "write":
                self.bytes_now[self.names_now[path]] += operation.data
            case "sync" if path in self.names_now:
                number = self.names_now[path]
                self.bytes_safe[number] = self.bytes_now[number]
            case "sync":
                self._sync_directory(path)
            case "rename":
                self.names_now[self._relative(operation.target)] = self.names_now.pop(path)
            case "link":
                self.names_now[self._relative(operation.target)] = self.names_now[path]
            case "remove":
                self.names_now.pop(path, None)
            case "mkdir":
                self._make_directories(path)
            case "list":
                pass
            case other:
                raise AssertionError(other)

    def killed(self) -> Image:
        return {name: self.bytes_now[number] for name, number in self.names_now.items()}

    def power_lost(self) -> Image:
        return {
            name: self.bytes_safe.get(number, b"")
            for name, number in self.names_safe.items()
            if all(parent in self.directories_safe for parent in _parents(name))
        }

    def _sync_directory(self, path: str) -> None:
        self.names_safe = {
            **{n: i for n, i in self.names_safe.items() if os.path.dirname(n) != path},
            **{n: i for n, i in self.names_now.items() if os.path.dirname(n) == path},
        }
        self.directories_safe |= {d for d in self.directories_now if os.path.dirname(d) == path}

    def _make_directories(self, path: str) -> None:
        self.directories_now |= {path, *_parents(path)} - {""}

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.root) if path != self.root else ""


def _parents(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


@dataclass(frozen=True, slots=True)
class Crash:
    """What a crash after so many operations leaves."""

    done: int
    how: str
    image: Image = field(repr=False)


def crash_images(
    before: Mapping[str, bytes], journal: list[Operation], root: str
) -> Iterator[Crash]:
    """Every crash of a run, each image once."""
    seen: set[tuple[str, frozenset[tuple[str, bytes]]]] = set()
    replay = _Replay.of(before, root)
    for done in range(len(journal) + 1):
        outcomes = [("killed", replay.killed()), ("power lost", replay.power_lost())]
        if done < len(journal):
            upcoming = journal[done]
            if upcoming.kind == "write":
                torn = replay.killed()
                torn[os.path.relpath(upcoming.path, root)] = upcoming.data[
                    : len(upcoming.data) // 2
                ]
                outcomes.append(("killed while writing", torn))
            replay.do(upcoming)
        for how, image in outcomes:
            key = how, frozenset(image.items())
            if key not in seen:
                seen.add(key)
                yield Crash(done, how, image)


def image_of(root: Path) -> Image:
    """The files under a directory."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def restore(image: Mapping[str, bytes], root: Path) -> Path:
    """Make a directory hold exactly an image."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif str(path.relative_to(root)) not in image:
            path.unlink()
    for name, data in image.items():
        path = root / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root
