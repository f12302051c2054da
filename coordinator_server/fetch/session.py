"""Incremental fetch sessions (KIP-227), like Kafka's FetchSessionCache.

A consumer that fetches the same partitions repeatedly names them once; later requests contain only
changes, and responses contain only changed partitions. A session stores the requested partitions
and the state that the last response reported for each partition. The number of sessions is
limited. When all slots are taken, a session that was idle for two minutes is evicted, or else a
session that has lived for two minutes and has fewer partitions than the new session. Otherwise the
new client gets full responses without a session (id 0).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from coordinator_server.topics.counts import ShardedDict
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.steps import Steps
    from protocol.apis.fetch import FetchPartition, FetchRequest

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INVALID_SESSION_ID = 0
EVICTION_MS = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms."""

MAX_SESSION_PARTITIONS = 100_000
"""A fetch of more partitions gets full responses without a session."""

_EPOCH_MAX = 2**31 - 1


class FetchTarget:
    """One partition of a fetch, and what the session last reported for it.

    `topic` is the name up to version 12 and the id from version 13. `name` is None until a topic
    with the id has been found. If `high_watermark` is -1, the next response includes the partition.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "topic",
    )

    def __init__(self, topic: str | bytes, partition: int) -> None:
        self.topic = topic
        self.name = topic if isinstance(topic, str) else None
        self.partition = partition
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, asked: FetchPartition) -> None:
        """Update the limits and offsets of the partition from a request."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def has_news(
        self, error: int, high_watermark: int, log_start_offset: int, size_bytes: int
    ) -> bool:
        """Return whether an incremental response must include the partition; update the state."""
        news = size_bytes > 0 or error != ErrorCode.NONE
        if self.high_watermark != high_watermark:
            self.high_watermark = high_watermark
            news = True
        if self.log_start_offset != log_start_offset:
            self.log_start_offset = log_start_offset
            news = True
        if error != ErrorCode.NONE:
            # The first response after an error must include the partition.
            self.high_watermark = -1
        return news


Targets = dict[tuple[str | bytes, int], FetchTarget]


class FetchSession:
    """The partitions that one consumer fetches. The next request must carry `epoch`."""

    __slots__ = ("created_ms", "epoch", "last_used_ms", "session_id", "targets", "uses_topic_ids")

    def __init__(
        self, session_id: int, targets: Targets, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)

    def move_to_end(self, target: FetchTarget) -> None:
        """Move a partition that returned data to the end, so that every partition gets its turn."""
        key = (target.topic, target.partition)
        if self.targets.get(key) is target:
            del self.targets[key]
            self.targets[key] = target


class FetchContext:
    """One fetch request with its session: the partitions to read and the kind of response.

    With an `error`, only the error is sent. Without a session, the response is full, with session
    id 0 unless `wants_session` opens a new session.
    """

    __slots__ = ("epoch", "error", "session", "targets", "uses_topic_ids", "wants_session")

    def __init__(
        self,
        targets: Sequence[FetchTarget],
        *,
        uses_topic_ids: bool,
        error: ErrorCode = ErrorCode.NONE,
        session: FetchSession | None = None,
        epoch: int = FINAL_EPOCH,
        wants_session: bool = False,
    ) -> None:
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.error = error
        self.session = session
        self.epoch = epoch
        self.wants_session = wants_session

    @property
    def is_overtaken(self) -> bool:
        """Whether a newer request has advanced the session epoch while this request waited."""
        return self.session is not None and self.session.epoch != self.epoch


