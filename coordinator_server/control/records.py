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
from coordinator_server.control.content import View, described, to_base64, to_bytes
from coordinator_server.control.errors import shown
from coordinator_server.control.local import status_of
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import ControlError, ControlRequest, natural_number
from coordinator_server.control.schema import is_text
from coordinator_server.control.topics import offsets_of, partition_at, partition_of, topic_of
from coordinator_server.topics.topic import BatchCheck
from coordinator_server.topics.topic_configs import log_defaults
from protocol.batch import Record, build_batch
from protocol.batch_header import HEADER_BYTES, iterate_batches
from protocol.errors import ProtocolError
from protocol.hashing import partition_for_key
from storage.append_check import check_client_batch
from storage.errors import RecordListTooLargeError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from coordinator_server.registry.framed import Framed
    from coordinator_server.steps import Computation, Steps
    from coordinator_server.topics.topic import Partition, Topic
    from protocol.batch_header import BatchHeader
    from storage.log_config import LogConfig
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
    body, now_ms = await request.shaped(), request.cluster.clock.now_ms()
    wanted, how = body["records"], body.get("format", "base64")
    records = await in_steps(_records(wanted, now_ms, how))
    creates = request.cluster.config.boolean("auto.create.topics.enable")
    if creates and manager.creation_error(name) is None and request.allows("CREATE", "TOPIC", name):
        await in_steps(_check_for_new_topic(request, wanted, records, now_ms))
        await in_steps(manager.auto_create([name]))
    topic = topic_of(request)
    if topic.is_internal:
        raise ControlError(400, f"{name} is an internal topic")
    answers, written = await in_steps(_produced(request, topic, wanted, records, now_ms))
    await _flushed(written)
    return {"records": answers}


def _records(wanted: Sequence[dict[str, Any]], now_ms: int, how: str) -> Computation[list[Record]]:
    """Return the records of a body, in steps. Raises ControlError with the index of the record."""
    records: list[Record] = []
    for number, item in enumerate(wanted):
        try:
            records.append((yield from _record(item, now_ms, how)))
        except ControlError as error:
            raise ControlError(error.status, f"records[{number}]: {error}") from error
        yield
    return records


def _check_for_new_topic(
    request: ControlRequest,
    wanted: Sequence[dict[str, Any]],
    records: Sequence[Record],
    now_ms: int,
) -> Steps:
    """Check records for a topic that does not exist yet, by the broker's settings, in steps.

    Raises ControlError, so that a refused request creates no topic.
    """
    name, config = request.parameters["TOPIC"], request.cluster.config
    defaults = log_defaults(config)
    by_partition = yield from _places(wanted, records, name, config.integer("num.partitions"))
    most_bytes = _batch_bytes(defaults)
    for index, numbers in by_partition.items():
        for batch in _batches(numbers, records, most_bytes):
            data = yield from _built(batch, records)
            try:
                _check_size(data, defaults)
                check_client_batch(data, defaults, now_ms, name, index)
            except StorageError as error:
                raise _refusal(name, index, error, batch) from error
            yield


def _places(
    wanted: Sequence[dict[str, Any]], records: Sequence[Record], topic: str, count: int
) -> Computation[dict[int, list[int]]]:
    """Return the numbers of the records for each partition, in steps. Raises ControlError."""
    by_partition: dict[int, list[int]] = {}
    for number, (item, record) in enumerate(zip(wanted, records, strict=True)):
        index = _partition_of(item, record.key, number, topic, count)
        by_partition.setdefault(index, []).append(number)
        yield
    return dict(sorted(by_partition.items()))


def _produced(
    request: ControlRequest,
    topic: Topic,
    wanted: Sequence[dict[str, Any]],
    records: Sequence[Record],
    now_ms: int,
) -> Computation[tuple[list[dict[str, int]], list[Partition]]]:
    """Write records in steps; return their places and the partitions.

    All batches are checked before the first one is written. Raises ControlError.
    """
    by_partition = yield from _places(wanted, records, topic.name, len(topic.partitions))
    checks: list[tuple[list[int], BatchCheck]] = []
    for index, numbers in by_partition.items():
        partition = topic.partitions[index]
        if partition.leader_id not in request.cluster.brokers:
            raise ControlError(503, f"no broker leads {topic.name}-{index}")
        try:
            most_bytes = _batch_bytes(partition.log.config)
        except StorageError as error:
            raise _refusal(topic.name, index, error, numbers) from error
        for batch in _batches(numbers, records, most_bytes):
            check = yield from _checked(partition, batch, records, now_ms)
            checks.append((batch, check))
            yield
    answers: list[dict[str, int]] = [{}] * len(wanted)
    for batch, check in checks:
        result = _append(check, batch, now_ms)
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


def _partition_of(
    item: dict[str, Any], key: bytes | None, number: int, topic: str, count: int
) -> int:
    index: int | None = item.get("partition")
    if index is None:
        return number % count if key is None else partition_for_key(key, count)
    if not 0 <= index < count:
        message = f"topic {topic} has no partition {index!r}, but {count} of them"
        raise ControlError(404, f"records[{number}]: {message}")
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
        headers.append((pair[0], (yield from _bytes(pair[1], how, "a header"))))
    key = yield from _bytes(item.get("key"), how, "a key")
    value = yield from _bytes(item.get("value"), how, "a value")
    return Record(0, timestamp_ms, key, value, headers)


