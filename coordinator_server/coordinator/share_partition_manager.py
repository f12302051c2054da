"""The share partitions that a broker leads, and the share sessions of its clients.

A share partition is created on the first fetch. It is removed when the broker loses leadership of
the partition, the topic is deleted, the last client of the group with a session on this broker
disconnects, or the share coordinator reports another leader. Group membership is not checked: any
client may fetch for any group id. Source: SharePartitionManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from coordinator_server.core.share_partitions import dead_letters
from coordinator_server.core.share_partitions.acknowledge import acknowledge
from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
)
from coordinator_server.core.share_partitions.refusal import of_persister
from coordinator_server.core.share_partitions.session import ShareSessionCache
from coordinator_server.core.share_partitions.settings import BY_DURATION, EARLIEST, LATEST
from coordinator_server.core.share_partitions.share_partition import SharePartition
from protocol.durations import read_duration_ms
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Mapping, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.coordinator.dead_letters import DeadLetterQueues
    from coordinator_server.core.share_partitions.acknowledge import Acknowledgement
    from coordinator_server.core.share_partitions.dead_letters import Done
    from coordinator_server.core.share_partitions.in_flight import (
        DeadLetters,
        GivenUpRecords,
        Transition,
    )
    from coordinator_server.core.share_partitions.persister import SharePersister, ShareState
    from coordinator_server.core.share_partitions.refusal import Refusal
    from coordinator_server.core.share_partitions.session import (
        Disconnected,
        ShareSession,
        ShareSessionKey,
    )
    from coordinator_server.core.share_partitions.settings import ShareSettings
    from coordinator_server.fetch.purgatory import KeyedPurgatory
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic

K = TypeVar("K")

_FENCED = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors of the share coordinator after which the share partition's state must be read again."""


class _Read:
    """A pending read of a share partition's state; `is_awaited` if fetches wait for the state."""

    __slots__ = ("failed", "is_awaited", "partition", "share_partition")

    def __init__(
        self,
        share_partition: SharePartition,
        partition: Partition,
        failed: Callable[[ErrorCode], None],
    ) -> None:
        self.share_partition = share_partition
        self.partition = partition
        self.failed = failed
        self.is_awaited = False


