"""Request frames, and a small blocking client that uses our own codec."""

from __future__ import annotations

import socket
from itertools import count
from typing import Any

from protocol.codec import decoder, encoder
from protocol.registry import SPEC_BY_NAME, ApiSpec
from protocol.schema import Message
from tests.support import Wire, request
from tests.versions import newest_with_names


def frame_of(message: Message, version: int, correlation_id: int = 5) -> bytes:
    """Return the request frame of a message at a version."""
    spec = _spec(message)
    body = encoder(type(message), version)(message)
    flexible = spec.request_header_version(version) == 2
    return request(spec.key, version, body, correlation_id=correlation_id, flexible=flexible)


def _spec(message: Message) -> ApiSpec:
    return SPEC_BY_NAME[type(message).__name__.removesuffix("Request")]


class GoneError(Exception):
    """The connection is closed; the broker may or may not have handled the request."""


class Client:
    """A connection that sends one request at a time."""

    def __init__(self, address: tuple[str, int], timeout_seconds: float = 20.0) -> None:
        try:
            self._wire = Wire(socket.create_connection(address, timeout_seconds))
        except OSError as error:
            raise GoneError(str(error)) from error
        self._correlation_ids = count(1)

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a request and return the response. Raises GoneError if the connection is closed."""
        self.send(message, version)
        return self.receive()

    def send(self, message: Message, version: int | None = None) -> None:
        """Send a request for `receive`. Raises GoneError if the connection is closed."""
        spec = _spec(message)
        version = newest_with_names(spec) if version is None else version
        self._asked = (spec, version)
        self._send(frame_of(message, version, next(self._correlation_ids)))

    def receive(self) -> Any:
        """Return the response to `send`. Raises GoneError if the connection is closed."""
        answer = self._receive()
        spec, version = self._asked
        body_position = 4 + (spec.response_header_version(version) == 1)
        return decoder(spec.response_type, version)(answer, body_position)[0]

    def ask_frame(self, frame: bytes) -> bytes:
        """Send a raw frame and return the response without its length. Raises GoneError."""
        self._send(frame)
        return self._receive()

    def _send(self, frame: bytes) -> None:
        try:
            self._wire.send(frame)
        except OSError as error:
            raise GoneError(str(error)) from error

    def _receive(self) -> bytes:
        try:
            answer = self._wire.receive()
        except OSError as error:
            raise GoneError(str(error)) from error
        if answer is None:
            raise GoneError("closed")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._wire.socket.close()
