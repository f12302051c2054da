"""A client of the broker's control server, with its own minimal HTTP and JSON.

`http.client` would import the mail parser and TLS into every test run. Each request opens its own
connection, so that threads share no state and no connection can become stale.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


class BrokerError(Exception):
    """The broker cannot be reached or refuses a request; the message says why.

    `status` is the HTTP status, or 0 without a response.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def quoted(text: str) -> str:
    """Return a text in the quoted form for one segment of a path, or for a value in a query."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


class Control:
    """A client of the control server at `address` (host, port). Thread-safe."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """Send a request and return the JSON of the response. Raises BrokerError.

        `path` must be quoted (see `quoted`); the values of `query` must not. `timeout` is in
        seconds and applies to each socket operation.
        """
        if query:
            path += "?" + "&".join(f"{name}={quoted(str(value))}" for name, value in query.items())
        content = b"" if body is None else json.dumps(body).encode()
        host, port = self.address
        head = (
            f"{method} {path} HTTP/1.1\r\n"
            f"Host: {f'[{host}]' if ':' in host else host}:{port}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        try:
            with socket.create_connection(self.address, timeout) as connection:
                connection.sendall(head.encode() + content)
                received = bytearray()
                while part := connection.recv(1 << 18):
                    received += part
        except OSError as error:
            raise BrokerError(f"{method} {path}: the broker cannot be reached: {error}") from error
        status, answer = _read(bytes(received), f"{method} {path}")
        if status != 200:
            raise BrokerError(str(answer.get("error", answer)), status)
        return answer


def _read(received: bytes, request: str) -> tuple[int, dict[str, Any]]:
    """Return status and JSON of a complete response."""
    head, _, content = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or not content:
        raise BrokerError(f"{request}: the broker closed the connection without an answer")
    answer = json.loads(content)
    return int(words[1]), answer
