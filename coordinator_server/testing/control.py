"""The way to the broker's control server: HTTP with JSON, written by hand.

`http.client` would bring the mail parser and TLS into every test run. Each request has a connection
of its own, so that threads share nothing and no connection can have gone stale in between.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


class BrokerError(Exception):
    """The broker cannot be reached, or cannot do what it was asked; the text says what and why.

    `status` is that of HTTP, 0 when there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def quoted(text: str) -> str:
    """A text as one segment of a path, or as a value in a query."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


class Control:
    """The control server at `address` (host, port). May be used from several threads."""

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
        """Send a request and return the answer. Raises BrokerError.

        `path` is quoted already (see `quoted`); the values of `query` are not. `timeout` is in
        seconds, for each step on the way.
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
    """Status and JSON of a whole answer."""
    head, _, content = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or not content:
        raise BrokerError(f"{request}: the broker closed the connection without an answer")
    answer = json.loads(content)
    return int(words[1]), answer
