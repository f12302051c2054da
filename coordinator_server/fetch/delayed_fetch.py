"""Serves one fetch request; while the fetch waits, it is an operation in the purgatory.

Partitions are read in session order, each up to its own limit and the rest of the request's limit.
The first non-empty read returns at least one batch whatever its size, so that no limit can block a
consumer forever. A fetch is delayed while it has found fewer than `min_bytes` and no partition has
an error to report; partitions that do not exist do not end the delay, as in Kafka. Source:
ReplicaManager.fetchMessages, DelayedFetch.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator_server.fetch.purgatory import KeyedOperation
from protocol.apis.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.errors import ErrorCode
from storage.batch_scan import end_offset_of
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.fetch.session import FetchContext, FetchSessionCache, FetchTarget
    from coordinator_server.net.addresses import BrokerEndpoint
    from coordinator_server.net.call import Call
    from coordinator_server.net.connection import Connection
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from storage.partition_log import PartitionLog

MANY_PARTITIONS = 2000
_READ_COMMITTED = 1
_DEBUGGING_CONSUMER = -2
# Encoded sizes of a response and of a partition, without records.
_ANSWER_BYTES, _PARTITION_BYTES = 16, 58
_FIRST_VERSION_WITH_ZSTD = 10
_FIRST_VERSION_WITH_LEADERS = 16
_LEADER_IS_NEWS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _PartitionResult(NamedTuple):
    """The result of reading one partition."""

    target: FetchTarget
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes = b""
    aborted: list[AbortedTransaction] | None = None
    readable_bytes: int = 0
    """Bytes below the read limit of the whole log when it was read; 0 if `min_bytes` is at most
    1."""
    diverging: tuple[int, int] | None = None
    """The last epoch on which the reader's log and this log agree, and its end offset here."""


class FetchingBroker(Protocol):
    """The part of the broker that a fetch uses; `client_clock` measures the clients' wait time."""

    node_id: int
    topics: TopicManager
    fetch_sessions: FetchSessionCache
    client_clock: BrokerClock

    def endpoints(self, connection: Connection) -> Sequence[BrokerEndpoint]:
        """Return the addresses of the running brokers for the client of a connection."""


