"""TransactionCoordinator: the transactional ids of a broker, and the one way to each of them.

An id belongs to the partition of `__transaction_state` that it hashes to, and is served by the
broker that leads the partition, once it is loaded. `submit` takes a decision of the core
(`core.transactions`) to it: the record that it asks for is appended, and becomes the state. Nothing
waits in between, so an id needs no lock and no mailbox. A decided end goes on in
steps: markers into all partitions (`coordinator.markers`), then the record that ends it; until then
the core refuses what comes with CONCURRENT_TRANSACTIONS. Source: TransactionCoordinator,
TransactionStateManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.coordinator.transactions_partition import TransactionsPartition
from coordinator_server.core.transactions.add_partitions import add_partitions, missing_partitions
from coordinator_server.core.transactions.decision import TransactionDecision, refused
from coordinator_server.core.transactions.end_transaction import completed, fence
from coordinator_server.core.transactions.expiry import is_expired
from coordinator_server.core.transactions.metadata import (
    TRANSACTIONS_V2,
    TopicPartition,
    TransactionMetadata,
)
from coordinator_server.core.transactions.state import TransactionState
from coordinator_server.events.log import LOG
from coordinator_server.runtime.coordinator import CoordinatorRuntime
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.topics.names import TRANSACTIONS_TOPIC
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock
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
    """`decide(metadata of the id or None, now_ms)`; may raise StorageError for want of an id."""

_RETRY_MS = 100
"""When a marker or a record that could not be written is tried again."""

_IDS_PER_STEP = 500
"""Ids that a maintenance step looks at."""


class TransactionalId:
    """One id: its state, and who waits for the end of its transaction.

    While markers are written, `unmarked` has the partitions without one; otherwise it is None.
    """

    __slots__ = ("metadata", "partition", "unmarked", "waiting")

    def __init__(self, metadata: TransactionMetadata, partition: TransactionsPartition) -> None:
        self.metadata = metadata
        self.partition = partition
        self.unmarked: set[TopicPartition] | None = None
        self.waiting: list[Callable[[ErrorCode], None]] = []


class TransactionCoordinator(CoordinatorRuntime[TransactionsPartition, TransactionMetadata]):
    """All transactional ids of a broker, by id in `ids`.

    `peer(node_id)` is the coordinator of another broker of the process, None if that does not run.
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
        self._peer = peer

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load the ids that the log holds, and to look for what time ends."""
        super().start()
        self._repeat(self.abort_timed_out, self.settings.abort_interval_ms)
        self._repeat(self.remove_expired, self.settings.expiration_interval_ms)

    def _take_over(self, partition: Partition) -> TransactionsPartition:
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
        """Markers of topics that are gone are not written; see `coordinator.markers`."""

    def _serve(
        self,
        partition: TransactionsPartition,
        loaded: dict[str, TransactionMetadata],
        elapsed_ms: int,
    ) -> None:
        """Serve the ids of a partition that is loaded; ends that were under way go on."""
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
        """The state of an id that is loaded here; None for one that does not exist."""
        entry = self.ids.get(transactional_id)
        return None if entry is None else entry.metadata

    def pending_partitions(self, transactional_id: str) -> Collection[TopicPartition]:
        """The partitions of an id that is loaded here which have records without an end.

        That is those of its transaction, and once that is ending those without a marker.
        """
        entry = self.ids[transactional_id]
        return entry.metadata.partitions if entry.unmarked is None else entry.unmarked

    def submit(
        self,
        transactional_id: str,
        decide: Decide,
        done: Callable[[TransactionDecision], None],
        *,
        waits_for_end: bool = False,
    ) -> None:
        """Have the core decide about an id, write what it decides, and call `done` then.

        `waits_for_end`: a transaction that the decision ends has ended in all partitions by then.
        """
        partition, error = self.partition_of(transactional_id)
        if partition is None or error is not ErrorCode.NONE:
            done(refused(error))
            return
        try:
            decision = decide(self.metadata(transactional_id), self.clock.now_ms())
        except StorageError:
            # No producer id could be kept; the client tries again.
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
        """Write the state of an id; it is what the coordinator goes on with."""
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
        done: Callable[[TransactionDecision], None],
        decision: TransactionDecision,
        error: ErrorCode,
        _reason: str,
        *,
        waits_for_end: bool,
    ) -> None:
        """Go on with a decision that is in the log, unless `error` prevents it; and answer."""
        metadata, entry = decision.record, self.ids.get(transactional_id)
        if metadata is None or not metadata.state.is_ending:
            done(decision if error is ErrorCode.NONE else refused(error))
        elif entry is None or entry.metadata is not metadata:
            # Not appended; or the id has gone to another broker, which ends the transaction.
            done(refused(ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error))
        else:
            if waits_for_end:
                entry.waiting.append(
                    lambda error: done(decision if error is ErrorCode.NONE else refused(error))
                )
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
        """Whether the transaction of an id, whoever coordinates it, has these partitions.

        `adds` puts them there (transactions v2). `done` gets NONE; TRANSACTION_ABORTABLE for a
        partition that was not added; or the coordinator's error. It is called before this returns
        unless a record has to be synced. Source: AddPartitionsToTxnManager.
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
        """Whether the open transaction of an id, whoever coordinates it, has this partition."""
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
        """A producer id that was never given before. Raises StorageError when none can be kept."""
        return self.producer_ids.next_id()

    # --- the end of a transaction -----------------------------------------------------------------

    def _end(self, entry: TransactionalId) -> None:
        """Write the markers of a decided end, then the record that ends it."""
        metadata = entry.metadata
        end = EndTransaction(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            commits=metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=entry.partition.coordinator_epoch,
            transaction_version=metadata.client_version,
        )
        entry.unmarked = set(metadata.partitions)
        self._markers.write(
            end,
            entry.unmarked,
            is_current=lambda: self._is_current(entry, metadata),
            done=lambda: self._complete(entry, metadata),
        )

    def _is_current(self, entry: TransactionalId, metadata: TransactionMetadata) -> bool:
        """Whether this broker still is to end this transaction."""
        return self.ids.get(metadata.transactional_id) is entry and entry.metadata is metadata

    def _complete(self, entry: TransactionalId, metadata: TransactionMetadata) -> None:
        """All markers are written: write the end, now or as soon as the disk lets us."""
        if not self._is_current(entry, metadata):
            return
        ended = completed(metadata, self.clock.now_ms())
        error = entry.partition.append(metadata.transactional_id, ended)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return  # the next leader does it
        if error is not ErrorCode.NONE:
            self.clock.call_later(_RETRY_MS / 1000, lambda: self._complete(entry, metadata))
            return
        entry.metadata, entry.unmarked = ended, None
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
        for done in waiting:
            done(error)

    # --- what time ends ---------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort every transaction that is open for longer than its producer asked for."""
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
                self.submit(transactional_id, self._fence_timed_out, _ignore)
                yield
            if not number % _IDS_PER_STEP:
                yield

    def _fence_timed_out(
        self, metadata: TransactionMetadata | None, now_ms: int
    ) -> TransactionDecision:
        """Abort a transaction, if it still is timed out."""
        if metadata is None or not metadata.is_timed_out(now_ms):
            return TransactionDecision(ErrorCode.NONE)
        return TransactionDecision(ErrorCode.NONE, fence(metadata, now_ms, self.new_producer_id))

    def remove_expired(self) -> None:
        """Forget ids that nobody has used for `transactional.id.expiration.ms`."""
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
    """The next check tries again."""
