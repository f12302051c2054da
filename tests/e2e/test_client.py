"""The client of the tools against brokers that are old, move or fail."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator_server.client import (
    Address,
    Client,
    ClientConnection,
    ClientError,
    ClientSettings,
    check,
)
from protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from protocol.apis.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader
from protocol.registry import SPEC_BY_KEY
from protocol.schema import Message
from tests.support import Broker, free_port

QUICK = ClientSettings(request_timeout_ms=2_000, default_api_timeout_ms=2_000, retry_backoff_ms=1)

Answer = Callable[[str, int, Any], Message | None]


class FakeBroker:
    """Answers by a function of API name, version and request; None closes the connection.

    `ranges` are the versions that it serves, by API key; ApiVersions itself among them.
    """

    def __init__(self, ranges: dict[int, tuple[int, int]], answer: Answer) -> None:
        self.ranges = ranges
        self.asked: list[tuple[str, int]] = []
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._server.getsockname())
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                self._serve_connection(connection)

    def _serve_connection(self, connection: socket.socket) -> None:
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
    """A fake broker, stopped at the end."""
    broker = FakeBroker(ranges, answer)
    try:
        yield broker
    finally:
        broker.stop()


def metadata(broker: FakeBroker) -> MetadataResponse:
    """A cluster of this broker alone."""
    host, port = broker.address
    node = MetadataResponseBroker(node_id=5, host=host, port=port)
    return MetadataResponse(brokers=[node], controller_id=5)


def test_versions_are_agreed_on_with_an_old_broker() -> None:
    """It refuses the newest ApiVersions in version 0; each request goes out as it knows it."""
    with fake({3: (0, 5), 18: (0, 2)}, lambda *_: MetadataResponse(cluster_id="c")) as broker:
        connection = ClientConnection(broker.address, QUICK)
        answer = connection.ask(MetadataRequest(topics=[]))
        connection.close()
        assert answer.cluster_id == "c"
        assert broker.asked == [("ApiVersions", 4), ("ApiVersions", 2), ("Metadata", 5)]


def test_what_a_broker_does_not_serve_is_said_in_kafkas_words() -> None:
    """An API that it does not have, and one without a version that has the field."""
    with fake({3: (0, 5), 18: (0, 4)}, lambda *_: MetadataResponse()) as broker:
        connection = ClientConnection(broker.address, QUICK)
        with pytest.raises(ClientError) as raised:
            connection.ask(DeleteGroupsRequest())
        assert str(raised.value) == "The node does not support DELETE_GROUPS"
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ClientError) as raised:
            connection.ask(MetadataRequest(), min_version=12)
        connection.close()
        assert str(raised.value) == (
            "The node does not support METADATA with version in range [12,13]."
            " The supported range is [0,5]."
        )


def test_a_request_is_sent_again_when_the_connection_breaks() -> None:
    """`call` opens a new one; without it the error is the caller's."""
    answers: list[MetadataResponse | None] = [None, None, MetadataResponse(cluster_id="c")]
    with fake({3: (0, 13), 18: (0, 4)}, lambda *_: answers.pop(0)) as broker:
        client = Client("{}:{}".format(*broker.address), QUICK)
        with pytest.raises(ClientError, match="closed the connection") as raised:
            client.metadata([])
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert client.call("listTopics", lambda: client.metadata([])).cluster_id == "c"
        client.close()


def test_the_controller_is_looked_up_again_when_it_has_moved() -> None:
    """NOT_CONTROLLER in a topic's result asks Metadata, then the new controller."""
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

    def answer(name: str, version: int, request: Any) -> Message:
        if name == "Metadata":
            return metadata(broker)
        return CreateTopicsResponse(topics=[CreatableTopicResult(error_code=codes.pop(0))])

    with fake({3: (0, 13), 18: (0, 4), 19: (2, 7)}, answer) as broker:
        # The fake serves one connection at a time.
        client = Client("{}:{}".format(*broker.address), QUICK)
        client.metadata([])
        client.close()
        result = client.ask_controller("createTopics", CreateTopicsRequest())
        assert [topic.error_code for topic in result.topics] == [0]
        client.close()
    assert [name for name, _ in broker.asked].count("CreateTopics") == 2


def test_a_controller_that_is_gone_is_looked_up_again() -> None:
    """A broker to which no connection is to be had is asked for in Metadata before the next try."""

    def answer(name: str, version: int, request: Any) -> Message:
        if name == "CreateTopics":
            return CreateTopicsResponse(topics=[CreatableTopicResult()])
        cluster = metadata(broker)
        if [name for name, _ in broker.asked].count("Metadata") == 1:
            gone = MetadataResponseBroker(node_id=6, host="127.0.0.1", port=free_port())
            cluster.brokers.append(gone)
            cluster.controller_id = 6
        return cluster

    with fake({3: (0, 13), 18: (0, 4), 19: (2, 7)}, answer) as broker:
        warned: list[int] = []

        def warn(node_id: int, address: Address) -> None:
            warned.append(node_id)
            client.close()  # the fake serves one connection at a time

        client = Client("{}:{}".format(*broker.address), QUICK, warn)
        client.metadata([])
        result = client.ask_controller("createTopics", CreateTopicsRequest())
        client.close()
    assert len(result.topics) == 1
    assert warned == [6]


def test_a_broker_that_never_answers_costs_the_request_timeout() -> None:
    """REQUEST_TIMED_OUT; the connection is not used again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = QUICK._replace(request_timeout_ms=50)
        with pytest.raises(ClientError, match="does not answer in time") as raised:
            ClientConnection(Address(*silent.getsockname()), settings)
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_call_gives_up_in_kafkas_words() -> None:
    """After `default.api.timeout.ms`, with one warning per attempt."""
    warned: list[int] = []
    settings = QUICK._replace(default_api_timeout_ms=40, retry_backoff_ms=10)
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    client = Client(servers, settings, lambda node_id, address: warned.append(node_id))
    with pytest.raises(ClientError) as raised:
        client.call("listTopics", lambda: client.metadata(None))
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert str(raised.value) == "Timed out waiting for a node assignment. Call: listTopics"
    assert warned[:4] == [-1, -2, -1, -2]


def test_a_refusal_is_not_repeated() -> None:
    """An error that cannot pass ends a call at once."""
    client = Client("127.0.0.1:1", QUICK)
    attempts: list[None] = []

    def attempt() -> None:
        attempts.append(None)
        check(ErrorCode.INVALID_REQUEST, "no")

    with pytest.raises(ClientError, match=r"^no$"):
        client.call("createTopics", attempt)
    assert len(attempts) == 1


def test_leaders_and_coordinators_are_looked_up() -> None:
    """By partition and by group; a partition that is not there is an error."""
    with Broker({"broker.count": "3", "num.partitions": "3"}) as broker:
        broker.create_topic("t")
        client = Client(broker.bootstrap_servers)
        leaders = client.leaders([("t", 0), ("t", 1), ("t", 2)])
        assert sorted(leaders) == [1, 2, 3]
        assert sorted(partition for led in leaders.values() for partition in led) == [
            ("t", 0),
            ("t", 1),
            ("t", 2),
        ]
        node_id = client.call("describeGroup", lambda: client.coordinator("g"))
        assert node_id in client.nodes
        own = client.open_connection(node_id)
        assert own is not client.connection(node_id)
        own.close()
        with pytest.raises(ClientError) as raised:
            client.leaders([("t", 3)])
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(ClientError) as raised:
            client.open_connection(77)
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        client.close()
