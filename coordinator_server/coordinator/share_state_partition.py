"""One partition of `__share_group_state`: append what share partitions came to, load it.

Source: CoordinatorRuntime, CoordinatorLoaderImpl, ShareCoordinatorService's pruning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.led_partitions import LedPartition
from coordinator_server.events.log import LOG
from coordinator_server.share.state.records import decode_record, encode_record
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from protocol.batch import batch_of_section, record_bytes
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode, ProtocolError
from protocol.raw_records import batch_records
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.share.state.records import ShareRecord
    from coordinator_server.share.state.shard import ShareCoordinatorShard
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition

_STEP_BYTES = 128 * 1024
_STEP_RECORDS = 20
_FIRST_SEQUENCE = 0
"""Kafka's coordinators write it although their batches have no producer."""


class ShareStatePartition(LedPartition):
    """One partition of the topic, as its leader has it, with the share partitions in it."""

    __slots__ = ("_pruned_offset", "shard")

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: Partition, clock: Clock, shard: ShareCoordinatorShard) -> None:
        super().__init__(partition, clock)
        self.shard = shard
        self._pruned_offset: int | None = None

    def append(self, records: Sequence[ShareRecord]) -> ErrorCode:
        """Write records in one batch; they are the state then. NONE, or the log's error.

        NOT_LEADER_OR_FOLLOWER once another broker leads: its log must not get our records.
        """
        if not self.is_writable:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        section = b"".join(
            record_bytes(0, delta, *encode_record(record)) for delta, record in enumerate(records)
        )
        now_ms = self._clock.now_ms()
        batch = batch_of_section(section, len(records), now_ms, base_sequence=_FIRST_SEQUENCE)
        try:
            base_offset = self._partition.append_own(batch, now_ms).base_offset
        except StorageError as error:
            return self.failed(error)
        for offset, record in enumerate(records, start=base_offset):
            self.shard.replay(record, offset)
        return ErrorCode.NONE

    def prune(self) -> Partition | None:
        """Delete the records that are out of date; the partition, unless nothing is to be done."""
        offset = self.shard.redundant_offsets.last_redundant_offset
        if offset is None or offset == self._pruned_offset or not self.is_writable:
            return None
        try:
            self._partition.delete_records(offset)
        except StorageError as error:
            self.failed(error)
            return None
        self._pruned_offset = offset
        return self._partition

    def load(self) -> Steps:
        """Load the share partitions in the log, in steps.

        Raises StorageError when the log cannot be read, ProtocolError where it holds no batch.
        """
        skipped, reason, number = 0, "", 0
        log = self._partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, _STEP_BYTES)
            start = offset
            for header in iterate_batches(data):
                for _, _, _, delta, key, value, _ in batch_records(data, header):
                    try:
                        record = decode_record(key or b"", value)
                    except ProtocolError as error:
                        skipped, reason = skipped + 1, str(error)
                    else:
                        self.shard.replay(record, header.base_offset + delta)
                    number += 1
                    if not number % _STEP_RECORDS:
                        yield
                offset = header.last_offset + 1
            if offset == start:
                raise ProtocolError(f"no whole batch at offset {offset}")
            yield
        if skipped:
            LOG.emit(
                "records.skipped",
                topic=self.topic,
                partition=self.index,
                records=skipped,
                reason=reason,
            )
