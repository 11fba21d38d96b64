"""A store that is not local, made of a local directory: its calls are numbered and may fail.

`Remote` is a handler of `pyarrow.fs`, as those of object stores in Python are. A test interferes in
front of any call, and of any write into an open stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from rekindle.traces import store as store_module

Interference = Callable[[int, str, str], None]
"""Is told the number of a call, its kind and its path, and may raise."""


class Remote(fs.FileSystemHandler):  # type: ignore[misc]
    """Passes calls on to the local file system, after the test has had its say."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.calls: list[tuple[str, str]] = []
        self.interfere: Interference | None = None
        self._local = fs.LocalFileSystem()

    def install(self, patch: pytest.MonkeyPatch, uri: str) -> None:
        """Let the store at a URI be this one."""
        resolve = store_module._resolve
        system = fs.PyFileSystem(self)

        def resolved(given: str) -> tuple[Any, str]:
            if not given.startswith(uri):
                return resolve(given)
            return system, (self.root + given.removeprefix(uri)).rstrip("/")

        patch.setattr(store_module, "_resolve", resolved)

    def call(self, kind: str, path: str) -> None:
        number = len(self.calls)
        self.calls.append((kind, path))
        if self.interfere is not None:
            self.interfere(number, kind, path)

    def get_type_name(self) -> str:
        return "remote"

    def normalize_path(self, path: str) -> str:
        return str(self._local.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> list[Any]:
        self.call("look", ", ".join(paths))
        return list(self._local.get_file_info(paths))

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        self.call("list", selector.base_dir)
        return list(self._local.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        self.call("create_dir", path)
        self._local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.call("delete_dir", path)
        self._local.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.call("delete_dir", path)
        self._local.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("nobody deletes everything")

    def delete_file(self, path: str) -> None:
        self.call("delete", path)
        self._local.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.call("move", target)
        self._local.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self.call("copy", target)
        self._local.copy_file(source, target)

    def open_input_stream(self, path: str) -> Any:
        self.call("open", path)
        return pa.PythonFile(_Stream(self, self._local.open_input_stream(path), path), "r")

    def open_input_file(self, path: str) -> Any:
        self.call("open", path)
        return pa.PythonFile(_Stream(self, self._local.open_input_file(path), path), "r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.call("create", path)
        return pa.PythonFile(_Stream(self, self._local.open_output_stream(path), path), "w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise AssertionError("nothing is appended to")


class _Stream:
    """An open file whose reads and writes are calls too."""

    def __init__(self, remote: Remote, file: Any, path: str) -> None:
        self._remote, self._file, self._path = remote, file, path

    def read(self, size: int = -1) -> Any:
        self._remote.call("read", self._path)
        return self._file.read(None if size < 0 else size)

    def write(self, data: Any) -> int:
        self._remote.call("write", self._path)
        self._file.write(data)
        return len(data)

    def close(self) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
