"""Writes rebalance records to the log, the history and the topic `__group_events`.

Groups never wait for the topic and never see its errors. Records wait in a queue, which a timer
writes in batches. Failed writes are retried with increasing delay, and slow writes get a small
share of the event loop's time. When the queue is full, records are dropped and counted.
"""

from __future__ import annotations

import time
import zlib
from collections import deque
from typing import TYPE_CHECKING

from coordinator_server.core.groups.explain import WITHOUT_REBALANCE, RebalanceOutcome
from coordinator_server.events.log import LOG
from coordinator_server.steps import run_all
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Clock, Scheduler, Timer
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.config.config import Config
    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.rebalances.schema import RebalanceRecord
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition


_WINDOW_BITS, _MEMORY_LEVEL, _FASTEST = 12, 4, 1

_TYPICAL = (
    b'"outcome":"superseded","outcome":"empty","reason":"session expired","status":"left",'
    b'{"trigger":"member left","culprit":null,"reason":null,"timeout_ms":null,"after_ms":0},'
    b'{"schema":1,"group":"","outcome":"stable","trigger":"member joined","culprit":{"member":"'
    b'consumer-1-","instance":null,"client_id":"consumer-1","host":"/127.0.0.1"},"reason":"",'
    b'"timeout_ms":null,"error":"","also":[],"generation_before":0,"generation":1,'
    b'"protocol_type":"consumer","protocol_before":null,"protocol":"range","leader_before":null,'
    b'"leader":"consumer-1-","started_ms":17,"ended_ms":17,"initial_delay_ms":0,"join_ms":0,'
    b'"sync_ms":0,"members_before":0,"members_rejoined":0,"members_joined":1,"members_after":1,'
    b'"stragglers":[],"dropped":[],"partitions":{"kept":0,"moved":0,"added":0,"removed":0},'
    b'"partitions_unknown":null,"members":[{"member":"consumer-1-","instance":null,"client_id":"'
    b'consumer-1","host":"/127.0.0.1","member_before":null,"status":"joined","rejoined_ms":0,'
    b'"partitions_before":{},"partitions":{},"topics_added":[],"topics_removed":[]}],'
    b'"shortened":false},"member_before":"consumer-1-","status":"stayed","rejoined_ms":null,'
)


