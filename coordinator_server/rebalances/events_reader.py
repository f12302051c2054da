"""Reads `__group_events` as a client, like a consumer without a group."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from coordinator_server.client import Client, ClientError, ClientSettings
from coordinator_server.rebalances.schema import ADDED, RECORD, SCHEMA_VERSION, RebalanceRecord
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode, ProtocolError

SETTINGS = ClientSettings(client_id="coordinator-server-explain", request_timeout_ms=10_000)
LEADER_SECONDS = 15.0
"""How long the client waits for a partition to have a leader."""

_LEADER_PAUSE_SECONDS = 0.1
_MAX_BYTES = 4 * 1024 * 1024
_EARLIEST = -2
_BROKER_RESOURCE = 4
_FETCH_BY_NAME = 12  # from version 13 on, Fetch uses topic ids

_FIELDS = {field.name for field in RECORD}


class NoTopicError(ClientError):
    """The topic `__group_events` does not exist."""


class LeaderMovedError(ClientError):
    """The partition has another leader, or no leader at the moment."""


class EventsReader:
    """Reads the records of one group in the order of the topic.

    Call `open` first, `read` for new records, and `close` at the end. All raise ClientError.
    """

    def __init__(
        self, bootstrap_servers: str, group_id: str, settings: ClientSettings = SETTINGS
    ) -> None:
        self._key = group_id.encode("utf-8", "surrogatepass")
        self._client = Client(bootstrap_servers, settings)
        self._leaders: dict[int, int] = {}
        self._next_offsets: dict[int, int] = {}

    def open(self) -> None:
        """Look up leaders and earliest offsets. Raises NoTopicError if the topic does not exist."""
        (topic,) = self._client.metadata([GROUP_EVENTS_TOPIC]).topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoTopicError(topic.error_code, f"there is no topic {GROUP_EVENTS_TOPIC}")
        _check(topic.error_code)
        for partition in topic.partitions:
            _check(partition.error_code)
            if partition.leader_id not in self._client.nodes:
                raise LeaderMovedError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"{GROUP_EVENTS_TOPIC} has no leader at the moment",
                )
            self._leaders[partition.partition_index] = partition.leader_id
        for index in sorted(self._leaders.keys() - self._next_offsets.keys()):
            self._next_offsets[index] = self._earliest(index)

    def read(self, wait_ms: int = 0) -> Iterator[RebalanceRecord]:
        """Yield the records that were not read yet, waiting up to `wait_ms` for the first one.

        If the leader of a partition moves, reading continues from the new leader.
        """
        for index in sorted(self._next_offsets):
            while True:
                records, is_end = self._patiently(index, wait_ms)
                yield from records
                if is_end:
                    break

    def is_enabled(self) -> bool | None:
        """Return whether the broker writes the topic; None if the broker lacks the setting."""
        self._client.metadata([])
        name = "group.events.enable"
        resource = DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE,
            resource_name=str(self._client.controller_id),
            configuration_keys=[name],
        )
        answer = self._client.ask(
            DescribeConfigsRequest(resources=[resource]), self._client.controller_id
        )
        for result in answer.results:
            for config in result.configs:
                if config.name == name:
                    return bool(config.value == "true")
        return None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _earliest(self, index: int) -> int:
        partition = ListOffsetsPartition(partition_index=index, timestamp=_EARLIEST)
        topic = ListOffsetsTopic(name=GROUP_EVENTS_TOPIC, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = self._client.ask(request, self._leaders[index]).topics[0].partitions[0]
        _check(answer.error_code)
        return int(answer.offset)

    def _patiently(self, index: int, wait_ms: int) -> tuple[list[RebalanceRecord], bool]:
        """Like `_fetch`, but retry for LEADER_SECONDS while the leader moves.

        Raises LeaderMovedError.
        """
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
        """Fetch once; return the group's records and whether the partition's end is reached."""
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
        response = self._client.ask(request, self._leaders[index], max_version=_FETCH_BY_NAME)
        answer = response.responses[0].partitions[0]
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Retention deleted the records, or the topic was deleted and recreated.
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
            raise ClientError(
                ErrorCode.CORRUPT_MESSAGE, f"{GROUP_EVENTS_TOPIC}-{index} cannot be read: {error}"
            ) from error
        is_end = self._next_offsets[index] >= answer.high_watermark
        return [account for value in records if (account := _parsed(value)) is not None], is_end


def _parsed(value: bytes | None) -> RebalanceRecord | None:
    """Return the record in a value; None for other values, since clients may write to the topic."""
    try:
        account = json.loads(value or b"null")
    except ValueError:
        return None
    if not isinstance(account, dict) or type(account.get("schema")) is not int:
        return None
    if account["schema"] > SCHEMA_VERSION:
        return account
    account |= {name: added for name, added in ADDED.items() if name not in account}
    return account if account.keys() >= _FIELDS else None


def _check(error_code: int) -> None:
    """Raise LeaderMovedError or ClientError for the error code of a topic or partition."""
    error = ErrorCode(error_code)
    if error is ErrorCode.NONE:
        return
    if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE) or (
        error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    ):
        raise LeaderMovedError(error, f"{GROUP_EVENTS_TOPIC}: {error.name}")
    raise ClientError(error, f"{GROUP_EVENTS_TOPIC}: {error.name}")
