"""One HTTP/1.1 connection of the control server: requests in, responses out.

The head of a request is returned before its body is read, so that the server can refuse the request
without the body. h11 implements HTTP (framing, keep-alive, pipelining, 100-continue).
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import h11

from coordinator_server.config.hosts import as_java, without_mapping
from coordinator_server.control.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.control.request import Content, EventStream

HEAD_BYTES = 16 * 1024
"""Size limit of the head of a request."""

MOST_HELD_BYTES = 64 * 1024 * 1024
"""Limit of all request bodies that are in memory at a time."""

IDLE_SECONDS = 60.0
"""Time limit for an idle connection, for receiving a request and for sending a response."""

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
_LINGER_SECONDS = 2.0
_REASON_CHARACTERS = 200


class Head(NamedTuple):
    """The head of a request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


class HeldBytes:
    """The bytes of request bodies that one server has in memory."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, count: int) -> None:
        """Add the bytes of a body. Raises ControlError (503) above the limit."""
        self.total += count
        if self.total > MOST_HELD_BYTES:
            text = f"all bodies being received have more than {MOST_HELD_BYTES} bytes: try again"
            raise ControlError(503, text)


class HttpConnection:
    """A client's connection. Call `head`, `body` if it is needed, and `send` or `stream`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: HeldBytes
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._request: h11.Request | None = None
        self._is_whole = False  # whether the request was received completely
        peer = writer.get_extra_info("peername") or ("",)  # the client may be gone already
        self.client_host = f"/{as_java(without_mapping(peer[0]))}"
        """The address of the client as Kafka writes it."""
        self._held = held
        self._body_bytes = 0
        self._give_up_s = 0.0

    async def head(self) -> Head | None:
        """Return the head of the next request; None if the client closes or stays idle.

        Raises ControlError for a malformed, too long or too slow head.
        """
        self._request, self._is_whole = None, False
        self._give_up_s = asyncio.get_running_loop().time() + IDLE_SECONDS
        try:
            event = await self._received()
        except TimeoutError as error:
            if not self._http.trailing_data[0]:
                return None  # the connection was idle between two requests
            raise _too_slow() from error
        if not isinstance(event, h11.Request):
            return None
        self._request = event
        _check_head(event)
        if not any(name in _BODY_HEADERS and value != b"0" for name, value in event.headers):
            await self._received()  # the end of the request, so that the connection stays usable
            self._is_whole = True
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        return Head(event.method.decode("ascii"), event.target.decode("ascii"), headers)

    async def body(self, most_bytes: int) -> bytes:
        """Return the body of the request. Raises ControlError for a too long or too slow one.

        `release` must be called when the body is no longer needed.
        """
        body = bytearray()
        if self._is_whole:
            return b""
        assert self._request is not None, "the head comes first"
        for name, value in self._request.headers:
            if name == b"content-length":
                _check_length(int(value), most_bytes)
        try:
            while isinstance(event := await self._received(), h11.Data):
                self._body_bytes += len(event.data)
                self._held.add(len(event.data))
                body += event.data
                _check_length(len(body), most_bytes)
        except TimeoutError as error:
            raise _too_slow() from error
        self._is_whole = True
        return bytes(body)

    def release(self) -> None:
        """Note that the body of the request is no longer in memory."""
        self._held.total -= self._body_bytes
        self._body_bytes = 0

    async def _received(self) -> object:
        """Return the next event of h11. Raises ControlError and TimeoutError."""
        try:
            async with asyncio.timeout_at(self._give_up_s):
                return await self._next_event()
        except h11.RemoteProtocolError as error:
            reason = str(error)[:_REASON_CHARACTERS]
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                reason = f"the head, or a line between chunks, is longer than {HEAD_BYTES} bytes"
            raise ControlError(error.error_status_hint, reason) from error

    async def _next_event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                going_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                self._writer.write(self._http.send(going_on))
            self._http.receive_data(await self._reader.read(_READ_BYTES))

    async def send(self, status: int, answer: Content) -> bool:
        """Send a response; return whether another request may follow.

        Raises TimeoutError if the client does not read the response.
        """
        fields = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }
        if not self._is_whole:
            fields["Connection"] = "close"
        self._send_head(status, fields)
        if not self._is_head:
            body = memoryview(answer.body)
            for start in range(0, len(body), _WRITE_BYTES):
                part = bytes(body[start : start + _WRITE_BYTES])
                self._writer.write(self._http.send(h11.Data(data=part)))
                await self._drain()
                await asyncio.sleep(0)  # a fast client does not keep other connections waiting
        self._writer.write(self._http.send(h11.EndOfMessage()))
        await self._drain()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def stream(self, answer: EventStream) -> None:
        """Send a response without an end, until it ends or the client disconnects.

        Raises TimeoutError if the client does not read the response.
        """
        fields = {
            "Content-Type": answer.content_type,
            "Cache-Control": "no-store",
            "Connection": "close",
        }
        self._send_head(200, fields)
        if not self._is_head:
            async with aclosing(answer.parts) as parts:
                async for part in parts:
                    self._writer.write(self._http.send(h11.Data(data=part)))
                    await self._drain()
        self._writer.write(self._http.send(h11.EndOfMessage()))

    @property
    def _is_head(self) -> bool:
        return self._request is not None and self._request.method == b"HEAD"

    def _send_head(self, status: int, fields: Mapping[str, str]) -> None:
        head = h11.Response(
            status_code=status, headers=list(fields.items()), reason=HTTPStatus(status).phrase
        )
        self._writer.write(self._http.send(head))

    async def _drain(self) -> None:
        async with asyncio.timeout(IDLE_SECONDS):
            await self._writer.drain()

    async def linger(self) -> None:
        """Stop sending, and discard input for a moment before the connection is closed.

        Closing a socket with unread bytes makes the kernel reset the connection, and the client may
        lose the response (RFC 9112, section 9.6).
        """
        if self._writer.is_closing():
            return
        self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(_READ_BYTES):
                    pass


_BODY_HEADERS = (b"content-length", b"transfer-encoding")


def _check_head(request: h11.Request) -> None:
    """Check the version and the size of a request's head. Raises ControlError.

    The size is checked because h11 limits only incomplete heads.
    """
    if not request.http_version.startswith(b"1."):
        raise ControlError(505, f"HTTP/{request.http_version.decode()} is not served")
    size_bytes = len(request.target) + sum(
        len(name) + len(value) for name, value in request.headers
    )
    if size_bytes > HEAD_BYTES:
        raise ControlError(431, f"the head is longer than {HEAD_BYTES} bytes")


def _check_length(body_bytes: int, most_bytes: int) -> None:
    if body_bytes > most_bytes:
        raise ControlError(413, f"the body is longer than {most_bytes} bytes")


def _too_slow() -> ControlError:
    return ControlError(408, f"no whole request within {IDLE_SECONDS:g} s")
