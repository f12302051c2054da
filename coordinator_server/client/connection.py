"""Reads `__group_events` from outside: a small blocking client, standard library and protocol only.

It asks like any consumer without a group: Metadata, ListOffsets, Fetch. The versions are fixed,
those that this broker and every Kafka since 2.8 serve, so nothing has to be negotiated.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from coordinator_server.rebalances.schema import RECORD, SCHEMA_VERSION, RebalanceRecord
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message

VERSIONS = {"Metadata": 9, "ListOffsets": 6, "Fetch": 12, "DescribeConfigs": 4}
CLIENT_ID = "coordinator-server-explain"
TIMEOUT_SECONDS = 10.0
LEADER_SECONDS = 15.0
"""How long a partition may be without a leader before the client gives up."""

_LEADER_PAUSE_SECONDS = 0.1
_MAX_BYTES = 4 * 1024 * 1024
_MAX_FRAME_BYTES = 128 * 1024 * 1024
_EARLIEST = -2
_BROKER_RESOURCE = 4
_LENGTH = struct.Struct(">i")

_FIELDS = {field.name for field in RECORD}


class ClientError(Exception):
    """The broker cannot be asked, or refuses; the message is one line."""


class NoTopicError(ClientError):
    """There is no topic `__group_events`."""


class LeaderMovedError(ClientError):
    """The partition is led by another broker, or by none at the moment."""


class ClientConnection:
    """One connection; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_SECONDS)
        except OSError as error:
            raise ClientError(f"no broker at {self.address}: {error.strerror or error}") from error
        self._asked = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, api: str, request: Message) -> Any:
        """Send one request and give its response. Raises ClientError."""
        spec, version = SPEC_BY_NAME[api], VERSIONS[api]
        self._asked += 1
        flexible = spec.request_flexible_since is not None and (
            version >= spec.request_flexible_since
        )
        header = RequestHeader(
            api_key=spec.key,
            api_version=version,
            correlation_id=self._asked,
            client_id=CLIENT_ID,
        )
        payload = encoder(RequestHeader, 2 if flexible else 1)(header)
        payload += encoder(spec.request_type, version)(request)
        try:
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
            frame = self._receive(*_LENGTH.unpack(self._receive(_LENGTH.size)))
        except OSError as error:
            raise ClientError(f"{self.address} does not answer: {error}") from error
        flexible = spec.response_flexible_since is not None and (
            version >= spec.response_flexible_since
        )
        try:
            answered, position = decoder(ResponseHeader, int(flexible))(frame, 0)
            response, _ = decoder(spec.response_type, version)(frame, position)
        except ProtocolError as error:
            raise ClientError(f"{self.address} does not speak {api} {version}: {error}") from error
        if answered.correlation_id != self._asked:
            raise ClientError(f"{self.address} answers something else than {api}")
        return response

    def _receive(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_FRAME_BYTES:
            raise ClientError(f"{self.address} does not speak Kafka's protocol")
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(min(size - len(received), 1 << 20))
            if not part:
                raise ClientError(f"{self.address} closed the connection")
            received += part
        return bytes(received)


class EventsReader:
    """The records of one group, in the order of the topic.

    `open` finds the topic, `read` gives what is there by now, `close` ends. All raise ClientError.
    """

    def __init__(self, host: str, port: int, group_id: str) -> None:
        self._key = group_id.encode("utf-8", "surrogatepass")
        self._bootstrap = ClientConnection(host, port)
        self._connections: dict[tuple[str, int], ClientConnection] = {}
        self._leaders: dict[int, ClientConnection] = {}
        self._next_offsets: dict[int, int] = {}

    def open(self) -> None:
        """Find the leaders, and where the log starts. NoTopicError when there is no topic."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=GROUP_EVENTS_TOPIC)],
            allow_auto_topic_creation=False,
        )
        response = self._bootstrap.ask("Metadata", request)
        (topic,) = response.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoTopicError(f"there is no topic {GROUP_EVENTS_TOPIC}")
        _check(topic.error_code)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for partition in topic.partitions:
            _check(partition.error_code)
            address = addresses.get(partition.leader_id)
            if address is None:
                raise LeaderMovedError(f"{GROUP_EVENTS_TOPIC} has no leader at the moment")
            self._leaders[partition.partition_index] = self._connected(address)
        for index in sorted(self._leaders.keys() - self._next_offsets.keys()):
            self._next_offsets[index] = self._earliest(index)

    def read(self, wait_ms: int = 0) -> Iterator[RebalanceRecord]:
        """What is there and was not read yet; waits up to `wait_ms` for the first of it.

        A partition whose leader moves is looked for at its new place.
        """
        for index in sorted(self._next_offsets):
            while True:
                records, is_end = self._patiently(index, wait_ms)
                yield from records
                if is_end:
                    break

    def is_enabled(self) -> bool | None:
        """Whether the broker writes the topic; None if it is one that knows nothing of it."""
        node_id = self._bootstrap.ask("Metadata", MetadataRequest(topics=[])).controller_id
        name = "group.events.enable"
        resource = DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=[name]
        )
        answer = self._bootstrap.ask(
            "DescribeConfigs", DescribeConfigsRequest(resources=[resource])
        )
        for result in answer.results:
            for config in result.configs:
                if config.name == name:
                    return bool(config.value == "true")
        return None

    def close(self) -> None:
        """Close all connections."""
        for connection in (self._bootstrap, *self._connections.values()):
            connection.close()

    def _connected(self, address: tuple[str, int]) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = ClientConnection(*address)
        return connection

    def _earliest(self, index: int) -> int:
        partition = ListOffsetsPartition(partition_index=index, timestamp=_EARLIEST)
        topic = ListOffsetsTopic(name=GROUP_EVENTS_TOPIC, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = self._leaders[index].ask("ListOffsets", request).topics[0].partitions[0]
        _check(answer.error_code)
        return int(answer.offset)

    def _patiently(self, index: int, wait_ms: int) -> tuple[list[RebalanceRecord], bool]:
        """Fetch, and again from the new leader for as long as there is not one."""
        give_up_s = time.monotonic() + LEADER_SECONDS
        while True:
            try:
                return self._fetch(index, wait_ms)
            except LeaderMovedError:
                if time.monotonic() > give_up_s:
                    raise
            time.sleep(_LEADER_PAUSE_SECONDS)
            try:
                self.open()
            except LeaderMovedError:
                continue

    def _fetch(self, index: int, wait_ms: int) -> tuple[list[RebalanceRecord], bool]:
        """The group's records in the next piece of a partition, and whether it is at its end."""
        offset = self._next_offsets[index]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=GROUP_EVENTS_TOPIC,
                    partitions=[
                        FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=_MAX_BYTES
                        )
                    ],
                )
            ],
        )
        answer = self._leaders[index].ask("Fetch", request).responses[0].partitions[0]
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Retention was faster, or the topic was deleted and recreated.
            self._next_offsets[index] = self._earliest(index)
            return [], False
        _check(answer.error_code)
        records = []
        data = answer.records or b""
        try:
            for header in iterate_batches(data):
                if header.next_offset <= offset or header.is_control:
                    continue
                for record in iterate_records(data, header):
                    if record.offset >= offset and record.key == self._key:
                        records.append(record.value)
                self._next_offsets[index] = header.next_offset
        except ProtocolError as error:
            raise ClientError(f"{GROUP_EVENTS_TOPIC}-{index} cannot be read: {error}") from error
        is_end = self._next_offsets[index] >= answer.high_watermark
        return [account for value in records if (account := _parsed(value)) is not None], is_end


def _parsed(value: bytes | None) -> RebalanceRecord | None:
    """The record in a value; None for what is none, as anybody with the right name may write."""
    try:
        account = json.loads(value or b"null")
    except ValueError:
        return None
    if not isinstance(account, dict) or type(account.get("schema")) is not int:
        return None
    return account if account["schema"] > SCHEMA_VERSION or account.keys() >= _FIELDS else None


def _check(error_code: int) -> None:
    """Raise what an error of a topic or partition means for us."""
    error = ErrorCode(error_code)
    if error is ErrorCode.NONE:
        return
    if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE) or (
        error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    ):
        raise LeaderMovedError(f"{GROUP_EVENTS_TOPIC}: {error.name}")
    raise ClientError(f"{GROUP_EVENTS_TOPIC}: {error.name}")
