"""A broker with old API versions, moved controllers or broken connections, as a test needs."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coordinator_server.client import Address
from protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from protocol.apis.metadata import MetadataResponse, MetadataResponseBroker
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader
from protocol.registry import SPEC_BY_KEY
from protocol.schema import Message

Answer = Callable[[str, int, Any], Message | None]


class FakeBroker:
    """A broker whose responses come from a function of API name, version and request.

    If the function returns None, the connection is closed. `ranges` are the supported versions by
    API key, including ApiVersions.
    """

    def __init__(self, ranges: dict[int, tuple[int, int]], answer: Answer) -> None:
        self.ranges = ranges
        self.asked: list[tuple[str, int]] = []
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._server.getsockname())
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def stop(self) -> None:
        """Stop accepting connections, and check that the clients have closed theirs."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a client has left its connection open"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve_connection, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection:
            self._answer_all(connection)

    def _answer_all(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while len(size := stream.read(4)) == 4:
            frame = stream.read(struct.unpack(">i", size)[0])
            key, version = struct.unpack_from(">hh", frame)
            spec = SPEC_BY_KEY[key]
            header, position = decoder(RequestHeader, spec.request_header_version(version))(frame)
            self.asked.append((spec.name, version))
            low, high = self.ranges[key]
            answer: Message | None
            if spec.name == "ApiVersions":
                keys = [
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.ranges.items()
                ]
                known = low <= version <= high
                code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION
                answer = ApiVersionsResponse(error_code=code, api_keys=keys)
                version = version if known else 0
            else:
                request, _ = decoder(spec.request_type, version)(frame, position)
                answer = self._answer(spec.name, version, request)
            if answer is None:
                return
            body = encoder(spec.response_type, version)(answer)
            tags = b"\0" if spec.response_header_version(version) else b""
            body = struct.pack(">i", header.correlation_id) + tags + body
            connection.sendall(struct.pack(">i", len(body)) + body)


@contextmanager
def fake(ranges: dict[int, tuple[int, int]], answer: Answer) -> Iterator[FakeBroker]:
    """Run a fake broker until the end of the block."""
    broker = FakeBroker(ranges, answer)
    try:
        yield broker
    finally:
        broker.stop()


def metadata(broker: FakeBroker) -> MetadataResponse:
    """Return the metadata of a cluster with only this broker."""
    host, port = broker.address
    node = MetadataResponseBroker(node_id=5, host=host, port=port)
    return MetadataResponse(brokers=[node], controller_id=5)