def _bytes(value: Any, how: str, what: str) -> Computation[bytes | None]:
    """Return the bytes of a key, a value or a header. Raises ControlError, with a hint for text."""
    try:
        return (yield from to_bytes(value, how, what))
    except ControlError as error:
        if how == "text" or not is_text(value):
            raise
        hint = 'for text send "format": "text" (ctl: --format text)'
        raise ControlError(error.status, f"{error}; {hint}") from error


def _batch_bytes(config: LogConfig) -> int:
    """Return the size that the batches of several records do not exceed."""
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


def _built(numbers: Sequence[int], records: Sequence[Record]) -> Computation[bytes]:
    """Return the batch of the records with these numbers, in steps."""
    chosen = [records[number] for number in numbers]
    for offset, record in enumerate(chosen):
        record.offset = offset
    batch = build_batch(chosen)
    yield
    data = batch.to_bytes()
    yield
    return data


def _check_size(data: bytes, config: LogConfig) -> None:
    """Raise RecordListTooLargeError if a batch does not fit into a segment."""
    most_bytes = config.segment_bytes
    if len(data) > most_bytes:
        raise RecordListTooLargeError(f"{len(data)} bytes exceed {most_bytes}, segment.bytes")


def _checked(
    partition: Partition, numbers: Sequence[int], records: Sequence[Record], now_ms: int
) -> Computation[BatchCheck]:
    """Check a batch as the log checks batches of clients, in steps. Raises ControlError."""
    data = yield from _built(numbers, records)
    try:
        _check_size(data, partition.log.config)
        check = BatchCheck(partition, data, now_ms)
        check.run()
    except StorageError as error:
        raise _refusal(partition.topic_name, partition.index, error, numbers) from error
    return check


def _append(check: BatchCheck, numbers: Sequence[int], now_ms: int) -> AppendResult:
    """Write a checked batch. Raises ControlError."""
    partition = check.partition
    try:
        return partition.append_checked(check, now_ms)
    except StorageError as error:
        raise _refusal(partition.topic_name, partition.index, error, numbers) from error


def _refusal(topic: str, index: int, error: StorageError, numbers: Sequence[int]) -> ControlError:
    """Return the error for a batch of the records with these numbers.

    It names the records that the log has rejected, otherwise the first and last of the batch.
    """
    last = f" to records[{numbers[-1]}]" if len(numbers) > 1 else ""
    which, details = f"records[{numbers[0]}]{last}", str(error)
    if error.record_errors:
        which = ", ".join(f"records[{numbers[place]}]" for place, _ in error.record_errors)
        details = "; ".join(text for _, text in error.record_errors)
    text = f"{which}: {topic}-{index}: {error.code.name}: {details}"
    return ControlError(status_of(error.code), text)


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
    starts = [name for name in ("position", "offset", "timestamp_ms") if name in request.query]
    if len(starts) > 1 and values["after"] is None:
        first, second = (f"{name}={values[name]}" for name in starts[:2])
        raise ControlError(400, f"{first} and {second} contradict each other")
    partitions: Sequence[Partition] = topic.partitions
    if values["partition"] is not None:
        partitions = [partition_at(topic, str(values["partition"]))]
    elif len(partitions) > MOST_PARTITIONS:
        text = f"topic {topic.name} has {len(partitions)} partitions: choose one, partition=N"
        raise ControlError(400, text)
    try:
        positions = await in_steps(start_positions(partitions, values))
        page = Page(partitions, positions, _filters(values))
        view = _view(request)
        await in_steps(page.read(values["limit"], view))
        tail = cursor(page.positions)
        next_page = None if page.is_at_end else tail
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"topic {topic.name}: {error}") from error
    await _decode(request, view)
    return {"records": page.records, "scanned": page.scanned, "next": next_page, "tail": tail}


def _view(request: ControlRequest) -> View:
    """Return how contents are shown. Only `auto` and `json` show decoded contents."""
    how = request.values["format"]
    has_registry = request.state is not None and request.state.registry is not None
    framed: list[Framed] | None = [] if has_registry and how in ("auto", "json") else None
    return View(how, request.values["max_bytes"], framed)


async def _decode(request: ControlRequest, view: View) -> None:
    """Decode the contents that have a schema id, if there is a registry."""
    if view.framed and request.state is not None and request.state.registry is not None:
        await request.state.registry.decode(view.framed, view.most, ANSWER_BYTES)


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
    if not request.parameters["OFFSET"].isdecimal():
        raise ControlError(400, f"{request.parameters['OFFSET'][:100]!r} is not an offset")
    place = f"{topic.name}-{partition.index}"
    try:
        log = partition.log
        offsets = f"{log.log_start_offset} to {log.high_watermark - 1}"
        entry = None
        if offset is not None and log.log_start_offset <= offset < log.high_watermark:
            entry = await in_steps(_record_at(log, offset))
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"{place}: {error}") from error
    if entry is not None:
        view = _view(request)
        shown = await in_steps(described(entry[0], partition.index, entry[1], view))
        await _decode(request, view)
        return shown
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
