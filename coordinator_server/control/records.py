"""Control requests that write and read records.

Records take the same path as a client's batch: the log validates them, and waiting fetches wake up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coordinator_server.control.browse import (
    ANSWER_BYTES,
    MOST_PARTITIONS,
    Filters,
    Page,
    cursor,
    records_from,
    start_positions,
)
from coordinator_server.control.content import described, to_base64, to_bytes
from coordinator_server.control.errors import shown
from coordinator_server.control.local import status_of
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import ControlError, ControlRequest, natural_number
from coordinator_server.control.schema import is_text
from coordinator_server.control.topics import offsets_of, partition_at, partition_of, topic_of
from coordinator_server.topics.topic import BatchCheck
from protocol.batch import Record, build_batch
from protocol.batch_header import HEADER_BYTES, iterate_batches
from protocol.errors import ProtocolError
from protocol.hashing import partition_for_key
from storage.errors import RecordListTooLargeError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.batch_header import BatchHeader
    from storage.partition_log import AppendResult, PartitionLog

_BATCH_BYTES = 256 * 1024
"""Limit of a batch with several of a request's records; `max.message.bytes` can lower the limit."""

_FIELD_BYTES, _RECORD_BYTES = 5, 24
"""Limits of the sizes of a length, and of a record's other fields without key, value, headers."""

_READ_BYTES = 1024 * 1024
_INT64 = 1 << 63


# --- writing --------------------------------------------------------------------------------------


