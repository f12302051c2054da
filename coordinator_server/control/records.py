"""Control requests that write and read records.

Records take the same path as a client's batch: the log validates them, and waiting fetches wake up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coordinator_server.control.browse import (
    MOST_PARTITIONS,
    Filters,
    Page,
    cursor,
    start_positions,
)
from coordinator_server.control.content import described, to_base64, to_bytes
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import (
    ControlError,
    ControlRequest,
    natural_number,
    refuse_others,
)
from coordinator_server.control.topics import offsets_of, partition_at, partition_of, topic_of
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError
from protocol.hashing import partition_for_key
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator_server.steps import Computation
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.batch_header import BatchHeader
    from storage.partition_log import PartitionLog

_BATCH_BYTES = 256 * 1024
"""The approximate batch size for the records of one request (message.max.bytes is 1 MiB)."""

_READ_BYTES = 1024 * 1024
_ANSWER_BYTES = 4 * 1024 * 1024
_RECORD_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_FORMATS = ("base64", "text", "json", "hex")
_INT64 = 1 << 63


# --- writing --------------------------------------------------------------------------------------


async def produce(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC/records: write records. Raises ControlError.

    The body is {"records": [{"key", "value", "headers", "partition", "timestamp_ms"}], "format"}.
    Without a partition the key determines the partition, as in Kafka's clients. Records without
    partition and key are distributed round-robin.
    """
    manager, name = request.cluster.topics, request.parameters["TOPIC"]
    if manager.creation_error(name) is None and request.allows("CREATE", "TOPIC", name):
        await in_steps(manager.auto_create([name]))
    topic = topic_of(request)
    if topic.is_internal:
        raise ControlError(400, f"{name} is an internal topic")
    body = await in_steps(request.json_in_steps("records", "format"))
    wanted, how = body.get("records"), body.get("format", "base64")
    if not isinstance(wanted, list) or not all(isinstance(item, dict) for item in wanted):
        raise ControlError(400, "records is a list of objects")
    if how not in _FORMATS:
        raise ControlError(400, f"format is {how!r}, not one of {', '.join(_FORMATS)}")
    answers, written = await in_steps(_produced(request, topic, wanted, how))
    await _flushed(written)
    return {"records": answers}


def _produced(
    request: ControlRequest, topic: Topic, wanted: Sequence[dict[str, Any]], how: str
) -> Computation[tuple[list[dict[str, int]], list[Partition]]]:
    """Write records in steps; return their places and the partitions. Raises ControlError."""
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
    answers: list[dict[str, int]] = [{}] * len(wanted)
    written = []
    for index in sorted(by_partition):
        partition = topic.partitions[index]
        if partition.leader_id not in cluster.brokers:
            raise ControlError(400, f"no broker leads {topic.name}-{index}")
        for batch in _batches(by_partition[index], records):
            batch_records = [records[number] for number in batch]
            base_offset = yield from _append(partition, batch_records, now_ms)
            for place, number in enumerate(batch):
                answers[number] = {
                    "partition": index,
                    "offset": base_offset + place,
                    "timestamp_ms": records[number].timestamp_ms,
                }
            yield
        written.append(partition)
    return answers, written


def _partition_of(item: dict[str, Any], key: bytes | None, number: int, topic: Topic) -> int:
    index, count = item.get("partition"), len(topic.partitions)
    if index is None:
        return number % count if key is None else partition_for_key(key, count)
    if not isinstance(index, int) or not 0 <= index < count:
        message = f"topic {topic.name} has no partition {index!r}, but {count} of them"
        raise ControlError(404, message)
    return index


def _record(item: dict[str, Any], now_ms: int, how: str) -> Computation[Record]:
    refuse_others("field of a record", item, _RECORD_FIELDS)
    timestamp_ms = item.get("timestamp_ms")
    if timestamp_ms is None:
        timestamp_ms = now_ms
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms < _INT64:
        raise ControlError(400, f"{timestamp_ms!r} is no timestamp in milliseconds")
    headers = []
    pairs = item.get("headers") or []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        if not isinstance(pair, list) or len(pair) != 2 or not _is_text(pair[0]):
            raise ControlError(400, f"a header is a name and a value, not {pair!r}")
        headers.append((pair[0], (yield from to_bytes(pair[1], how, "a header"))))
    key = yield from to_bytes(item.get("key"), how, "a key")
    value = yield from to_bytes(item.get("value"), how, "a value")
    return Record(0, timestamp_ms, key, value, headers)


def _is_text(value: Any) -> bool:
    """Return whether a JSON value is a string that UTF-8 can encode, without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _batches(numbers: Sequence[int], records: Sequence[Record]) -> list[list[int]]:
    batches: list[list[int]] = []
    size_bytes = _BATCH_BYTES
    for number in numbers:
        if size_bytes >= _BATCH_BYTES:
            batches.append([])
            size_bytes = 0
        batches[-1].append(number)
        size_bytes += len(records[number].key or b"") + len(records[number].value or b"")
    return batches


def _append(partition: Partition, records: list[Record], now_ms: int) -> Computation[int]:
    """Write one batch; return the offset of its first record. Raises ControlError."""
    for offset, record in enumerate(records):
        record.offset = offset
    batch = build_batch(records)
    yield
    data = batch.to_bytes()
    yield
    try:
        result = partition.append(data, now_ms)
    except StorageError as error:
        where = f"{partition.topic_name}-{partition.index}"
        details = "; ".join(text for _, text in error.record_errors)
        raise ControlError(400, f"{where}: {details or error}") from error
    if result.log_append_time_ms >= 0:
        for record in records:
            record.timestamp_ms = result.log_append_time_ms
    return result.base_offset


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
    """Return up to `count` records from `offset` on, and the next offset, in steps."""
    shown: list[dict[str, Any]] = []
    size_bytes = 0
    log = partition.log
    offset = max(offset, log.log_start_offset)
    while len(shown) < count and size_bytes < _ANSWER_BYTES and offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, up_to=log.high_watermark)
        size_bytes += len(data)
        before = offset
        offset = yield from _take(data, offset, count, shown)
        if offset == before:
            break
    return shown, offset


def _take(data: bytes, offset: int, count: int, shown: list[dict[str, Any]]) -> Computation[int]:
    """Append the records in `data` from `offset` on to `shown`; return the next offset to read."""
    for header in iterate_batches(data):
        if not header.is_control:  # transaction markers are not records
            for record in iterate_records(data, header):
                if record.offset < offset:
                    continue
                if len(shown) == count:
                    return record.offset
                shown.append((yield from _encoded(record)))
                yield
        offset = max(offset, header.next_offset)
    return offset


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
        for record in () if batch.is_control else iterate_records(data, batch):
            if record.offset == offset:
                return record, batch
            yield
    return None
