"""Find the owner and start of open transactions in `__transaction_state` of a log directory.

Transaction coordinators store their state in this topic. A directory has only the partitions of
which its broker holds a replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap

from pipeline.sources.batches import CorruptRange, batches_and_corruption
from pipeline.sources.logdir import SegmentFile, partitions_of, segments_of
from pipeline.sources.source import Holder
from protocol.batch import Record, iterate_records
from protocol.errors import ProtocolError
from protocol.transaction_log import decode_transaction_key, decode_transaction_value

TRANSACTIONS_TOPIC = "__transaction_state"
_UNDER_WAY = (1, 2, 3)
"""Ongoing, PrepareCommit and PrepareAbort of Kafka's TransactionState: markers may still be
missing."""


def holders_of(log_dir: str, producer_ids: set[int]) -> dict[int, Holder]:
    """Return the transactional id and start time of each producer whose record is found.

    `since_ms` is null if the producer's last record has no open transaction. Raises the InputError
    of `pipeline.sources.logdir.all_partitions`.
    """
    holders: dict[int, Holder] = {}
    if not producer_ids:
        return holders
    for partition in partitions_of(log_dir, TRANSACTIONS_TOPIC):
        for segment in segments_of(partition):
            for record in _records_about(segment, producer_ids):
                if record.key is None or record.value is None:
                    continue
                try:
                    name = decode_transaction_key(record.key).transactional_id
                    value, _ = decode_transaction_value(record.value)
                except ProtocolError:
                    continue
                if value.producer_id in producer_ids:
                    begin_ms = value.transaction_start_timestamp_ms
                    is_open = value.transaction_status in _UNDER_WAY and begin_ms >= 0
                    holders[value.producer_id] = Holder(name, begin_ms if is_open else None)
    return holders


def _records_about(segment: SegmentFile, producer_ids: set[int]) -> Iterator[Record]:
    """Yield the records of batches that contain one of the producer ids in their bytes.

    Coordinators never compress (TransactionLog.EnforcedCompression), so a segment or batch without
    the bytes of an id has no record of this producer and need not be decoded.
    """
    wanted = [one.to_bytes(8, "big") for one in producer_ids]
    try:
        with open(segment.path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):  # compaction has swapped the file, or the file is empty
        return
    with data:
        if not any(data.find(one) >= 0 for one in wanted):
            return
        end = min(len(data), segment.size_bytes)
        for batch in batches_and_corruption(data, 0, end, segment.base_offset):
            if isinstance(batch, CorruptRange) or batch.is_control:
                continue
            if any(data.find(one, batch.position, batch.end) >= 0 for one in wanted):
                try:
                    yield from iterate_records(data, batch)
                except ProtocolError:  # skip the batch: the others are still useful
                    continue