async def produce(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC/records: write records. Raises ControlError.

    The body is {"records": [{"key", "value", "headers", "partition", "timestamp_ms"}], "format"}.
    Without a partition the key determines the partition, as in Kafka's clients. Records without
    partition and key are distributed round-robin.
    """
    manager, name = request.cluster.topics, request.parameters["TOPIC"]
    body = await request.shaped()
    if manager.creation_error(name) is None and request.allows("CREATE", "TOPIC", name):
        await in_steps(manager.auto_create([name]))
    topic = topic_of(request)
    if topic.is_internal:
        raise ControlError(400, f"{name} is an internal topic")
    how = body.get("format", "base64")
    answers, written = await in_steps(_produced(request, topic, body["records"], how))
    await _flushed(written)
    return {"records": answers}


def _produced(
    request: ControlRequest, topic: Topic, wanted: Sequence[dict[str, Any]], how: str
) -> Computation[tuple[list[dict[str, int]], list[Partition]]]:
    """Write records in steps; return their places and the partitions.

    All batches are checked before the first one is written. Raises ControlError.
    """
    cluster = request.cluster
    now_ms = cluster.clock.now_ms()
    records: list[Record] = []
    by_partition: dict[int, list[int]] = {}
    for number, item in enumerate(wanted):
        record = yield from _record(item, now_ms, how)
        records.append(record)
        index = _partition_of(item, record.key, number, topic)
        by_partition.setdefault(index, []).append(number)
        yield
    checks: list[tuple[list[int], BatchCheck]] = []
    for index in sorted(by_partition):
        partition = topic.partitions[index]
        if partition.leader_id not in cluster.brokers:
            raise ControlError(503, f"no broker leads {topic.name}-{index}")
        for batch in _batches(by_partition[index], records, _batch_bytes(partition)):
            check = yield from _checked(partition, [records[number] for number in batch], now_ms)
            checks.append((batch, check))
            yield
    answers: list[dict[str, int]] = [{}] * len(wanted)
    for batch, check in checks:
        result = _append(check, now_ms)
        for place, number in enumerate(batch):
            timestamp_ms = records[number].timestamp_ms
            if result.log_append_time_ms >= 0:
                timestamp_ms = result.log_append_time_ms
            answers[number] = {
                "partition": check.partition.index,
                "offset": result.base_offset + place,
                "timestamp_ms": timestamp_ms,
            }
        yield
    return answers, [topic.partitions[index] for index in by_partition]


def _partition_of(item: dict[str, Any], key: bytes | None, number: int, topic: Topic) -> int:
    index: int | None = item.get("partition")
    count = len(topic.partitions)
    if index is None:
        return number % count if key is None else partition_for_key(key, count)
    if not 0 <= index < count:
        message = f"topic {topic.name} has no partition {index!r}, but {count} of them"
        raise ControlError(404, message)
    return index


def _record(item: dict[str, Any], now_ms: int, how: str) -> Computation[Record]:
    timestamp_ms = item.get("timestamp_ms")
    if timestamp_ms is None:
        timestamp_ms = now_ms
    if not 0 <= timestamp_ms < _INT64:
        raise ControlError(400, f"{timestamp_ms!r} is no timestamp in milliseconds")
    headers = []
    for pair in item.get("headers") or []:
        if len(pair) != 2 or not is_text(pair[0]):
            raise ControlError(400, f"a header is a name and a value, not {shown(pair)}")
        headers.append((pair[0], (yield from to_bytes(pair[1], how, "a header"))))
    key = yield from to_bytes(item.get("key"), how, "a key")
    value = yield from to_bytes(item.get("value"), how, "a value")
    return Record(0, timestamp_ms, key, value, headers)


def _batch_bytes(partition: Partition) -> int:
    """Return the size that the batches of several records do not exceed. Raises ControlError."""
    try:
        config = partition.log.config
    except StorageError as error:
        raise _refusal(partition, error) from error
    return min(_BATCH_BYTES, config.max_message_bytes, config.segment_bytes)


def _batches(
    numbers: Sequence[int], records: Sequence[Record], most_bytes: int
) -> Iterator[list[int]]:
    """Yield the numbers of the records of each batch."""
    batch: list[int] = []
    size_bytes = HEADER_BYTES
    for number in numbers:
        record_bytes = size_bound(records[number])
        if batch and size_bytes + record_bytes > most_bytes:
            yield batch
            batch, size_bytes = [], HEADER_BYTES
        batch.append(number)
        size_bytes += record_bytes
    if batch:
        yield batch


def size_bound(record: Record) -> int:
    """Return a size in bytes that a record in a batch does not exceed."""
    parts = [record.key or b"", record.value or b""]
    for name, value in record.headers:
        parts += (name.encode(), value or b"")
    return sum(map(len, parts)) + _FIELD_BYTES * len(parts) + _RECORD_BYTES


def _checked(partition: Partition, records: list[Record], now_ms: int) -> Computation[BatchCheck]:
    """Check a batch as the log checks batches of clients, in steps. Raises ControlError."""
    for offset, record in enumerate(records):
        record.offset = offset
    batch = build_batch(records)
    yield
    data = batch.to_bytes()
    yield
    try:
        most_bytes = partition.log.config.segment_bytes
        if len(data) > most_bytes:
            raise RecordListTooLargeError(f"{len(data)} bytes exceed {most_bytes}, segment.bytes")
        check = BatchCheck(partition, data, now_ms)
        check.run()
    except StorageError as error:
        raise _refusal(partition, error) from error
    return check


def _append(check: BatchCheck, now_ms: int) -> AppendResult:
    """Write a checked batch. Raises ControlError."""
    try:
        return check.partition.append_checked(check, now_ms)
    except StorageError as error:
        raise _refusal(check.partition, error) from error


def _refusal(partition: Partition, error: StorageError) -> ControlError:
    details = "; ".join(text for _, text in error.record_errors) or error
    place = f"{partition.topic_name}-{partition.index}"
    return ControlError(status_of(error.code), f"{place}: {error.code.name}: {details}")


async def _flushed(partitions: Sequence[Partition]) -> None:
    """Wait until the appended records are synced, if `flush.messages` requires a sync.

    Raises ControlError.
    """
    loop = asyncio.get_running_loop()
    waits: list[asyncio.Future[StorageError | None]] = []
    for partition in partitions:
        waits.append(loop.create_future())
        partition.after_flush(_resolve(waits[-1]))
    for wait in waits:
        error = await wait
        if error is not None:
            raise ControlError(500, str(error))


def _resolve(
    future: asyncio.Future[StorageError | None],
) -> Callable[[StorageError | None], None]:
    def done(error: StorageError | None) -> None:
        if not future.done():
            future.set_result(error)

    return done


# --- reading --------------------------------------------------------------------------------------


async def records(request: ControlRequest) -> dict[str, Any]:
    """GET /partitions/TOPIC/INDEX/records?offset=N&count=N: read up to `count` records.

    Reading starts at `offset`, or at the log start offset if that is larger. `next_offset` is the
    offset for the next request. Raises ControlError.
    """
    topic = topic_of(request)
    partition = partition_of(request, topic)
    try:
        shown, offset = await in_steps(
            _fetched(partition, request.values["offset"], request.values["count"])
        )
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"{topic.name}-{partition.index}: {error}") from error
    return {"records": shown, "next_offset": offset, **offsets_of(partition)}


def _fetched(
    partition: Partition, offset: int, count: int
) -> Computation[tuple[list[dict[str, Any]], int]]:
    """Return up to `count` records from `offset` on, and the next offset, in steps.

    The last record is the one that exceeds ANSWER_BYTES.
    """
    shown: list[dict[str, Any]] = []
    size_bytes = 0
    log = partition.log
    offset = max(offset, log.log_start_offset)
    while offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, up_to=log.high_watermark)
        before = offset
        for batch in iterate_batches(data):
            for record in records_from(data, batch, offset):
                if record is not None:
                    if len(shown) == count or size_bytes >= ANSWER_BYTES:
                        return shown, record.offset
                    shown.append((yield from _encoded(record)))
                    size_bytes += size_bound(record)
                yield
            offset = max(offset, batch.next_offset)
        if offset == before or len(shown) == count or size_bytes >= ANSWER_BYTES:
            break
    return shown, offset


def _encoded(record: Record) -> Computation[dict[str, Any]]:
    headers = []
    for name, value in record.headers:
        headers.append([name, (yield from to_base64(value))])
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": (yield from to_base64(record.key)),
        "value": (yield from to_base64(record.value)),
        "headers": headers,
    }


async def browse(request: ControlRequest) -> dict[str, Any]:
    """GET /topics/TOPIC/records: read records of all partitions or of one. Raises ControlError."""
    topic, values = topic_of(request), request.values
    partitions: Sequence[Partition] = topic.partitions
    if values["partition"] is not None:
        partitions = [partition_at(topic, str(values["partition"]))]
    elif len(partitions) > MOST_PARTITIONS:
        text = f"topic {topic.name} has {len(partitions)} partitions: choose one, partition=N"
        raise ControlError(400, text)
    try:
        positions = await in_steps(start_positions(partitions, values))
        page = Page(partitions, positions, _filters(values))
        await in_steps(page.read(values["limit"], values["format"], values["max_bytes"]))
        tail = cursor(page.positions)
        next_page = None if page.is_at_end else tail
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"topic {topic.name}: {error}") from error
    return {"records": page.records, "scanned": page.scanned, "next": next_page, "tail": tail}


def _filters(values: Mapping[str, Any]) -> Filters:
    key, value = (
        None if text is None else text.encode("utf-8", "surrogateescape")
        for text in (values["key"], values["value"])
    )
    return Filters(key, value, values["header"])


async def record(request: ControlRequest) -> dict[str, Any]:
    """GET /partitions/TOPIC/INDEX/records/OFFSET: read one record. Raises ControlError."""
    topic = topic_of(request)
    partition, offset = partition_of(request, topic), natural_number(request.parameters["OFFSET"])
    place = f"{topic.name}-{partition.index}"
    how, most = request.values["format"], request.values["max_bytes"]
    try:
        log = partition.log
        offsets = f"{log.log_start_offset} to {log.high_watermark - 1}"
        entry = None
        if offset is not None and log.log_start_offset <= offset < log.high_watermark:
            entry = await in_steps(_record_at(log, offset))
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"{place}: {error}") from error
    if entry is not None:
        return await in_steps(described(entry[0], partition.index, entry[1], how, most))
    text = f"{place} has no record at offset {request.parameters['OFFSET']}, its offsets: {offsets}"
    raise ControlError(404, text)


def _record_at(log: PartitionLog, offset: int) -> Computation[tuple[Record, BatchHeader] | None]:
    """Return the record at an offset with its batch, in steps; None in a gap of the log."""
    data = log.read(offset, 1, up_to=log.high_watermark)
    yield
    for batch in iterate_batches(data):
        for record in records_from(data, batch, offset):
            if record is not None:
                return (record, batch) if record.offset == offset else None
            yield
    return None
