"""A real engine behind a socket that fails chosen calls, before they reach it or after they took effect there."""

from __future__ import annotations

import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

When = Literal["before", "after"]
How = Literal["refused", "lost", "stalled"]

REFUSAL = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 22\r\n\r\n{"message":"injected"}'
)
"""Says that the connection ends, or the client would now and then take the next call for lost."""

_NAMES = (
    ("version", r"GET \S*/version"),
    ("list", r"GET \S*/containers/json"),
    ("create", r"POST \S*/containers/create"),
    ("inspect", r"GET \S*/containers/[^/]+/json"),
    ("remove", r"DELETE \S*/containers/"),
    ("events", r"GET \S*/events"),
)


@dataclass(frozen=True)
class Fault:
    """What happens instead of an answer: an error 500, a closed connection, or nothing for as long as the fault stands."""

    when: When
    how: How


Rule = Callable[[str, int], Fault | None]
"""Gets the name of a call and its number among all calls, from 0; gives what goes wrong with it."""


def never(_call: str, _number: int) -> None:
    """Nothing goes wrong."""


@dataclass
class EngineProxy:
    """Its address, the names of the calls it got in order, and the rule, which may be changed at any time."""

    host: str
    upstream: str
    rule: Rule = never
    calls: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def heal(self) -> None:
        """From now on nothing goes wrong; calls that stall end without an answer."""
        self.rule = never
        self._over.set()
        self._over = threading.Event()

    def serve(self, connection: socket.socket) -> None:
        """One request and its answer; the connection is closed then."""
        with connection, suppress(OSError):
            request = _read_request(connection)
            if not request:
                return
            with self._lock:
                number = len(self.calls)
                self.calls.append(name_of(request))
                fault, over = self.rule(self.calls[-1], number), self._over
            told = b"" if fault is not None and fault.when == "before" else self._forwarded(request)
            if fault is None:
                connection.sendall(told)
            elif fault.how == "refused":
                connection.sendall(REFUSAL)
            elif fault.how == "stalled":
                over.wait(60)

    def _forwarded(self, request: bytes) -> bytes:
        head, body = request.split(b"\r\n\r\n", 1)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with closing(socket.socket(socket.AF_UNIX)) as engine:
            engine.connect(self.upstream)
            engine.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            parts = []
            while part := engine.recv(65536):
                parts.append(part)
        return b"".join(parts)


def name_of(request: bytes) -> str:
    """What a request asks of a container: `create`, `start`, …; for anything else its first line."""
    line = request.split(b"\r\n", 1)[0].decode()
    for name, pattern in _NAMES:
        if re.match(pattern, line):
            return name
    action = re.match(r"POST \S*/containers/[^/]+/(\w+)", line)
    return action[1] if action else line


def _read_request(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        part = connection.recv(65536)
        if not part:
            return b""
        request += part
    head, body = request.split(b"\r\n\r\n", 1)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        part = connection.recv(65536)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body


@contextmanager
def engine_proxy(upstream: str) -> Iterator[EngineProxy]:
    """In front of the engine at a unix address."""
    with tempfile.TemporaryDirectory(prefix="ep-") as directory, socket.socket(socket.AF_UNIX) as server:
        path = Path(directory) / "s"
        server.bind(str(path))
        server.listen(32)
        proxy = EngineProxy(f"unix://{path}", upstream.removeprefix("unix://"))
        accepting = threading.Thread(target=_accept, args=(server, proxy), daemon=True)
        accepting.start()
        try:
            yield proxy
        finally:
            proxy.heal()
            server.shutdown(socket.SHUT_RDWR)
            accepting.join(5)


def _accept(server: socket.socket, proxy: EngineProxy) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=proxy.serve, args=(connection,), daemon=True).start()