class RebalanceHistory:
    """The records of up to `size` rebalances of each group, as JSON, in memory.

    Each record is compressed with a dictionary of the field names: a record with one member shrinks
    from 1 000 bytes to about 200. A small window keeps compression to a few microseconds.
    """

    __slots__ = ("_by_group", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_group: dict[str, list[bytes]] = {}  # not deques: an empty deque takes 760 bytes

    def add(self, group_id: str, value: bytes) -> None:
        """Add a record of a group; drop the group's oldest record if there are more than `size`."""
        if not self._size:
            return
        compressor = zlib.compressobj(
            _FASTEST, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=_TYPICAL
        )
        compressed = compressor.compress(value) + compressor.flush()
        kept = self._by_group.get(group_id)
        if kept is None:
            self._by_group[group_id] = [compressed]
            return
        if len(kept) == self._size:
            del kept[0]
        kept.append(compressed)

    def of(self, group_id: str) -> list[bytes]:
        """Return the records of a group, oldest first."""
        return [
            zlib.decompressobj(_WINDOW_BITS, zdict=_TYPICAL).decompress(compressed)
            for compressed in self._by_group.get(group_id, ())
        ]

    def drop(self, group_id: str) -> None:
        """Remove all records of a group."""
        self._by_group.pop(group_id, None)

    def clear(self) -> None:
        """Remove all records of all groups."""
        self._by_group.clear()


GATHER_MS = 50
"""How long records wait for more records, so that many rebalances are written in few batches."""

PAUSE_FACTOR = 20
"""Pause after a write, as a multiple of its duration: writes take at most 5 % of the time."""

RETRY_MS, RETRY_MAX_MS = 1_000, 60_000
"""First and largest delay before retrying a failed write; the delay doubles with each failure."""

QUEUE_BYTES = 8 * 1024 * 1024
"""Limit of the queued records; beyond this size the oldest records are dropped."""

BATCH_BYTES = 512 * 1024
"""Size limit of a batch; a larger record is written in a batch of its own."""

TOPIC_CONFIGS = {
    "cleanup.policy": "delete",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
}
"""The topic's own configs; retention time is the broker's default."""


class RebalanceJournal:
    """Records rebalances that have ended. All brokers of a process share one journal.

    `timer_s()` measures writes, in seconds; it is independent of the groups' clock.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        topics: TopicManager,
        scheduler: Scheduler,
        step_runner: StepRunner,
        timer_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._scheduler = scheduler
        self._step_runner = step_runner
        self._timer_s = timer_s
        self._is_published = config.boolean("group.events.enable")
        self._accounts: deque[tuple[str, Rebalance]] = deque()
        self._recording: Steps | None = None
        """The steps that turn `_accounts` into records; None if not running."""
        self.listeners: list[Callable[[str, RebalanceRecord], None]] = []
        """Callbacks for each record, with the group id."""
        self._history = RebalanceHistory(config.integer("group.events.history.size"))
        self._queue: deque[tuple[int, bytes, bytes]] = deque()
        self._queued_bytes = 0
        self._lost = 0
        self._retry_ms = 0
        self._timer: Timer | None = None

    def take(self, group_id: str, rebalance: Rebalance) -> None:
        """Queue a rebalance; its record is built from the next turn of the event loop on.

        The record is built in steps, because it may be long, and loading a partition may report
        many groups at once.
        """
        self._accounts.append((group_id, rebalance))
        if self._recording is None:
            self._recording = self._record_all()
            self._step_runner.run(self._recording)

    def history(self, group_id: str) -> list[RebalanceRecord]:
        """Return the last records of a group, oldest first; empty if the group was removed."""
        import json

        return [json.loads(value) for value in self._history.of(group_id)]

    def close(self) -> None:
        """Write the remaining records, without retries, for a clean stop."""
        if self._recording is not None:
            run_all(self._recording)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and self._write():
            pass

    def forget(self) -> None:
        """Drop all queued rebalances and records, including records not written yet."""
        self._accounts.clear()
        if self._recording is not None:
            self._recording.close()
            self._recording = None
        self._history.clear()
        self._queue.clear()
        self._queued_bytes = self._lost = self._retry_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- records ----------------------------------------------------------------------------------

    def _record_all(self) -> Steps:
        """Build the records of all queued rebalances, one after the other."""
        try:
            while self._accounts:
                yield from self._record(*self._accounts.popleft())
                yield
        finally:
            self._recording = None

    def _record(self, group_id: str, rebalance: Rebalance) -> Steps:
        """Log a new rebalance record, and add the record to the history and to `__group_events`."""
        # Imported here to keep the start of the broker fast.
        from coordinator_server.rebalances.record import encode_record, log_fields, record_in_steps

        record = yield from record_in_steps(group_id, rebalance)
        if rebalance.cause.trigger not in WITHOUT_REBALANCE:
            # Triggers without a rebalance are logged as other events.
            LOG.emit("group.rebalanced", **log_fields(record))
        value = encode_record(record)
        if self.listeners:
            self._tell_listeners(group_id, value)
        if len(value) > BATCH_BYTES:
            yield
        if rebalance.outcome is RebalanceOutcome.DEAD:
            self._history.drop(group_id)
        else:
            self._history.add(group_id, value)
        if self._is_published:
            self._enqueue(rebalance.ended_ms, group_id, value)

    def _tell_listeners(self, group_id: str, value: bytes) -> None:
        import json

        record = json.loads(value)
        for listener in tuple(self.listeners):
            listener(group_id, record)

    # --- topic __group_events ---------------------------------------------------------------------

    def _enqueue(self, timestamp_ms: int, group_id: str, value: bytes) -> None:
        key = group_id.encode("utf-8", "surrogatepass")
        self._queue.append((timestamp_ms, key, value))
        self._queued_bytes += len(value)
        while self._queued_bytes > QUEUE_BYTES:
            self._queued_bytes -= len(self._queue.popleft()[2])
            self._lost += 1
        if self._timer is None:
            self._arm(GATHER_MS)

    def _arm(self, delay_ms: float) -> None:
        self._timer = self._scheduler.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._queue:
            return
        started_s = self._timer_s()
        if self._write():
            self._retry_ms = 0
            pause_ms = max(GATHER_MS, (self._timer_s() - started_s) * 1000 * PAUSE_FACTOR)
        else:
            self._retry_ms = pause_ms = min(max(RETRY_MS, 2 * self._retry_ms), RETRY_MAX_MS)
        self._arm(pause_ms)

    def _write(self) -> bool:
        """Write one batch from the head of the queue; return False if that failed.

        After a failure the records stay in the queue.
        """
        from protocol.batch import Record, build_batch

        taken = self._head()
        batch = build_batch([Record(offset, *self._queue[offset]) for offset in range(taken)])
        try:
            self._partition().append_own(batch, self._clock.now_ms())
        except StorageError as error:
            LOG.emit("log.failed", topic=GROUP_EVENTS_TOPIC, partition=0, reason=str(error))
            return False
        for _ in range(taken):
            self._queued_bytes -= len(self._queue.popleft()[2])
        if self._lost:
            LOG.emit("records.dropped", topic=GROUP_EVENTS_TOPIC, records=self._lost)
            self._lost = 0
        return True

    def _head(self) -> int:
        """Return the number of records in the next batch."""
        taken = size_bytes = 0
        for _, _, value in self._queue:
            size_bytes += len(value)
            if taken and size_bytes > BATCH_BYTES:
                break
            taken += 1
        return taken

    def _partition(self) -> Partition:
        """Return the partition of the topic, created if it does not exist. Raises StorageError."""
        topic = self._topics.topic(GROUP_EVENTS_TOPIC)
        if topic is None:
            error = self._topics.creation_error(GROUP_EVENTS_TOPIC)
            if error is not None:
                raise StorageError(error[1])
            topic = self._topics.create(GROUP_EVENTS_TOPIC, 1, TOPIC_CONFIGS)
        # Only the first partition is used, because the order of events must be kept. Partitions
        # that a user adds stay empty.
        return topic.partitions[0]
