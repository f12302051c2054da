"""A broker with share partitions and their coordinator, on one disk in memory, for simulations.

Responses are recorded in their common order; writes of the state may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from coordinator_server.config.coordinator_configs import share_settings
from coordinator_server.coordinator.dead_letters import DeadLetterQueues
from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
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
from tests.unit.coordinator.share_state_broker import ShareStateBroker
from tests.unit.core.share_partitions.broker import ShareRequests
from tests.unit.topics.fakes import FakeCall, FakeClock, FakeConnection

E = ErrorCode
TOPIC, QUEUE = "t", "dlq.t"


class Heard(FakeCall):
    """A request that records the position of its response in the order of all responses."""

    answers: list[tuple[FakeCall, int]]
    clock: FakeClock

    def reply(self, response: Message) -> None:
        """Record the response and its position."""
        super().reply(response)
        self.answers.append((self, self.clock.time_ms))


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
        """Write, or fail before or after it."""
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
        self.answers: list[tuple[FakeCall, int]] = []
        super().__init__(
            disk,
            share_coordinator_snapshot_update_records_per_snapshot="5",
            errors_deadletterqueue_auto_create_topics_enable="true",
        )
        if now_ms is not None:
            self.clock.time_ms = now_ms
        self.persister = unreliable = UnreliablePersister(
            self.share_state_topic, lambda _: self.share_states, self.scheduler
        )
        unreliable.fails = fails
        self.share_partitions = SharePartitionManager(
            share_settings(self.config),
            self.virtual_clock,
            self.step_runner,
            self.topics,
            self.fetch_purgatory,
            self.persister,
            lambda _: configs,
            node_id=self.node_id,
            gave_up=gave_up,
            queues=DeadLetterQueues(
                self.config, self.virtual_clock, self.step_runner, self.topics, lambda _: configs
            ),
        )
        self.share_partitions.start()

    def call(self, handle: Any, request: Message, version: int, **fields: Any) -> FakeCall:
        """Pass a request to a handler."""
        call = Heard(version, "test", fields.get("connection") or FakeConnection())
        call.answers, call.clock = self.answers, self.clock
        call.serve(handle, self, request)
        return call

    def produced(self, index: int, count: int) -> str | None:
        """Append a batch; return the error of a failure."""
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
