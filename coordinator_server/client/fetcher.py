"""Fetches the records of partitions from their leaders, including transactions (KIP-98).

Like Java's Fetcher, with one request per leader at a time; the caller keeps the positions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from coordinator_server.client.client import Client
from coordinator_server.client.errors import ClientError
from protocol.batch import Record, iterate_records
from protocol.batch_header import BatchHeader, iterate_batches
from protocol.control_record import end_marker_of
from protocol.errors import ErrorCode, ProtocolError

_BY_NAME = 12  # the last Fetch version with topic names; later versions use topic ids
_RETRY_S, _LONGEST_RETRY_S = 0.1, 1.0

Partition = tuple[str, int]


class FetchSettings(NamedTuple):
    """Kafka's consumer settings of the same names; times in milliseconds."""

    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    is_read_committed: bool = False


class Fetched(NamedTuple):
    """A record and its partition, or the end of a batch.

    `record` is None at the end of a batch that shows no more records. `next_offset` is the position
    after the record. `delivery_count` is None outside share groups.
    """

    partition: Partition
    record: Record | None
    header: BatchHeader
    next_offset: int
    delivery_count: int | None = None


class Fetcher:
    """Fetches partitions in turn."""

    def __init__(self, client: Client, settings: FetchSettings) -> None:
        self._client = client
        self._settings = settings
        self._leaders: dict[Partition, int] = {}
        self._look_up_at_s = 0.0
        self._pause_s = _RETRY_S
        self._turn = 0

    def fetch(
        self, positions: Mapping[Partition, int], wait_s: float
    ) -> tuple[list[Iterator[Fetched]], dict[Partition, ClientError]]:
        """Wait for records at the positions; return them by partition, and errors by partition.

        Partitions without a leader return nothing and do not delay others. The caller must handle
        the returned errors. Raises ClientError for errors that a retry cannot fix, CORRUPT_MESSAGE
        for malformed bytes.
        """
        deadline_s = time.monotonic() + wait_s
        self._look_up(positions)
        by_leader: dict[int, list[Partition]] = {}
        for partition in positions:
            if partition in self._leaders:
                by_leader.setdefault(self._leaders[partition], []).append(partition)
        if not by_leader:
            time.sleep(max(0.0, min(self._look_up_at_s, deadline_s) - time.monotonic()))
            return [], {}
        pieces: list[Iterator[Fetched]] = []
        errors: dict[Partition, ClientError] = {}
        self._turn += 1
        leaders = sorted(by_leader)
        leaders = leaders[self._turn % len(leaders) :] + leaders[: self._turn % len(leaders)]
        for is_waiting in (False, True):
            for leader in leaders:
                # A leader with data must not wait for another leader.
                rest_ms = max(0, int((deadline_s - time.monotonic()) * 1000))
                share_ms = min(self._settings.fetch_max_wait_ms, rest_ms) // len(leaders)
                partitions = {
                    item: positions[item] for item in by_leader[leader] if item in self._leaders
                }
                max_wait_ms = share_ms if is_waiting or len(leaders) == 1 else 0
                if partitions:
                    self._ask(leader, partitions, max_wait_ms, pieces, errors)
            if pieces or errors or len(leaders) == 1:
                break
        if self._leaders.keys() >= positions.keys():
            self._pause_s = _RETRY_S
        return pieces, errors

    def _look_up(self, positions: Mapping[Partition, int]) -> None:
        """Look up unknown leaders, at growing intervals while any is unknown.

        Raises ClientError for a topic error that a retry cannot fix.
        """
        if self._leaders.keys() >= positions.keys() or time.monotonic() < self._look_up_at_s:
            return
        self._look_up_at_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_RETRY_S)
        try:
            answer = self._client.metadata(sorted({topic for topic, _ in positions}))
            for topic in answer.topics:
                if topic.error_code and not ClientError(topic.error_code).code.retriable:
                    raise ClientError(topic.error_code)
        except ClientError as error:
            if not error.code.retriable:
                raise
        else:
            self._leaders = {
                (topic.name, partition.partition_index): partition.leader_id
                for topic in answer.topics
                for partition in topic.partitions
                if partition.leader_id in self._client.nodes
            }

    def _ask(
        self,
        leader: int,
        positions: Mapping[Partition, int],
        max_wait_ms: int,
        pieces: list[Iterator[Fetched]],
        errors: dict[Partition, ClientError],
    ) -> None:
        try:
            answer = self._client.ask(
                self._request(positions, max_wait_ms), leader, max_version=_BY_NAME
            )
        except ClientError as error:
            if not error.code.retriable:
                raise
            for partition in positions:
                del self._leaders[partition]
            return
        for topic in answer.responses:
            for data in topic.partitions:
                partition = (topic.topic, data.partition_index)
                code = data.error_code
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    errors[partition] = ClientError(code)
                elif code and ClientError(code).code.retriable:
                    self._leaders.pop(partition, None)
                elif code:
                    raise ClientError(code)
                elif data.records:
                    pieces.append(self._records(partition, positions[partition], data))

    def _request(self, positions: Mapping[Partition, int], max_wait_ms: int) -> Any:
        from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic

        settings = self._settings
        topics: dict[str, Any] = {}
        # Rotate the partitions: the broker fills the response in the order of the request.
        names = sorted(positions)
        start = self._turn % len(names)
        for name, index in names[start:] + names[:start]:
            topic = topics.setdefault(name, FetchTopic(topic=name))
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    fetch_offset=positions[name, index],
                    partition_max_bytes=settings.max_partition_fetch_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.is_read_committed),
            topics=list(topics.values()),
        )

    def _records(self, partition: Partition, position: int, data: Any) -> Iterator[Fetched]:
        """Yield the records from a position on, as far as the isolation level allows."""
        aborted = _Aborted(data.aborted_transactions or ())
        buffer = data.records
        try:
            for header in iterate_batches(buffer):
                if header.next_offset <= position:
                    continue
                is_hidden = header.is_control
                if self._settings.is_read_committed:
                    is_hidden |= aborted.has(buffer, header)
                if not is_hidden:
                    for record in iterate_records(buffer, header):
                        if record.offset >= position:
                            yield Fetched(partition, record, header, record.offset + 1)
                yield Fetched(partition, None, header, header.next_offset)
        except ProtocolError as error:
            topic, index = partition
            message = f"Received exception when fetching the next record from {topic}-{index}."
            raise ClientError(ErrorCode.CORRUPT_MESSAGE, message) from error


class _Aborted:
    """Tells which batches belong to aborted transactions; batches must be checked in order."""

    def __init__(self, transactions: Any) -> None:
        self._waiting = sorted(
            ((item.first_offset, item.producer_id) for item in transactions), reverse=True
        )
        self._open: set[int] = set()

    def has(self, buffer: Any, header: BatchHeader) -> bool:
        """Return whether the batch's records were aborted."""
        while self._waiting and self._waiting[-1][0] < header.next_offset:
            self._open.add(self._waiting.pop()[1])
        if header.is_control:
            marker = end_marker_of(buffer, header)
            if marker is not None and not marker.commits:
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open
