"""A server that speaks S3, on a free port of the loopback: moto, one request at a time.

Started as `python -m tests.recovery.s3_server`, it says its port. Its process is its own, so that
writers in other processes share it, and so that it outlives those that are killed. Requests are
answered one after the other, because moto looks for an object and then stores one in two steps,
and the real S3 does both in one. A request may ask to be carried out and not answered, or neither,
by what `faults` holds: that is how a test loses answers on purpose.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
BUCKET = "warehouses"
CONTROL = "/-/lose"
"""A put here makes the answers to the next conditional puts go astray: one word for each."""


class _Serialised:
    """A WSGI application whose requests are answered one at a time, and sometimes badly."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._one = threading.Lock()
        self._lost: list[str] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._one:
            if environ["PATH_INFO"] == CONTROL:
                body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                self._lost = body.decode().split()
                start("200 OK", [("Content-Length", "0")])
                return [b""]
            conditional = environ.get("HTTP_IF_NONE_MATCH") == "*"
            how = self._lost.pop(0) if conditional and self._lost else "answered"
            if how == "refused":
                start("500 Internal Server Error", [("Content-Length", "0")])
                return [b""]
            if how == "done":
                list(self._application(environ, lambda *_: lambda _: None))
                start("500 Internal Server Error", [("Content-Length", "0")])
                return [b""]
            return list(self._application(environ, start))


@dataclass(slots=True)
class S3Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    @classmethod
    def start(cls) -> S3Server:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.s3_server"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        server = cls(process, int(process.stdout.readline()))
        server._put(f"/{BUCKET}", b"")
        return server

    def uri(self, name: str) -> str:
        """A root in the server's bucket, with all that Arrow needs to know."""
        place = f"endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"
        return f"s3://someone:secret@{BUCKET}/{name}?{place}"

    def lose(self, *how: str) -> None:
        """Answer the next conditional puts badly: `done` carries one out, `refused` does not."""
        self._put(CONTROL, " ".join(how).encode())

    def _put(self, path: str, data: bytes) -> None:
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, method="PUT")
        with urllib.request.urlopen(request) as answer:
            answer.read()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = _Serialised(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    # Whoever started it may be killed; the pipe ends with them.
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
