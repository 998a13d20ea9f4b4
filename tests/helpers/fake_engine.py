"""Engines that misbehave: a unix socket that accepts and then does one wrong thing to every request."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Behaviour = Callable[[socket.socket, bytes], None]
"""Gets the connection and what was read of the request; may answer, wait or close."""


def answer(body: object, status: str = "200 OK") -> Behaviour:
    """Answers everything with this JSON."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    return lambda connection, _: connection.sendall(head + data)


VERSION = {"Version": "99.0", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64"}


def after_version(then: Behaviour, version: object = None) -> Behaviour:
    """Answers the question for the version, then does something else."""
    first = answer(VERSION if version is None else version)
    return lambda connection, request: (first if b"GET /version" in request else then)(connection, request)


def hang(connection: socket.socket, _request: bytes) -> None:
    """Never answers."""
    connection.settimeout(30)
    while connection.recv(4096):
        pass


def hang_up(connection: socket.socket, _request: bytes) -> None:
    """Closes the connection instead of answering."""
    connection.shutdown(socket.SHUT_RDWR)


def garbage(connection: socket.socket, _request: bytes) -> None:
    """Is no HTTP server."""
    connection.sendall(b"\x00\xff what?\r\n\r\n")
    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def fake_engine(behaviour: Behaviour) -> Iterator[str]:
    """The address of an engine that behaves so."""
    with tempfile.TemporaryDirectory(prefix="fe-") as directory, socket.socket(socket.AF_UNIX) as server:
        path = Path(directory) / "s"
        server.bind(str(path))
        server.listen(8)
        threads = [threading.Thread(target=_serve, args=(server, behaviour), daemon=True)]
        threads[0].start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            threads[0].join(5)


def _serve(server: socket.socket, behaviour: Behaviour) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(connection, behaviour), daemon=True).start()


def _talk(connection: socket.socket, behaviour: Behaviour) -> None:
    with connection:
        request = b""
        try:
            while True:
                while b"\r\n\r\n" not in request:
                    more = connection.recv(65536)
                    if not more:
                        return
                    request += more
                behaviour(connection, request)
                request = b""
        except OSError:
            return
