"""Writes a control record (marker) that ends a transaction to a partition.

All brokers run in this process, so no WriteTxnMarkers request is sent. A write can fail on a disk
error, a partition without a leader, or an offsets partition that is loading. Source:
KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinator_server.events.log import LOG
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.core.transactions.metadata import TopicPartition
    from coordinator_server.events.log import EventLog
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from protocol.control_record import EndTransaction


class GroupMarkers(Protocol):
    """Ends transactions in a broker's groups; implemented by GroupCoordinator."""

    def end_transaction(
        self, index: int, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append the marker to an offsets partition and complete the groups' offsets."""


class Markers:
    """Writes transaction markers.

    `groups(node_id)` returns the group coordinator of a broker, or None if the broker is not
    running.
    """

    def __init__(
        self,
        topics: TopicManager,
        groups: Callable[[int], GroupMarkers | None],
        clock: Clock,
        *,
        log: EventLog = LOG,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._log = log

    def write(
        self,
        topic_partition: TopicPartition,
        end: EndTransaction,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Write the marker to one partition and call `done` with the result.

        `done` is called once the marker is flushed, if the topic's flush settings require a flush.
        """
        partition = self._topics.partition(*topic_partition)
        if partition is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic_partition[0] == OFFSETS_TOPIC:
            groups = self._groups(partition.leader_id)
            if groups is None:
                done(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                groups.end_transaction(partition.index, end, done)
        elif self._groups(partition.leader_id) is None:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._append(partition, end, done)

    def _append(
        self, partition: Partition, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        try:
            partition.end_transaction(end, self._clock.now_ms())
        except StorageError as error:
            self._log.emit(
                "marker.failed",
                topic=partition.topic_name,
                partition=partition.index,
                producer_id=end.producer_id,
                error=error.code.name,
                reason=error.message,
            )
            done(error.code)
            return
        partition.after_flush(lambda error: done(ErrorCode.NONE if error is None else error.code))
