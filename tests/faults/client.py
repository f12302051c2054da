"""A small blocking client made of our own codec, for tests that must see every acknowledgement."""

from __future__ import annotations

import socket
from itertools import count
from typing import Any

from protocol.codec import decoder, encoder
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from tests.support import Wire, request
from tests.versions import newest_with_names


class GoneError(Exception):
    """The connection is gone; what was asked may or may not have been done."""


class Client:
    """One connection; requests one at a time."""

    def __init__(self, address: tuple[str, int], timeout_seconds: float = 20.0) -> None:
        try:
            self._wire = Wire(socket.create_connection(address, timeout_seconds))
        except OSError as error:
            raise GoneError(str(error)) from error
        self._correlation_ids = count(1)

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a request and return its answer. Raises GoneError when there is none."""
        spec = SPEC_BY_NAME[type(message).__name__.removesuffix("Request")]
        version = newest_with_names(spec) if version is None else version
        frame = request(
            spec.key,
            version,
            encoder(type(message), version)(message),
            correlation_id=next(self._correlation_ids),
            flexible=spec.request_header_version(version) == 2,
        )
        try:
            self._wire.send(frame)
            answer = self._wire.receive()
        except OSError as error:
            raise GoneError(str(error)) from error
        if answer is None:
            raise GoneError("closed")
        body_position = 4 + (spec.response_header_version(version) == 1)
        return decoder(spec.response_type, version)(answer, body_position)[0]

    def close(self) -> None:
        """Close the connection."""
        self._wire.socket.close()