class SharePartitionManager:
    """All share partitions of one broker. Call `start` before use and `stop` at the end.

    `clock` is the broker's clock; acquisition locks expire by it. Delayed fetches wait in
    `purgatory`, keyed by share partition as well as by partition. `configs_of(group_id)` returns
    the configs set on a group. `gave_up` is called with records that will not be delivered again;
    `queues` writes the dead letters of groups that have a dead letter queue.
    """

    def __init__(
        self,
        settings: ShareSettings,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        purgatory: KeyedPurgatory,
        persister: SharePersister,
        configs_of: Callable[[str], Mapping[str, str]],
        *,
        node_id: int,
        gave_up: Callable[[SharePartition, GivenUpRecords], None],
        queues: DeadLetterQueues,
    ) -> None:
        self.gave_up = gave_up
        self._queues = queues
        self.sessions = ShareSessionCache(settings.max_share_sessions)
        self._settings = settings
        self._clock = clock
        self._step_runner = step_runner
        self.topics = topics
        self.purgatory = purgatory
        self._persister = persister
        self._configs_of = configs_of
        self._node_id = node_id
        self._partitions: dict[SharePartitionKey, tuple[SharePartition, Partition]] = {}
        self._by_partition: dict[Partition, set[SharePartitionKey]] = {}
        self._by_group: dict[str, set[SharePartitionKey]] = {}
        self._timers: dict[SharePartition, tuple[int, Timer]] = {}

    def __len__(self) -> int:
        """Return the number of share partitions."""
        return len(self._partitions)

    def start(self) -> None:
        """Subscribe to topic deletions and leadership changes."""
        self.topics.on_deleted.append(self._on_topics_deleted)
        self.topics.leadership.on_moved.append(self._on_moved)

    def stop(self) -> None:
        """Drop all state; the next leaders continue from the persisted state."""
        self.topics.on_deleted.remove(self._on_topics_deleted)
        self.topics.leadership.on_moved.remove(self._on_moved)
        self._queues.stop()
        self.forget()

    def forget(self) -> None:
        """Drop all sessions and share partitions; later requests create them again."""
        self.sessions.clear()
        self._queues.forget()
        for key in tuple(self._partitions):
            self.remove(key)

    # --- share partitions -------------------------------------------------------------------------

    def settings_of(self, group_id: str) -> ShareSettings:
        """Return the current share settings of a group."""
        return self._settings.of_group(self._configs_of(group_id))

    def get(self, key: SharePartitionKey) -> SharePartition | None:
        """Return an existing share partition, or None."""
        entry = self._partitions.get(key)
        return None if entry is None else entry[0]

    def all_partitions(self) -> list[SharePartition]:
        """Return all share partitions."""
        return [share_partition for share_partition, _ in self._partitions.values()]

    def led(self) -> list[tuple[SharePartition, Partition]]:
        """Return all share partitions, each with its partition."""
        return list(self._partitions.values())

    def find(self, key: SharePartitionKey, partition: Partition) -> SharePartition | ErrorCode:
        """Return the share partition of a partition, creating it if needed, or an error."""
        entry = self._partitions.get(key)
        if entry is not None:
            return entry[0]
        if partition.leader_id != self._node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            leader_epoch = partition.leader_epoch
        except StorageError as error:
            return error.code
        settings = partial(self.settings_of, key.group_id)
        share_partition = SharePartition(
            key,
            leader_epoch,
            settings,
            self._persister,
            self.purgatory.notify,
            self.gave_up,
            partial(self._send_dead_letters, partition),
        )
        self._partitions[key] = share_partition, partition
        self._by_partition.setdefault(partition, set()).add(key)
        self._by_group.setdefault(key.group_id, set()).add(key)
        return share_partition

    def load(
        self,
        share_partition: SharePartition,
        partition: Partition,
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """Read the share partition's state if needed, then notify the fetches that wait for it.

        If reading fails, the share partition is removed, so that the next fetch tries again, and
        `failed` is called with the error.
        """
        error = share_partition.begin_load()
        if error is None:
            read = _Read(share_partition, partition, failed)
            take_state = partial(self._take_state, read)
            self._persister.read(share_partition.key, share_partition.leader_epoch, take_state)
            read.is_awaited = True
        elif error is not ErrorCode.LEADER_NOT_AVAILABLE:
            # LEADER_NOT_AVAILABLE means that another call is already reading the state.
            self._end_load(share_partition, error, failed)

    def _take_state(self, read: _Read, state: ShareState) -> None:
        """Load the state that was read into the share partition, or handle the read error."""
        share_partition = read.share_partition
        error, start_offset = state.error, state.start_offset
        if error is not ErrorCode.NONE:
            error = of_persister(error).error
        elif start_offset == UNINITIALIZED_START_OFFSET:
            strategy = share_partition.settings.auto_offset_reset
            error, start_offset = self._initial_offset(read.partition, strategy)
        error, letters = share_partition.end_load(error, start_offset, state)
        if error is ErrorCode.LEADER_NOT_AVAILABLE:
            return
        self._end_load(share_partition, error, read.failed)
        if read.is_awaited:
            self.purgatory.notify(share_partition)
        dead_letters.send(share_partition, letters)

    def _end_load(
        self,
        share_partition: SharePartition,
        error: ErrorCode,
        failed: Callable[[ErrorCode], None],
    ) -> None:
        if error is not ErrorCode.NONE:
            self._remove(share_partition)
            failed(error)

    def remove(self, key: SharePartitionKey) -> None:
        """Fence and remove a share partition; the next fetch reads its state again."""
        entry = self._partitions.pop(key, None)
        if entry is None:
            return
        share_partition, partition = entry
        _discard(self._by_partition, partition, key)
        _discard(self._by_group, key.group_id, key)
        share_partition.fence()
        timer = self._timers.pop(share_partition, None)
        if timer is not None:
            timer[1].cancel()
        self.purgatory.notify(share_partition)

    def _remove(self, share_partition: SharePartition) -> None:
        """Remove this share partition, unless another object has replaced it."""
        if self.get(share_partition.key) is share_partition:
            self.remove(share_partition.key)

    def _initial_offset(self, partition: Partition, strategy: str) -> tuple[ErrorCode, int]:
        """Return the start offset of a group without state, or an error.

        The offset follows share.auto.offset.reset.
        """
        try:
            log = partition.log
            if strategy == LATEST:
                return ErrorCode.NONE, log.high_watermark
            if strategy == EARLIEST:
                return ErrorCode.NONE, log.log_start_offset
            age_ms = read_duration_ms(strategy.removeprefix(BY_DURATION))
            assert age_ms is not None, strategy
            entry = log.offset_for_timestamp(self._clock.now_ms() - age_ms)
        except StorageError as error:
            return error.code, 0
        if entry is None:
            return ErrorCode.OFFSET_NOT_AVAILABLE, 0
        return ErrorCode.NONE, entry.offset

    def _send_dead_letters(
        self,
        partition: Partition,
        share_partition: SharePartition,
        letters: Sequence[DeadLetters],
        done: Done,
    ) -> None:
        self._queues.write(share_partition.key.group_id, partition, letters, done)

    # --- locks ------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the broker time in ms, by which acquisition locks expire."""
        return self._clock.now_ms()

    def arm(self, share_partition: SharePartition) -> None:
        """Set a timer for the earliest lock expiry if there are new locks.

        A share partition that was removed gets no timer, because its state may be stale.
        """
        if share_partition.locks.has_new_deadline and share_partition.is_active:
            share_partition.locks.has_new_deadline = False
            self._set_timer(share_partition)

    def _set_timer(self, share_partition: SharePartition) -> None:
        due_ms = share_partition.locks.next_deadline_ms()
        if due_ms is None:
            return
        known = self._timers.get(share_partition)
        if known is not None:
            if known[0] <= due_ms:
                return  # keep the earlier timer: an early `_expire` does no harm
            known[1].cancel()
        delay_ms = max(due_ms - self._clock.now_ms(), 0)
        timer = self._clock.call_later(delay_ms / 1000, partial(self._expire, share_partition))
        self._timers[share_partition] = due_ms, timer

    def _expire(self, share_partition: SharePartition) -> None:
        del self._timers[share_partition]
        share_partition.expire(self._clock.now_ms())
        self._set_timer(share_partition)

    # --- requests ---------------------------------------------------------------------------------

    def acknowledge(
        self,
        share_partition: SharePartition,
        member_id: str,
        acknowledgements: Sequence[Acknowledgement],
    ) -> Generator[None, None, Transition | Refusal]:
        """Apply a member's acknowledgements to a share partition.

        Returns the refusal, or the changes, which the caller must pass to `persist`.
        """
        now_ms = self._clock.now_ms()
        result = yield from acknowledge(share_partition, member_id, acknowledgements, now_ms)
        self.arm(share_partition)
        return result

    def persist(
        self,
        share_partition: SharePartition,
        changes: Transition,
        done: Callable[[Refusal | None], None],
    ) -> None:
        """Write the changes of `acknowledge`; then call `done` with None or the refusal."""
        share_partition.persist(changes, partial(self._settled, share_partition, done))

    def _settled(
        self,
        share_partition: SharePartition,
        done: Callable[[Refusal | None], None],
        refusal: Refusal | None,
    ) -> None:
        if refusal is not None and refusal.error in _FENCED:
            self._remove(share_partition)
        done(refusal)

    def close_session(self, session_key: ShareSessionKey) -> Steps:
        """Close a share session and release the records that its member has acquired."""
        session = self.sessions.remove(session_key)
        if session is not None:
            yield from self._release(session)

    def disconnected(self, connection: Hashable) -> None:
        """Close the share session of a connection that has ended.

        After the last session of a group, all share partitions of the group are removed.
        """
        ended = self.sessions.disconnected(connection)
        if ended.session is not None or ended.empty_group_id is not None:
            self._step_runner.run_now(self._after_disconnect(ended))

    def _after_disconnect(self, ended: Disconnected) -> Steps:
        if ended.session is not None:
            yield from self._release(ended.session)
        group_id = ended.empty_group_id
        if group_id is not None and not self.sessions.has_group(group_id):
            for key in tuple(self._by_group.get(group_id, ())):
                self.remove(key)
                yield

    def _release(self, session: ShareSession) -> Steps:
        """Release the records that the member of a closed session has acquired."""
        group_id, member_id = session.key
        while session.partitions:
            (topic_id, index), _ = session.partitions.popitem()
            share_partition = self.get(SharePartitionKey(group_id, topic_id, index))
            if share_partition is not None:
                settled = partial(self._settled, share_partition, _ignore)
                share_partition.release(member_id, settled)
            yield

    # --- partition changes ------------------------------------------------------------------------

    def _on_moved(self, partition: Partition, before: int) -> None:
        if before == self._node_id != partition.leader_id:
            self._forget_partition(partition)

    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        if self._by_partition:
            for topic in topics.values():
                for partition in topic.partitions:
                    self._forget_partition(partition)

    def _forget_partition(self, partition: Partition) -> None:
        for key in tuple(self._by_partition.get(partition, ())):
            self.remove(key)


def _ignore(_: Refusal | None) -> None:
    """Ignore the result: no client waits for it."""


def _discard(keys: dict[K, set[SharePartitionKey]], index: K, key: SharePartitionKey) -> None:
    """Remove a key from an index, and remove index entries that become empty."""
    keys[index].discard(key)
    if not keys[index]:
        del keys[index]
