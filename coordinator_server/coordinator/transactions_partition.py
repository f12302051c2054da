"""One partition of `__transaction_state`: append and load the state of transactional ids.

Source: TransactionStateManager, TransactionLog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.metadata import from_value
from coordinator_server.runtime.loader import LogReader, SkippedRecords
from coordinator_server.runtime.partition import CoordinatorPartition
from coordinator_server.topics.names import TRANSACTIONS_TOPIC
from protocol.batch import Record, build_batch
from protocol.errors import ProtocolError
from protocol.raw_records import batch_records
from protocol.transaction_log import (
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)

if TYPE_CHECKING:
    from coordinator_server.core.transactions.metadata import TransactionMetadata
    from coordinator_server.steps import Steps
    from protocol.errors import ErrorCode

_STEP_IDS = 200


class TransactionsPartition(CoordinatorPartition):
    """One partition of the transactions topic on its leader."""

    __slots__ = ()

    topic = TRANSACTIONS_TOPIC

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch, written to markers so that markers of an earlier leader are refused."""
        return max(self._partition.known_epoch, self._epoch, 0)

    def append(self, transactional_id: str, metadata: TransactionMetadata | None) -> ErrorCode:
        """Append the state of one id, or a tombstone if None; return NONE or the error of the log.

        Returns NOT_LEADER_OR_FOLLOWER if another broker has become leader.
        """
        now_ms = self._clock.now_ms()
        value = None if metadata is None else encode_transaction_value(metadata.to_value())
        record = Record(0, now_ms, encode_transaction_key(transactional_id), value)
        return self.append_batch(build_batch([record]), now_ms)

    def load(self, loaded: dict[str, TransactionMetadata]) -> Steps:
        """Load the transactional ids from the log into `loaded`, in steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log has bytes that are
        no batch.
        """
        latest: dict[bytes, bytes | None] = {}
        reader, skipped = LogReader(self._partition.log), SkippedRecords()
        for data in reader.chunks():
            for header in reader.batches(data):
                for _, _, _, _, key, value, _ in batch_records(data, header):
                    latest[key or b""] = value
            yield
        for number, (key, value) in enumerate(latest.items()):
            if value is not None:
                try:
                    transactional_id = decode_transaction_key(key).transactional_id
                    decoded, _ = decode_transaction_value(value)
                    loaded[transactional_id] = from_value(transactional_id, decoded)
                except ProtocolError as error:
                    skipped.add(str(error))
            if not number % _STEP_IDS:
                yield
        skipped.log(self.topic, self.index)
