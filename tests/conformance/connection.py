"""Connections that send frames of any content, and requests with their pending answers."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Protocol

from tests.conformance import timing, wire

CLOSED, NO_RESPONSE = "CLOSED", "NO RESPONSE"
"""Results of requests without an answer."""

_LARGEST_FRAME = 8 << 20


class Abort(Exception):  # noqa: N818 - not an error, but the end of a scenario
    """The scenario cannot continue, because an expected answer is missing."""


class Setup(Exception):  # noqa: N818 - see Abort
    """An unrecorded preparation of a scenario failed."""


class Closed(Exception):  # noqa: N818 - an expected result
    """The broker has closed the connection."""


class Learner(Protocol):
    """A member that learns its member id and generation from the answers to its JoinGroups."""

    @property
    def name(self) -> str:
        """Return the symbolic name, such as A."""

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Store the values of a JoinGroup response, except the member id."""

    def learn_id(self, member_id: str) -> None:
        """Keep the member id."""


class Conn:
    """A TCP connection. Answers come in the order of the requests."""

    def __init__(self, host: str, port: int, timeout: float = timing.ANSWER_SECONDS) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.closed = False
        self.corr = 0
        self.pendings: list[Pending] = []

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.closed = True

    def send_frame(self, payload: bytes) -> None:
        """Send bytes with their length in front."""
        self.send_raw(struct.pack(">i", len(payload)) + payload)

    def recv_frame(self, timeout: float) -> bytes | None:
        """Return the next frame without its length; None after the timeout. Raises Closed."""
        end = time.monotonic() + timeout
        while True:
            frame = self._frame()
            if frame is not None:
                return frame
            left = end - time.monotonic()
            if self.closed and not self._received:
                raise Closed
            if left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return None
            except OSError:
                data = b""
            if not data:
                self.closed = True
                raise Closed
            self._received += data

    def _frame(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        (size,) = struct.unpack_from(">i", self._received)
        if not 0 <= size <= _LARGEST_FRAME:
            raise Closed(f"frame length {size}")
        if len(self._received) < 4 + size:
            return None
        frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
        return frame

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._socket.close()


class Pending:
    """A request that was sent, and its answer once there is one.

    `raw` is the decoded answer, {"DECODE": problem}, "CLOSED", "NO RESPONSE", or None.
    """

    def __init__(
        self,
        conn: Conn,
        api: str,
        version: int,
        body: Mapping[str, Any],
        label: str,
        member: Learner | None = None,
    ) -> None:
        self._conn = conn
        self.api = api
        self._version = version
        self.body = body
        self.label = label
        self.member = member
        self._correlation_id = conn.corr
        self.sent_s = time.monotonic()
        self.raw: Any = None
        self.reported = False

    def poll(self, timeout: float) -> bool:
        """Return whether there is an answer, or the connection has ended, within the timeout."""
        waiting = self._conn.pendings
        while self.raw is None:
            try:
                frame = self._conn.recv_frame(timeout)
            except Closed:
                for pending in waiting:
                    pending.raw = CLOSED
                waiting.clear()
                return True
            if frame is None:
                return False
            waiting.pop(0)._take(frame)
        return True

    def _take(self, frame: bytes) -> None:
        try:
            correlation_id, self.raw = wire.dec_response(self.api, self._version, frame)
            if correlation_id != self._correlation_id:
                self.raw = {"DECODE": "wrong correlation id"}
        except (ValueError, struct.error) as error:
            self.raw = {"DECODE": f"{type(error).__name__}: {error}"}
