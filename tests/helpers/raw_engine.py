"""What only tests ask of an engine: one request to its API, past the adapter."""

from __future__ import annotations

import http.client
import socket


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


def ask_engine(host: str, method: str, path: str) -> bytes:
    """The body of the answer, which must be a good one."""
    connection = _Connection(host.removeprefix("unix://"))
    try:
        connection.request(method, f"/v1.41{path}")
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    assert answer.status < 300, (method, path, answer.status, body)
    return body
