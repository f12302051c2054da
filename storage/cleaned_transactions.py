"""Transactions as a pass of compaction walks by (Kafka's CleanedTransactionMetadata).

Which batches were aborted, and which markers nothing depends on any more. A marker stays as long as
the walk meets a batch of its transaction in front of it, even one that goes in this very pass: so
no state of the log, in whatever order its segments are replaced, has records without their marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from protocol.batch_header import BatchHeader
from protocol.control_record import EndMarker
from storage.transaction_index import AbortedTxn


class CleanedTransactions:
    """What is known at one point of a walk over batches in the order of their offsets.

    `retained` are the aborted transactions of which a batch was met, as their markers come by: the
    entries of the new transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTxn], start: int) -> None:
        """`aborted`: of the whole log; `start`: the first offset of the walk."""
        ahead = sorted(
            (transaction for transaction in aborted if transaction.last_offset >= start),
            key=lambda transaction: transaction.first_offset,
        )
        self._ahead = deque(ahead)
        # By producer id: what is aborted here, and whether a batch of it was met.
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        # Producers of which a batch was met that is not aborted.
        self._others: set[int] = set()
        self.retained: list[AbortedTxn] = []

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Take in a batch; return whether its records were aborted."""
        if batch.is_control or not batch.is_transactional:
            return False
        self._advance(batch)
        producer_id = batch.producer_id
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._others.add(producer_id)
        return False

    def is_spent(self, batch: BatchHeader, marker: EndMarker | None) -> bool:
        """Take in a control batch; return whether no batch of its transaction was met."""
        self._advance(batch)
        if marker is None:
            return not batch.record_count  # emptied by an earlier pass; else no transaction's
        producer_id = batch.producer_id
        if marker.commits:
            was_met = producer_id in self._others
            self._others.discard(producer_id)
            return not was_met
        ended = self._aborted.pop(producer_id, None)
        if ended is None or producer_id not in self._met:
            return True
        self._met.discard(producer_id)
        self.retained.append(ended)
        return False

    def _advance(self, batch: BatchHeader) -> None:
        """Let the transactions begin that begin in this batch or before it."""
        while self._ahead and self._ahead[0].first_offset <= batch.last_offset:
            begun = self._ahead.popleft()
            self._aborted[begun.producer_id] = begun
