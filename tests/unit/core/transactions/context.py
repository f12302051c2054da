"""A transactional id to which the decisions of the core are applied at once."""

from __future__ import annotations

from itertools import count

from coordinator_server.core.transactions.add_partitions import add_partitions
from coordinator_server.core.transactions.end_transaction import completed, end_transaction
from coordinator_server.core.transactions.init_producer_id import (
    ProducerIdAndEpoch,
    init_producer_id,
)
from coordinator_server.core.transactions.metadata import (
    TRANSACTIONS_V1,
    TRANSACTIONS_V2,
    TransactionDecision,
    TransactionMetadata,
    from_value,
)
from protocol.errors import ErrorCode
from protocol.transaction_log import decode_transaction_value, encode_transaction_value

V1, V2 = TRANSACTIONS_V1, TRANSACTIONS_V2
T0, T1 = ("topic", 0), ("topic", 1)


class TransactionContext:
    """A coordinator of one id, without a log and without markers.

    Every state is encoded and decoded, as in a restart, unless `is_durable` is False.
    """

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.metadata: TransactionMetadata | None = None
        self._ids = count(7000)
        self.is_durable = True

    @property
    def state(self) -> TransactionMetadata:
        """Return the metadata, which must exist."""
        assert self.metadata is not None
        return self.metadata

    def new_producer_id(self) -> int:
        """Return the next producer id, from 7000 on."""
        return next(self._ids)

    def init(
        self, producer_id: int = -1, producer_epoch: int = -1, timeout_ms: int = 60_000
    ) -> TransactionDecision:
        """Return the decision on InitProducerId, optionally of a producer with an id and epoch."""
        metadata = self.metadata or TransactionMetadata("id", self.new_producer_id())
        expected = ProducerIdAndEpoch(producer_id, producer_epoch) if producer_id >= 0 else None
        return self._apply(
            init_producer_id(metadata, timeout_ms, expected, self.now_ms, self.new_producer_id)
        )

    def begin(self) -> tuple[int, int]:
        """Start a producer; return its id and epoch."""
        decision = self.init()
        assert decision.error is ErrorCode.NONE
        return decision.producer_id, decision.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = V1
    ) -> TransactionDecision:
        """Return the decision on AddPartitionsToTxn."""
        return self._apply(
            add_partitions(self.metadata, *producer, partitions or (T0,), version, self.now_ms)
        )

    def end(
        self, producer: tuple[int, int], *, commits: bool = True, version: int = V1
    ) -> TransactionDecision:
        """Return the decision on EndTxn; the markers are not written yet."""
        return self._apply(
            end_transaction(
                self.metadata,
                *producer,
                commits=commits,
                client_version=version,
                now_ms=self.now_ms,
                new_producer_id=self.new_producer_id,
            )
        )

    def complete(self) -> None:
        """Complete the transaction, as when its markers have been written."""
        self._become(completed(self.state, self.now_ms))

    def _apply(self, decision: TransactionDecision) -> TransactionDecision:
        if decision.record is not None:
            self._become(decision.record)
        return decision

    def _become(self, metadata: TransactionMetadata) -> None:
        value, _ = decode_transaction_value(encode_transaction_value(metadata.to_value()))
        replayed = from_value("id", value)
        assert replayed == metadata._replace(last_producer_epoch=-1)
        self.metadata = replayed if self.is_durable else metadata
