"""TransactionCoordinator: serves the transactional ids of a broker.

An id belongs to the partition of `__transaction_state` that it hashes to; the broker that leads the
partition serves the id once the partition is loaded. `submit` lets the core (`core.transactions`)
decide about an id, appends the resulting record and makes that record the state. All of this is
synchronous, so an id needs no lock and no mailbox. Ending a transaction continues in steps: markers
to all partitions (`coordinator.markers`), then the record that completes the transaction; until
then the core refuses requests with CONCURRENT_TRANSACTIONS. Source: TransactionCoordinator,
TransactionStateManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.coordinator.transactions_partition import TransactionsPartition
from coordinator_server.core.transactions.add_partitions import add_partitions, missing_partitions
from coordinator_server.core.transactions.end_transaction import completed, end_transaction, fence
from coordinator_server.core.transactions.metadata import (
    TRANSACTIONS_V2,
    TopicPartition,
    TransactionDecision,
    TransactionMetadata,
    TransactionState,
    is_expired,
    refused,
)
from coordinator_server.events.log import LOG
from coordinator_server.runtime.coordinator import CoordinatorRuntime
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.topics.names import TRANSACTIONS_TOPIC
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock, Scheduler
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.coordinator.markers import Markers
    from coordinator_server.core.transactions.settings import TransactionSettings
    from coordinator_server.events.log import EventLog
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.producer_ids import ProducerIdManager
    from coordinator_server.topics.topic import Partition, Topic

    Decide = Callable[[TransactionMetadata | None, int], TransactionDecision]
    """`decide(metadata of the id or None, now_ms)`; raises StorageError if no producer id can be
    stored."""

    Done = Callable[[TransactionDecision], None]

_RETRY_MS = 100
"""Delay before a failed write of a marker or of the completing record is retried."""

_ENDED_OTHERWISE = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    )
)
"""Errors of a marker that is not needed: the partition was deleted, or a newer epoch of the
producer or coordinator has ended the transaction."""

_IDS_PER_STEP = 500
"""Ids that one maintenance step checks."""


class TransactionalId:
    """The state of one transactional id, and the requests that wait for its transaction to end.

    `ending` is the commit or abort whose markers are being written, or None. `waiting` has the
    decision of each waiting request, with the function that answers the request.
    """

    __slots__ = ("ending", "metadata", "partition", "waiting")

    def __init__(self, metadata: TransactionMetadata, partition: TransactionsPartition) -> None:
        self.metadata = metadata
        self.partition = partition
        self.ending: Ending | None = None
        self.waiting: list[tuple[TransactionDecision, Done]] = []


class Ending:
    """A commit or abort whose markers are being written.

    `metadata` is the state of the transactional id when commit or abort was decided. `marker` is
    written to every partition in `unmarked`.
    """

    __slots__ = ("entry", "is_retrying", "marker", "metadata", "unmarked")

    def __init__(self, entry: TransactionalId) -> None:
        metadata = self.metadata = entry.metadata
        self.entry = entry
        self.unmarked: set[TopicPartition] = set(metadata.partitions)
        self.is_retrying = False
        self.marker = EndTransaction(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            commits=metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=entry.partition.coordinator_epoch,
            transaction_version=metadata.client_version,
        )


class TransactionCoordinator(CoordinatorRuntime[TransactionsPartition, TransactionMetadata]):
    """All transactional ids of a broker, by id in `ids`.

    `marker_scheduler` runs retries of markers, in the machine's time. `peer(node_id)` returns the
    coordinator of another broker of this process, or None if that broker is not running.
    """

    keys = "transactional ids"

    def __init__(
        self,
        settings: TransactionSettings,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        transactions_topic: CoordinatorTopic,
        producer_ids: ProducerIdManager,
        markers: Markers,
        marker_scheduler: Scheduler,
        *,
        node_id: int,
        peer: Callable[[int], TransactionCoordinator | None],
        log: EventLog = LOG,
    ) -> None:
        super().__init__(clock, step_runner, topics, transactions_topic, node_id=node_id, log=log)
        self.ids: dict[str, TransactionalId] = {}
        self.settings = settings
        self.producer_ids = producer_ids
        self._markers = markers
        self._marker_scheduler = marker_scheduler
        self._peer = peer
        self.committed = self.aborted = self.timed_out = 0
        """The transactions that have ended here, and those aborted because of their timeout."""

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start loading ids from the log and checking for timeouts and expired ids."""
        super().start()
        self._repeat(self.abort_timed_out, self.settings.abort_interval_ms)
        self._repeat(self.remove_expired, self.settings.expiration_interval_ms)

    def take_over(self, partition: Partition) -> TransactionsPartition:
        """Return the transactions of a partition that this broker now leads."""
        return TransactionsPartition(partition, self.clock)

    def _load(
        self, partition: TransactionsPartition, loaded: dict[str, TransactionMetadata]
    ) -> Steps:
        yield from partition.load(loaded)

    def _unload(self, closing: set[TransactionsPartition]) -> None:
        for partition in closing:
            partition.state = PartitionState.CLOSED
        for transactional_id, entry in tuple(self.ids.items()):
            if entry.partition in closing:
                del self.ids[transactional_id]
                self._answer(entry, ErrorCode.NOT_COORDINATOR)

    def _forget(self, topics: Mapping[str, Topic]) -> None:
        """Do nothing: `coordinator.markers` skips the partitions of deleted topics."""

    def _serve(
        self,
        partition: TransactionsPartition,
        loaded: dict[str, TransactionMetadata],
        elapsed_ms: int,
    ) -> None:
        """Serve the ids of a loaded partition and resume transactions that were ending."""
        for transactional_id, metadata in loaded.items():
            entry = self.ids[transactional_id] = TransactionalId(metadata, partition)
            if metadata.state.is_ending:
                self._end(entry)
        self.log.emit(
            "coordinator.loaded",
            topic=TRANSACTIONS_TOPIC,
            partition=partition.index,
            transactional_ids=len(loaded),
            elapsed_ms=elapsed_ms,
        )

    # --- requests ---------------------------------------------------------------------------------

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state of a loaded transactional id, or None if the id does not exist."""
        entry = self.ids.get(transactional_id)
        return None if entry is None else entry.metadata

    def pending_partitions(self, transactional_id: str) -> Collection[TopicPartition]:
        """Return the partitions of a loaded id that still need a marker.

        For an open transaction these are all its partitions.
        """
        entry = self.ids[transactional_id]
        return entry.metadata.partitions if entry.ending is None else entry.ending.unmarked

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commits: bool,
        client_version: int,
        done: Done,
    ) -> None:
        """Commit or abort the open transaction of a producer.

        `done` is called when every partition of the transaction has its marker, or with the error.
        """

        def decide(metadata: TransactionMetadata | None, now_ms: int) -> TransactionDecision:
            return end_transaction(
                metadata,
                producer_id,
                producer_epoch,
                commits=commits,
                client_version=client_version,
                now_ms=now_ms,
                new_producer_id=self.new_producer_id,
            )

        self._submit(transactional_id, decide, done, waits_for_end=True)

    def submit(self, transactional_id: str, decide: Decide, done: Done) -> None:
        """Let the core decide about an id, append the record, then call `done`."""
        self._submit(transactional_id, decide, done, waits_for_end=False)

    def _submit(
        self, transactional_id: str, decide: Decide, done: Done, *, waits_for_end: bool
    ) -> None:
        """Like `submit`; with `waits_for_end`, `done` is called once the transaction has ended."""
        partition, error = self.partition_of(transactional_id)
        if partition is None or error is not ErrorCode.NONE:
            done(refused(error))
            return
        try:
            decision = decide(self.metadata(transactional_id), self.clock.now_ms())
        except StorageError:
            # The producer id block could not be stored; the client retries.
            decision = refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.carry_out(
            partition,
            decision,
            partial(self._append, partition, transactional_id),
            partial(self._written, transactional_id, done, waits_for_end=waits_for_end),
        )

    def _append(
        self, partition: TransactionsPartition, transactional_id: str, metadata: TransactionMetadata
    ) -> ErrorCode:
        """Append the state of an id; if that succeeds, make it the current state."""
        error = partition.append(transactional_id, metadata)
        if error is ErrorCode.NONE:
            entry = self.ids.get(transactional_id)
            if entry is None:
                self.ids[transactional_id] = TransactionalId(metadata, partition)
            else:
                entry.metadata = metadata
        return error

    def _written(
        self,
        transactional_id: str,
        done: Done,
        decision: TransactionDecision,
        error: ErrorCode,
        _reason: str,
        *,
        waits_for_end: bool,
    ) -> None:
        """Start writing markers if the decision ends the transaction, and call `done`."""
        metadata, entry = decision.record, self.ids.get(transactional_id)
        if metadata is None or not metadata.state.is_ending:
            done(decision if error is ErrorCode.NONE else refused(error))
        elif entry is None or entry.metadata is not metadata:
            # The append failed, or the transactional id moved to another broker: do not write
            # markers here.
            done(refused(ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error))
        else:
            if waits_for_end:
                entry.waiting.append((decision, done))
            self._end(entry)
            if not waits_for_end:
                done(decision if error is ErrorCode.NONE else refused(error))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Check with the id's coordinator that its transaction contains these partitions.

        `adds` adds missing partitions (transactions v2). `done` gets NONE, TRANSACTION_ABORTABLE if
        a partition was not added, or the coordinator's error. `done` is called before `verify`
        returns, unless a record must be flushed first. Source: AddPartitionsToTxnManager.
        """
        error = self.ensure_topic() if transactional_id else ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            done(error)
            return
        peer = self._peer(self.coordinator_of(transactional_id))
        if peer is None:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def decide(metadata: TransactionMetadata | None, now_ms: int) -> TransactionDecision:
            if adds:
                return add_partitions(
                    metadata, producer_id, producer_epoch, partitions, TRANSACTIONS_V2, now_ms
                )
            error, missing = missing_partitions(metadata, producer_id, producer_epoch, partitions)
            if error is ErrorCode.NONE and missing:
                error = ErrorCode.TRANSACTION_ABORTABLE
            return refused(error)

        peer.submit(transactional_id, decide, lambda decision: done(decision.error))

    def is_open_in(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
    ) -> bool:
        """Return whether the id's open transaction contains this partition, on any broker."""
        if not self._topic.partitions:
            return False
        peer = self._peer(self.coordinator_of(transactional_id))
        metadata = None if peer is None else peer.metadata(transactional_id)
        return (
            metadata is not None
            and metadata.state is TransactionState.ONGOING
            and metadata.producer_id == producer_id
            and metadata.producer_epoch == producer_epoch
            and topic_partition in metadata.partitions
        )

    def new_producer_id(self) -> int:
        """Return an unused producer id. Raises StorageError if the id block cannot be stored."""
        return self.producer_ids.next_id()

    # --- commit and abort -------------------------------------------------------------------------

    # A transaction ends in stages: `_end`, `_write_markers`, then `_complete` after the last
    # `_marker_written`.

    def _end(self, entry: TransactionalId) -> None:
        """Write the markers of a transaction that is ending, then the completing record."""
        entry.ending = Ending(entry)
        self._write_markers(entry.ending)

    def _is_current(self, ending: Ending) -> bool:
        """Return whether this broker is still responsible for ending this transaction."""
        entry, metadata = ending.entry, ending.metadata
        return self.ids.get(metadata.transactional_id) is entry and entry.metadata is metadata

    def _write_markers(self, ending: Ending) -> None:
        """Write the missing markers in steps; all may be written before this method returns."""
        ending.is_retrying = False
        if ending.unmarked:
            self.step_runner.run_now(self._write_each_marker(ending))
        else:
            self._complete(ending)

    def _write_each_marker(self, ending: Ending) -> Iterator[None]:
        for topic_partition in sorted(ending.unmarked):
            if not self._is_current(ending):
                return
            written = partial(self._marker_written, ending, topic_partition)
            self._markers.write(topic_partition, ending.marker, written)
            yield

    def _marker_written(
        self, ending: Ending, topic_partition: TopicPartition, error: ErrorCode
    ) -> None:
        """Complete the transaction after its last marker; write a marker that failed again."""
        if error is ErrorCode.NONE or error in _ENDED_OTHERWISE:
            if topic_partition in ending.unmarked:
                ending.unmarked.remove(topic_partition)
                if not ending.unmarked:
                    self._complete(ending)
        elif not ending.is_retrying and self._is_current(ending):
            ending.is_retrying = True
            retry = partial(self._write_markers, ending)
            self._marker_scheduler.call_later(_RETRY_MS / 1000, retry)

    def _complete(self, ending: Ending) -> None:
        """Append the completing record after all markers are written, retrying on errors."""
        if not self._is_current(ending):
            return
        entry, metadata = ending.entry, ending.metadata
        ended = completed(metadata, self.clock.now_ms())
        error = entry.partition.append(metadata.transactional_id, ended)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return  # the new coordinator completes the transaction
        if error is not ErrorCode.NONE:
            self.clock.call_later(_RETRY_MS / 1000, partial(self._complete, ending))
            return
        entry.metadata, entry.ending = ended, None
        if metadata.partitions:  # without an open transaction, the producer gets a new epoch
            is_commit = ended.state is TransactionState.COMPLETE_COMMIT
            self.committed += is_commit
            self.aborted += not is_commit
        self.log.emit(
            "transaction.ended",
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            state=ended.state.label,
            partitions=len(metadata.partitions),
            elapsed_ms=ended.last_update_ms - metadata.start_ms,
        )
        self._answer(entry, ErrorCode.NONE)

    @staticmethod
    def _answer(entry: TransactionalId, error: ErrorCode) -> None:
        waiting, entry.waiting = entry.waiting, []
        for decision, done in waiting:
            done(decision if error is ErrorCode.NONE else refused(error))

    # --- timeouts ---------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort every transaction that exceeds its producer's transaction timeout."""
        self.step_runner.run(self._abort_timed_out())

    def _abort_timed_out(self) -> Iterator[None]:
        for number, (transactional_id, entry) in enumerate(tuple(self.ids.items()), start=1):
            if entry.metadata.is_timed_out(self.clock.now_ms()):
                self.log.emit(
                    "transaction.expired",
                    transactional_id=transactional_id,
                    producer_id=entry.metadata.producer_id,
                    timeout_ms=entry.metadata.timeout_ms,
                )
                self.timed_out += 1
                self.submit(transactional_id, self._fence_timed_out, _ignore)
                yield
            if not number % _IDS_PER_STEP:
                yield

    def _fence_timed_out(
        self, metadata: TransactionMetadata | None, now_ms: int
    ) -> TransactionDecision:
        """Decide to abort a transaction, if it is still timed out."""
        if metadata is None or not metadata.is_timed_out(now_ms):
            return TransactionDecision(ErrorCode.NONE)
        return TransactionDecision(ErrorCode.NONE, fence(metadata, now_ms, self.new_producer_id))

    def remove_expired(self) -> None:
        """Remove ids that have been unused for `transactional.id.expiration.ms`."""
        self.step_runner.run(self._remove_expired())

    def _remove_expired(self) -> Iterator[None]:
        expiration_ms = self.settings.id_expiration_ms
        for number, (transactional_id, entry) in enumerate(tuple(self.ids.items()), start=1):
            if is_expired(entry.metadata, self.clock.now_ms(), expiration_ms):
                error = entry.partition.append(transactional_id, None)
                if error is ErrorCode.NONE and self.ids.get(transactional_id) is entry:
                    del self.ids[transactional_id]
                    self.log.emit("transactional_id.expired", transactional_id=transactional_id)
                yield
            if not number % _IDS_PER_STEP:
                yield


def _ignore(_: TransactionDecision) -> None:
    """Ignore the result: the next check retries."""
