"""Tracks transactions during a compaction (Kafka's CleanedTransactionMetadata).

Compaction needs to know which batches were aborted, and which markers are no longer needed. A
marker is kept while a batch of its transaction precedes it, even a batch that this compaction
removes. So records never lose their marker, in whatever order segments are replaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from protocol.batch_header import BatchHeader
from protocol.control_record import EndMarker
from storage.transaction_index import AbortedTxn


class CleanedTransactions:
    """The state of transactions at one point of a walk over batches in offset order.

    `retained` has the aborted transactions that still have a batch, in the order of their markers:
    the entries of the new transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTxn], start: int) -> None:
        """Start a walk at offset `start`; `aborted` are all aborted transactions of the log."""
        ahead = sorted(
            (transaction for transaction in aborted if transaction.last_offset >= start),
            key=lambda transaction: transaction.first_offset,
        )
        self._ahead = deque(ahead)
        # `_aborted`: open aborted transactions by producer id. `_met`: the producers in `_aborted`
        # of which a batch was found.
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        # Producers with a batch of a committed or open transaction.
        self._others: set[int] = set()
        self.retained: list[AbortedTxn] = []

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Process the next batch; return whether its records were aborted."""
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
        """Process a control batch; return whether it can be removed.

        A marker can be removed if no batch of its transaction is left.
        """
        self._advance(batch)
        if marker is None:
            return not batch.record_count  # an earlier compaction may have emptied the batch
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
        """Begin the aborted transactions that start in this batch or before."""
        while self._ahead and self._ahead[0].first_offset <= batch.last_offset:
            begun = self._ahead.popleft()
            self._aborted[begun.producer_id] = begun
