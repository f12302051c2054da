"""A broker with share partitions and their coordinator, on one disk in memory, for simulations.

Responses are recorded in their common order; writes of the state may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from coordinator_server.coordinator.share_persister import LocalSharePersister
from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
from coordinator_server.core.share_partitions.persister import SharePartitionKey, StateBatch
from coordinator_server.core.share_partitions.share_partition import SharePartition
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from protocol.schema import Message
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from tests.harness.client import Client, SentRequest
from tests.harness.share_states import ShareStateBroker
from tests.harness.shares import ShareRequests

E = ErrorCode
TOPIC, QUEUE = "t", "dlq.t"


class UnreliablePersister(LocalSharePersister):
    """A persister whose writes sometimes fail, or succeed without a response."""

    fails: Callable[[], bool]

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Write the state, or fail before or after the write."""
        if self.fails():
            if len(batches) % 2:
                done(E.COORDINATOR_NOT_AVAILABLE)
                return
            done = partial(_fail, done)
        super().write(
            key,
            state_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count,
            batches,
            done,
        )


def _headers(data: bytes) -> Iterator[dict[str, bytes]]:
    for header in iterate_batches(data):
        for record in iterate_records(data, header):
            yield {name: value or b"" for name, value in record.headers}


def _fail(done: Callable[[ErrorCode], None], _: ErrorCode) -> None:
    done(E.COORDINATOR_NOT_AVAILABLE)


class DurableShareBroker(ShareRequests, ShareStateBroker):
    """A broker with share partitions whose state is kept on its disk."""

    def __init__(
        self,
        disk: MemoryDisk,
        configs: dict[str, str],
        fails: Callable[[], bool],
        now_ms: int | None,
        gave_up: Callable[[SharePartition, GivenUpRecords], None],
    ) -> None:
        self.answers: list[tuple[SentRequest, int]] = []
        """The answered requests in the order of their responses, with the time."""
        super().__init__(
            disk,
            share_coordinator_snapshot_update_records_per_snapshot="5",
            errors_deadletterqueue_auto_create_topics_enable="true",
        )
        if now_ms is not None:
            self.clock.time_ms = now_ms
        persister = UnreliablePersister(
            self.shared.share_state_topic, self.shared.running.share_states_of, self.clock
        )
        persister.fails = fails
        self.shared.share_persister.built = persister
        self.configure(configs)
        self.share_partitions.gave_up = gave_up

    def send(self, request: Message, version: int | None = None, **fields: Any) -> SentRequest:
        """Send a request; record its response in `answers`."""
        client = fields.pop("client", None) or Client()
        client.on_answer = self._answered
        return super().send(request, version, client=client, **fields)

    def _answered(self, sent: SentRequest) -> None:
        self.answers.append((sent, self.clock.time_ms))

    def produced(self, index: int, count: int) -> str | None:
        """Append a batch; return the error message of a failed append, or None."""
        try:
            self.produce(TOPIC, count, index=index)
        except StorageError as error:
            return str(error)
        return None

    def dead_letters(self) -> set[tuple[int, int]]:
        """Return partition and offset of the records in the dead letter queue."""
        topic = self.topics.topic(QUEUE)
        if topic is None:
            return set()
        return {
            (int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"]))
            for partition in topic.partitions
            for headers in _headers(partition.log.read(0, 1 << 30))
        }

    def end_of(self, index: int) -> int:
        """Return the log end offset of a partition."""
        return self.topics.log(TOPIC, index).high_watermark