class FetchSessionCache:
    """All fetch sessions of the broker. `random_id` returns positive int32 numbers."""

    __slots__ = ("_max_slots", "_random_id", "_sessions")

    def __init__(self, max_slots: int, random_id: Callable[[], int]) -> None:
        self._max_slots = max_slots
        self._random_id = random_id
        # The least recently used session is first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Remove all sessions."""
        self._sessions.clear()

    def context(
        self, request: FetchRequest, version: int, now_ms: int
    ) -> Generator[None, None, FetchContext]:
        """Return the context of a request. New sessions are opened later, by `open`."""
        uses_topic_ids = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                self._sessions.pop(request.session_id, None)
            targets = yield from _targets(request, uses_topic_ids)
            wants_session = (
                request.session_epoch == INITIAL_EPOCH and len(targets) <= MAX_SESSION_PARTITIONS
            )
            return FetchContext(
                targets,
                uses_topic_ids=uses_topic_ids,
                wants_session=wants_session,
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, uses_topic_ids)
        if session.epoch != request.session_epoch:
            return _refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH, uses_topic_ids)
        if session.uses_topic_ids != uses_topic_ids:
            return _refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, uses_topic_ids)
        epoch = session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        yield from update_targets(session.targets, request, uses_topic_ids)
        size = len(session.targets)
        if not 0 < size <= MAX_SESSION_PARTITIONS:
            self._sessions.pop(session.session_id, None)
            if size:
                return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, uses_topic_ids)
            # As in Kafka, the request ends the session and is then served without it.
            targets = yield from _targets(request, uses_topic_ids)
            return FetchContext(targets, uses_topic_ids=uses_topic_ids)
        return FetchContext(
            tuple(session.targets.values()),
            uses_topic_ids=uses_topic_ids,
            session=session,
            epoch=epoch,
        )

    def open(self, context: FetchContext, now_ms: int) -> int:
        """Open a session for the full response; return its id, or 0 if all slots are taken."""
        size = len(context.targets)
        if len(self._sessions) >= self._max_slots and not self._evict(size, now_ms):
            return INVALID_SESSION_ID
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        targets = {(target.topic, target.partition): target for target in context.targets}
        self._sessions[session_id] = FetchSession(
            session_id, targets, context.uses_topic_ids, now_ms
        )
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        idle = next(iter(self._sessions.values()))
        if now_ms - idle.last_used_ms > EVICTION_MS:
            del self._sessions[idle.session_id]
            return True
        # As in Kafka, a session's age is measured at its last use.
        grown = [s for s in self._sessions.values() if s.last_used_ms - s.created_ms > EVICTION_MS]
        if not grown:
            return False
        smallest = min(grown, key=lambda session: (len(session.targets), session.session_id))
        if len(smallest.targets) >= size:
            return False
        del self._sessions[smallest.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """Return the session epoch after `epoch`; wraps to 1 (FetchMetadata.nextEpoch)."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def update_targets(targets: Targets, request: FetchRequest, uses_topic_ids: bool) -> Steps:
    """Apply a request to a session: new and changed partitions, then forgotten partitions.

    Stops when the session exceeds MAX_SESSION_PARTITIONS.
    """
    for fetch_topic in request.topics:
        topic: str | bytes = fetch_topic.topic_id if uses_topic_ids else fetch_topic.topic
        for asked in fetch_topic.partitions:
            key = (topic, asked.partition)
            target = targets.get(key)
            if target is None:
                if len(targets) > MAX_SESSION_PARTITIONS:
                    return
                target = targets[key] = FetchTarget(topic, asked.partition)
            target.update(asked)
            yield
        yield
    for forgotten in request.forgotten_topics_data:
        topic = forgotten.topic_id if uses_topic_ids else forgotten.topic
        for partition in forgotten.partitions:
            targets.pop((topic, partition), None)
            yield
        yield


def _targets(
    request: FetchRequest, uses_topic_ids: bool
) -> Generator[None, None, list[FetchTarget]]:
    """Return the partitions of a full request.

    A partition that is named twice keeps its first position and its last values, as in Kafka.
    """
    targets: list[FetchTarget] = []
    by_key: ShardedDict[tuple[str | bytes, int], FetchTarget] = ShardedDict()
    for fetch_topic in request.topics:
        topic: str | bytes = fetch_topic.topic_id if uses_topic_ids else fetch_topic.topic
        for asked in fetch_topic.partitions:
            new = FetchTarget(topic, asked.partition)
            target = by_key.setdefault((topic, asked.partition), new)
            if target is new:
                targets.append(target)
            target.update(asked)
            yield
        yield
    yield from by_key.clear()
    return targets


def _refused(error: ErrorCode, uses_topic_ids: bool) -> FetchContext:
    return FetchContext((), uses_topic_ids=uses_topic_ids, error=error)
