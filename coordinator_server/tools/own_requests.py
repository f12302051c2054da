"""Sends requests that kafka-python lacks (share groups, KIP-932) over kafka-python's connections.

The messages are declared in `protocol` and wrapped in objects with the interface of kafka-python's
own requests, so that kafka-python's security settings apply.
"""

from __future__ import annotations

import struct
from typing import IO, Any, NamedTuple

import kafka

from protocol.codec import decoder, encoder
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import SPEC_BY_NAME, ApiSpec
from protocol.schema import Message

_LENGTH = struct.Struct(">i")


def served_versions(admin: kafka.KafkaAdminClient) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API that the brokers serve, by API key.

    `admin.api_versions()` raises ValueError for an API key that kafka-python does not know.
    """
    return dict(admin._manager.broker_version_data.api_versions)


def is_served(admin: kafka.KafkaAdminClient, name: str) -> bool:
    """Return whether the brokers serve an API."""
    return SPEC_BY_NAME[name].key in served_versions(admin)


def ask_coordinator(admin: kafka.KafkaAdminClient, group: str, request: Message) -> Any:
    """Send a request to the group's coordinator and return the response. Raises KafkaError."""
    manager = admin._manager

    async def ask() -> Any:
        node_id = await admin._find_coordinator_id(group)
        return await manager.send(_Request(request), node_id=node_id)

    return manager.run(ask)


class _Response:
    """A response class with the interface that kafka-python expects for decoding."""

    def __init__(self, spec: ApiSpec, version: int) -> None:
        self._header = decoder(ResponseHeader, spec.response_header_version(version))
        self._body = decoder(spec.response_type, version)

    def parse_header(self, stream: IO[bytes]) -> Any:
        """Decode the header and leave the stream at the start of the body."""
        start = stream.tell()
        header, position = self._header(stream.read(), 0)
        stream.seek(start + position)
        return header

    def decode(self, stream: IO[bytes]) -> Any:
        """Decode the body."""
        return self._body(stream.read(), 0)[0]


class _Header(NamedTuple):
    """The part of a request that kafka-python keeps until the response arrives."""

    correlation_id: int
    response: _Response

    def get_response_class(self) -> _Response:
        """Return the decoder of the response."""
        return self.response


class _Request:
    """A request with the interface that kafka-python expects for version and encoding."""

    _min_version = _max_version = None

    def __init__(self, message: Message) -> None:
        self.name = type(message).__name__
        self._message = message
        self._spec = spec = SPEC_BY_NAME[self.name.removesuffix("Request")]
        self.API_KEY = spec.key
        self.API_VERSION: int | None = None
        self.min_version, self.max_version = spec.min_version, spec.max_version
        self._client_id = ""
        self.header: _Header

    def expect_response(self) -> bool:
        """Return True: every request here has a response."""
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """Set the header from the connection's correlation id and client id."""
        assert self.API_VERSION is not None
        self.header = _Header(correlation_id, _Response(self._spec, self.API_VERSION))
        self._client_id = client_id

    def encode(self, **_: bool) -> bytes:
        """Encode the request, header included."""
        version = self.API_VERSION
        assert version is not None
        header = RequestHeader(
            api_key=self._spec.key,
            api_version=version,
            correlation_id=self.header.correlation_id,
            client_id=self._client_id,
        )
        frame = encoder(RequestHeader, self._spec.request_header_version(version))(header)
        frame += encoder(self._spec.request_type, version)(self._message)
        return _LENGTH.pack(len(frame)) + frame
