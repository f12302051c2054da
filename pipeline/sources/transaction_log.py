"""Whose an open transaction is, and since when, from `__transaction_state` of a log directory.

That topic is the memory of the transaction coordinators; a directory holds those of its partitions
that its broker has a replica of.
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
"""Ongoing, PrepareCommit, PrepareAbort of Kafka's TransactionState: its markers are not written."""


def holders_of(log_dir: str, producer_ids: set[int]) -> dict[int, Holder]:
    """The transactional ids of producers, as far as their records are there, by producer id.

    `since_ms` is null where the last record has no transaction under way. InputError as
    `pipeline.sources.logdir.all_partitions` raises it.
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
    """The records of the batches with one of the ids in their bytes.

    Coordinators never compress (TransactionLog.EnforcedCompression), so an id that is not among
    the bytes of a segment or of a batch is not in its records, and need not be decoded.
    """
    wanted = [one.to_bytes(8, "big") for one in producer_ids]
    try:
        with open(segment.path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):  # swapped meanwhile, or empty
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
                except ProtocolError:  # what can be read of the others is better than nothing
                    continue
