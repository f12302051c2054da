"""A client of the broker's control server, with its own minimal HTTP and JSON.

`http.client` would import the mail parser and TLS into every test run. Each request opens its own
connection, so that threads share no state and no connection can become stale.
"""

from __future__ import annotations

import json
import socket
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
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
    """A client of the control server at `address` (host, port). Thread-safe.

    `token` is the token of `--http-token-file`, or of a session of `--http-login`; `login` is the
    name and password of a user.
    """

    def __init__(
        self,
        address: tuple[str, int],
        token: str | None = None,
        *,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.address = address
        self.token = token
        self.login = login

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
        request = f"{method} {path}"
        return json_of(self._ask(method, path, query, body, timeout, request), request)

    def text(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout: float = 30.0
    ) -> str:
        """Send a GET request and return the text of the response. Raises BrokerError."""
        return self._ask("GET", path, query, None, timeout, f"GET {path}").decode()

    def events(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout: float = 60.0
    ) -> Iterator[dict[str, Any]]:
        """Send a GET request and yield the server-sent events of the response.

        The iterator ends with the connection. Raises BrokerError, also without any event or comment
        for `timeout` seconds.
        """
        request = f"GET {path}"
        reader = EventReader(request)
        with self._connect(request, timeout) as connection:
            try:
                connection.sendall(self.encoded("GET", path, query, None))
                while part := connection.recv(1 << 16):
                    yield from reader.read(part)
            except OSError as error:
                raise self.unreachable(request, error) from error
        reader.end()

    def encoded(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Mapping[str, object] | None,
    ) -> bytes:
        """Return the bytes of a request. Values of None in the query are left out."""
        pairs = [
            f"{name}={_query(value)}" for name, value in (query or {}).items() if value is not None
        ]
        if pairs:
            path += "?" + "&".join(pairs)
        content = b"" if body is None else json.dumps(body).encode()
        host, port = self.address
        authorization = "" if self.token is None else f"Authorization: Bearer {self.token}\r\n"
        if self.login is not None:
            pair = b2a_base64(":".join(self.login).encode(), newline=False).decode()
            authorization = f"Authorization: Basic {pair}\r\n"
        head = (
            f"{method} {path} HTTP/1.1\r\n"
            f"Host: {f'[{host}]' if ':' in host else host}:{port}\r\n{authorization}"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + content

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Mapping[str, object] | None,
        timeout: float,
        request: str,
    ) -> bytes:
        try:
            with self._connect(request, timeout) as connection:
                connection.sendall(self.encoded(method, path, query, body))
                received = bytearray()
                while part := connection.recv(1 << 18):
                    received += part
        except OSError as error:
            raise self.unreachable(request, error) from error
        return content_of(bytes(received), request)

    def _connect(self, request: str, timeout: float) -> socket.socket:
        try:
            return socket.create_connection(self.address, timeout)
        except OSError as error:
            raise self.unreachable(request, error) from error

    def unreachable(self, request: str, error: OSError) -> BrokerError:
        """Return the error of a request that could not be sent, with the address."""
        address = ":".join(map(str, self.address))
        return BrokerError(f"{request}: the broker cannot be reached at {address}: {error}")


def _query(value: object) -> str:
    """Return a value in the form used in the query of a URL."""
    return quoted(("true" if value else "false") if isinstance(value, bool) else str(value))


def content_of(received: bytes, request: str) -> bytes:
    """Return the body of a response.

    Raises BrokerError if the request failed, or if the connection was closed before the end.
    """
    head, _, content = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or not content:
        raise BrokerError(f"{request}: the broker closed the connection without an answer")
    length = _length_of(head)
    if length is not None and len(content) < length:
        text = f"the broker closed the connection after {len(content)} of {length} bytes"
        raise BrokerError(f"{request}: {text}")
    status = int(words[1])
    if status != 200:
        try:
            answer = json.loads(content)
            message = str(answer.get("error", answer))
        except (ValueError, AttributeError):
            message = f"{request}: the answer is {content[:200]!r}"
        raise BrokerError(message, status)
    return content


def _length_of(head: bytes) -> int | None:
    """Return the Content-Length of a response, None without one."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None


def json_of(content: bytes, request: str) -> dict[str, Any]:
    """Return the JSON object in the body of a response. Raises BrokerError for another body."""
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise BrokerError(f"{request}: the answer is {content[:200]!r}")
    return answer


class EventReader:
    """Reads server-sent events from the parts of a chunked response."""

    def __init__(self, request: str) -> None:
        self._request = request
        self._received = bytearray()
        self._text = bytearray()
        self._has_head = False

    def read(self, part: bytes) -> Iterator[dict[str, Any]]:
        """Yield the events that are complete with this part. Raises BrokerError."""
        self._received += part
        if not self._has_head:
            head, separator, _ = self._received.partition(b"\r\n\r\n")
            if not separator:
                return
            if head.split(b" ", 2)[1:2] != [b"200"]:
                return  # wait for the complete error response; `end` then raises the error
            self._has_head = True
            del self._received[: len(head) + 4]
        while (chunk := self._next_chunk()) is not None:
            self._text += chunk
        while (end := self._text.find(b"\n\n")) >= 0:
            lines = bytes(self._text[:end]).decode().split("\n")
            del self._text[: end + 2]
            for line in lines:
                if line.startswith("data: "):
                    event: dict[str, Any] = json.loads(line[6:])
                    yield event

    def _next_chunk(self) -> bytes | None:
        end = self._received.find(b"\r\n")
        if end < 0:
            return None
        size = int(bytes(self._received[:end]), 16)
        if len(self._received) < end + 2 + size + 2:
            return None
        chunk = bytes(self._received[end + 2 : end + 2 + size])
        del self._received[: end + 2 + size + 2]
        return chunk if size else None

    def end(self) -> None:
        """Raise BrokerError if the request failed."""
        if not self._has_head:
            content_of(bytes(self._received), self._request)