class DelayedFetch(KeyedOperation):
    """A fetch request.

    Call `answer_if_enough`; if it returns False, call `KeyedPurgatory.watch`.
    """

    __slots__ = (
        "_broker",
        "_call",
        "_committed",
        "_context",
        "_is_debugging",
        "_is_old",
        "_is_replica",
        "_max_bytes",
        "_min_bytes",
        "_node_id",
        "_recreated",
        "_results",
        "_to_read",
        "_unknown",
    )

    def __init__(
        self,
        broker: FetchingBroker,
        call: Call,
        request: FetchRequest,
        context: FetchContext,
        now_ms: int,
    ) -> None:
        super().__init__(now_ms + max(request.max_wait_ms, 0))
        self._broker = broker
        self._call = call
        self._node_id = broker.node_id
        self._context = context
        self._committed = request.isolation_level == _READ_COMMITTED
        # Followers cannot replicate from this broker; replica id -2 is a debugging consumer.
        replica = request.replica_id if call.api_version < 15 else request.replica_state.replica_id
        self._is_replica = replica >= 0
        self._is_debugging = replica == _DEBUGGING_CONSUMER
        self._is_old = call.api_version < _FIRST_VERSION_WITH_ZSTD
        self._max_bytes = min(max(request.max_bytes, 0), broker.topics.fetch_max_bytes)
        if call.is_metered:
            self._max_bytes = min(self._max_bytes, call.most_fetched_bytes())
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._results: list[_PartitionResult] = []  # results of the first read
        self._to_read: list[tuple[FetchTarget, Partition]] = []
        self._unknown: list[_PartitionResult] = []
        self._recreated: set[FetchTarget] = set()
        """Targets whose topic id is gone, so that the topic is looked up by name."""

    def look_up(self) -> Steps:
        """Look up the partitions of the request. Call this method first."""
        topics = self._broker.topics
        rights = self._call.rights
        may_read = rights.allows if rights.is_restricted else None
        # Results that come after the unknown topic ids in the response.
        later: list[_PartitionResult] = []
        for target in self._context.targets:
            topic = None
            if not isinstance(target.topic, bytes):
                topic = topics.topic(target.topic)
            elif (topic := topics.topic_by_id(target.topic)) is not None:
                target.name = topic.name
            elif target.name is not None:
                # As in Kafka, a session keeps the topic's name after the topic was deleted or
                # recreated.
                topic = topics.topic(target.name)
                self._recreated.add(target)
            if may_read is not None and not may_read(target.name):
                later.append(_unread(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif target.name is None:
                self._unknown.append(_unread(target, ErrorCode.UNKNOWN_TOPIC_ID))
            elif topic is not None and 0 <= target.partition < len(topic.partitions):
                self._to_read.append((target, topic.partitions[target.partition]))
            else:
                later.append(_unread(target, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            yield
        self._unknown += later

    def partitions(self) -> list[Partition]:
        """Return the partitions to read, which are the keys in the purgatory."""
        return [partition for _, partition in self._to_read]

    def answer_if_enough(self, max_wait_ms: int) -> Generator[None, None, bool]:
        """Read, and respond unless the fetch must wait; return whether a response was sent.

        If the fetch must wait, the results are kept for `try_complete`.
        """
        results = yield from self._read()
        if (
            max_wait_ms <= 0
            or not results
            or sum([len(fetched.records) for fetched in results]) >= self._min_bytes
            or any(fetched.error or fetched.diverging for fetched in results)
        ):
            self.is_completed = True
            yield from self._answer(results)
            return True
        self._results = results
        return False

    def try_complete(self) -> bool:
        """Respond if `min_bytes` are available, or if a partition was deleted or moved.

        A fetch of more than MANY_PARTITIONS responds on any change, because checking every
        partition each time would take too long.
        """
        if len(self._to_read) > MANY_PARTITIONS:
            return self.force_complete()
        moved: list[int] = []
        try:
            for number, (target, partition) in enumerate(self._to_read):
                if partition.is_deleted or (
                    partition.leader_id != self._node_id and not self._is_follower_read(partition)
                ):
                    return self.force_complete()
                log = partition.log
                if log.log_end_offset != self._results[number].high_watermark:
                    moved.append(number)
                elif target.fetch_offset < log.log_start_offset:
                    return self.force_complete()
        except StorageError:
            return self.force_complete()
        return self._is_enough(moved) and self.force_complete()

    def _is_follower_read(self, partition: Partition) -> bool:
        """Return whether a debugging consumer reads from this follower, which Kafka allows."""
        return self._is_debugging and self._node_id in partition.replicas

    def _end_of(self, log: PartitionLog) -> int:
        """Return the end offset up to which this client may read."""
        return log.last_stable_offset if self._committed else log.high_watermark

    def _is_enough(self, moved: list[int]) -> bool:
        """Return whether the kept results and new data of `moved` partitions reach `min_bytes`."""
        bytes_there = sum([len(fetched.records) for fetched in self._results])
        for number in moved:
            target, partition = self._to_read[number]
            log, before = partition.log, self._results[number]
            end = self._end_of(log)
            if self._committed and end == before.last_stable_offset:
                continue
            if self._min_bytes <= 1:
                return True
            # Retention may have removed records since the first read, so the difference can be
            # negative. The fetch then waits until its deadline.
            new_bytes = log.bytes_below(end) - before.readable_bytes
            bytes_there += min(max(new_bytes, 0), target.max_bytes)
        return bytes_there >= self._min_bytes

    def on_complete(self) -> None:
        """Read the partitions that have changed since the first read, and respond."""
        self._call.run(self._read_and_answer())

    def is_abandoned(self) -> bool:
        """Return whether the client has disconnected."""
        return self._call.connection.closed

    def _read_and_answer(self) -> Steps:
        results = yield from self._read()
        yield from self._answer(results)

    def _read(self) -> Generator[None, None, list[_PartitionResult]]:
        """Read all partitions within the limits of the request."""
        results: list[_PartitionResult] = []
        left = self._max_bytes
        at_least_one = True
        before = self._results
        for number, (target, partition) in enumerate(self._to_read):
            if before and self._is_unchanged(partition, before[number]):
                results.append(before[number])
                continue
            limit = min(target.max_bytes, left)
            fetched = self._read_partition(target, partition, limit, at_least_one)
            if fetched.records:
                at_least_one = False
                left = max(left - len(fetched.records), 0)
            results.append(fetched)
            yield
        return results

    def _read_partition(
        self, target: FetchTarget, partition: Partition, limit: int, at_least_one: bool
    ) -> _PartitionResult:
        records = b""
        aborted: list[AbortedTransaction] | None = [] if self._committed else None
        try:
            error = self._error_of(target, partition)
            if error is not ErrorCode.NONE:
                return _failed(target, error)
            log = partition.log
            high_watermark = log.high_watermark
            last_stable_offset = log.last_stable_offset
            if target.last_fetched_epoch >= 0 and (diverging := _diverging(target, log)):
                return _PartitionResult(
                    target,
                    ErrorCode.NONE,
                    high_watermark,
                    last_stable_offset,
                    log.log_start_offset,
                    diverging=diverging,
                )
            if not log.log_start_offset <= target.fetch_offset <= high_watermark:
                return _failed(target, ErrorCode.OFFSET_OUT_OF_RANGE)
            end = self._end_of(log)
            if target.fetch_offset < end and (limit or at_least_one):
                most = max(limit, 0)
                records = log.read(target.fetch_offset, most, at_least_one=at_least_one, up_to=end)
                if not records:
                    # As in Kafka, a response without records has no list of aborted transactions.
                    aborted = None
                elif self._committed:
                    aborted = _aborted_in(log, target.fetch_offset, records)
            readable_bytes = log.bytes_below(end) if self._min_bytes > 1 else 0
        except StorageError as failure:
            return _failed(target, failure.code)
        return _PartitionResult(
            target,
            ErrorCode.NONE,
            high_watermark,
            last_stable_offset,
            log.log_start_offset,
            records,
            aborted,
            readable_bytes,
        )

    def _error_of(self, target: FetchTarget, partition: Partition) -> ErrorCode:
        """Return the error that prevents reading a partition at any offset, or NONE."""
        if target in self._recreated:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if partition.is_deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._is_replica or (
            partition.leader_id != self._node_id and not self._is_follower_read(partition)
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = partition.log
        if target.current_leader_epoch != -1:
            error = partition.leader_epoch_error(target.current_leader_epoch)
            if error is not ErrorCode.NONE:
                return error
        if target.last_fetched_epoch > log.leader_epoch:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if self._is_old and log.config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.NONE

    def _answer(self, results: list[_PartitionResult]) -> Steps:
        """Send the results and then errors of unknown partitions; in a session, only changes."""
        context = self._context
        if context.is_overtaken:
            self._call.reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
            return
        session_id = 0
        response = FetchResponse()
        session = context.session
        if self._call.is_metered and self._call.must_throttle_fetch(answer_bytes(results)):
            # Send an empty response without changing the session: the client repeats the fetch.
            response.session_id = 0 if session is None else session.session_id
            self._call.reply(response)
            return
        if session is not None:
            session_id = session.session_id
        elif context.wants_session:
            if self._unknown:  # as in Kafka, a new session has its partitions in response order
                context.targets = [fetched.target for fetched in chain(results, self._unknown)]
            session_id = self._broker.fetch_sessions.open(
                context, self._broker.client_clock.now_ms()
            )
        last_topic: FetchableTopicResponse | None = None
        last_name: str | bytes | None = None
        for fetched in chain(results, self._unknown):
            yield
            target, error, high_watermark, last_stable_offset, log_start_offset, records, *_ = (
                fetched
            )
            if (
                session_id
                and not target.has_news(error, high_watermark, log_start_offset, len(records))
                and fetched.diverging is None
            ):
                if session is not None:
                    continue
            elif records and session is not None:
                session.move_to_end(target)
            if last_topic is None or target.topic != last_name:
                last_name = target.topic
                last_topic = _topic_response(last_name)
                response.responses.append(last_topic)
            data = PartitionData(
                partition_index=target.partition,
                error_code=error,
                high_watermark=high_watermark,
                last_stable_offset=last_stable_offset,
                log_start_offset=log_start_offset,
                aborted_transactions=fetched.aborted,
                records=records,
            )
            if fetched.diverging is not None:
                epoch, end_offset = fetched.diverging
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            last_topic.partitions.append(data)
        response.session_id = session_id
        if self._call.api_version >= _FIRST_VERSION_WITH_LEADERS and [
            fetched for fetched in results if fetched.error
        ]:
            yield from self._name_leaders(response)
        self._call.reply(response)
        for done in (results, self._unknown, self._to_read, context.targets):
            # Free a large list in steps, because freeing it at once would block the event loop.
            while isinstance(done, list) and len(done) > MANY_PARTITIONS:
                del done[-MANY_PARTITIONS:]
                yield

    def _name_leaders(self, response: FetchResponse) -> Steps:
        """Add the current leaders of partitions that this broker does not lead (KIP-951)."""
        named: set[int] = set()
        for answered in response.responses:
            for data in answered.partitions:
                yield
                if data.error_code not in _LEADER_IS_NEWS:
                    continue
                topic = self._broker.topics.topic_by_id(answered.topic_id)
                if topic is None:
                    continue
                partition = topic.partitions[data.partition_index]
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=partition.leader_id, leader_epoch=partition.known_epoch
                )
                named.add(partition.leader_id)
        if not named or self._is_replica:  # Kafka sends endpoints only to consumers
            return
        response.node_endpoints = [
            NodeEndpoint(
                node_id=fetched.node_id, host=fetched.host, port=fetched.port, rack=fetched.rack
            )
            for fetched in self._broker.endpoints(self._call.connection)
            if fetched.node_id in named
        ]

    def _is_unchanged(self, partition: Partition, before: _PartitionResult) -> bool:
        """Return whether an empty partition still has no data and the same log start offset."""
        if partition.is_deleted or partition.leader_id != self._node_id or before.records:
            return False
        try:
            log = partition.log
        except StorageError:
            return False
        return (
            log.log_end_offset == before.high_watermark
            and log.log_start_offset == before.log_start_offset
        )


def _topic_response(topic: str | bytes) -> FetchableTopicResponse:
    if isinstance(topic, bytes):
        return FetchableTopicResponse(topic_id=topic)
    return FetchableTopicResponse(topic=topic)


def _aborted_in(log: PartitionLog, start: int, records: bytes) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap these batches (KIP-98)."""
    aborted = log.aborted_transactions(start, log.last_stable_offset)
    if aborted:  # compute the end offset only if needed: aborted transactions are rare
        aborted = log.aborted_transactions(start, end_offset_of(records))
    return [
        AbortedTransaction(producer_id=fetched.producer_id, first_offset=fetched.first_offset)
        for fetched in aborted
    ]


class _Fetched(Protocol):
    """A fetched partition with its records."""

    @property
    def records(self) -> bytes | memoryview | None:
        """Encoded record batches."""


def answer_bytes(results: Collection[_Fetched]) -> int:
    """Return the approximate size of a fetch response in bytes."""
    return _ANSWER_BYTES + sum(
        [_PARTITION_BYTES + len(fetched.records or b"") for fetched in results]
    )


def _diverging(target: FetchTarget, log: PartitionLog) -> tuple[int, int] | None:
    """Return the epoch and end offset where the reader's log diverges (KIP-595), or None."""
    epoch, end_offset = log.end_offset_of_epoch(target.last_fetched_epoch)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return epoch, end_offset
    return None


def _failed(target: FetchTarget, error: ErrorCode) -> _PartitionResult:
    return _PartitionResult(target, error, -1, -1, -1)


def _unread(target: FetchTarget, error: ErrorCode) -> _PartitionResult:
    return _PartitionResult(target, error, -1, -1, -1, aborted=[])
