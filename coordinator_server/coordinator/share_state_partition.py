"""One partition of `__share_group_state`: append and load share-partition state.

Source: CoordinatorRuntime, CoordinatorLoaderImpl, ShareCoordinatorService's pruning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.share_state.records import decode_record, encode_record
from coordinator_server.runtime.loader import LogReader, SkippedRecords
from coordinator_server.runtime.partition import CoordinatorPartition
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from protocol.batch import batch_of_section, record_bytes
from protocol.errors import ProtocolError
from protocol.raw_records import batch_records
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.core.share_state.records import ShareRecord
    from coordinator_server.core.share_state.shard import ShareCoordinatorShard
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition
    from protocol.errors import ErrorCode

_STEP_RECORDS = 20
_FIRST_SEQUENCE = 0
"""The base sequence of Kafka's coordinators, although their batches have no producer id."""


class ShareStatePartition(CoordinatorPartition):
    """One partition of the share-state topic on its leader; `shard` has its share partitions."""

    __slots__ = ("_pruned_offset", "shard")

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: Partition, clock: Clock, shard: ShareCoordinatorShard) -> None:
        super().__init__(partition, clock)
        self.shard = shard
        self._pruned_offset: int | None = None

    def append(self, records: Sequence[ShareRecord]) -> ErrorCode:
        """Append records as one batch and replay them; return NONE or the error of the log.

        Returns NOT_LEADER_OR_FOLLOWER if another broker has become leader.
        """
        section = b"".join(
            record_bytes(0, delta, *encode_record(record)) for delta, record in enumerate(records)
        )
        now_ms = self._clock.now_ms()
        batch = batch_of_section(section, len(records), now_ms, base_sequence=_FIRST_SEQUENCE)

        def replay(base_offset: int) -> None:
            for offset, record in enumerate(records, start=base_offset):
                self.shard.replay(record, offset)

        return self.append_batch(batch, now_ms, replay)

    def prune(self) -> Partition | None:
        """Delete redundant records; return the partition, or None if nothing was deleted."""
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
        """Load the share partitions from the log, in steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log has bytes that are
        no batch.
        """
        reader, skipped, number = LogReader(self._partition.log), SkippedRecords(), 0
        for data in reader.chunks():
            for header in reader.batches(data):
                for _, _, _, delta, key, value, _ in batch_records(data, header):
                    try:
                        record = decode_record(key or b"", value)
                    except ProtocolError as error:
                        skipped.add(str(error))
                    else:
                        self.shard.replay(record, header.base_offset + delta)
                    number += 1
                    if not number % _STEP_RECORDS:
                        yield
            yield
        skipped.log(self.topic, self.index)
