"""Control requests about topics and records, and the reset of the cluster.

Bytes are base64 in JSON; null stays null. Records take the same path as a client's batch: the log
validates them, and waiting fetches wake up.
"""

from __future__ import annotations

import asyncio
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from coordinator_server import cluster_reset
from coordinator_server.control.request import (
    ControlError,
    ControlRequest,
    natural_number,
    refuse_others,
)
from coordinator_server.net.acceptor import StartError
from coordinator_server.steps import run_all
from coordinator_server.topics.topic_configs import configs_error
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ProtocolError
from protocol.hashing import partition_for_key
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.topics.topic import Partition, Topic

_BATCH_BYTES = 256 * 1024
"""The approximate batch size for the records of one request (message.max.bytes is 1 MiB)."""

_READ_BYTES = 1024 * 1024
_ANSWER_BYTES = 4 * 1024 * 1024
_PARTITIONS_MAX = 10_000
_RECORD_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_INT64 = 1 << 63


# --- topics ---------------------------------------------------------------------------------------


async def topics(request: ControlRequest) -> dict[str, Any]:
    """GET /topics: list all topics."""
    return {"topics": [_topic(topic) for topic in request.cluster.topics.all_topics()]}


async def topic(request: ControlRequest) -> dict[str, Any]:
    """GET /topics/TOPIC: describe a topic. Raises ControlError."""
    return _topic(topic_of(request))


async def create_topic(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC: create a topic. Raises ControlError.

    The body is such as {"partitions": 3, "configs": {"retention.ms": "1000"}}.
    """
    manager, name = request.cluster.topics, request.parameters["TOPIC"]
    body = request.json("partitions", "configs")
    error = manager.creation_error(name)
    if error is not None:
        raise ControlError(400, f"topic {name!r}: {error[1]}")
    count = body.get("partitions")
    if count is None:
        count = request.cluster.config.integer("num.partitions")
    if not isinstance(count, int) or not 0 < count <= _PARTITIONS_MAX:
        raise ControlError(400, f"topic {name} cannot have {count!r} partitions")
    configs = body.get("configs") or {}
    if not isinstance(configs, dict):
        raise ControlError(400, f"topic {name}: configs are an object, not {configs!r}")
    texts = {key: None if value is None else str(value) for key, value in configs.items()}
    try:
        message = configs_error(request.cluster.config, texts.items())
        if message is not None:
            raise ControlError(400, f"topic {name}: {message}")
        kept = {key: value.strip() for key, value in texts.items() if value is not None}
        return _topic(manager.create(name, count, kept))
    except StorageError as refusal:
        raise ControlError(400, f"topic {name}: {refusal}") from refusal


def topic_of(request: ControlRequest) -> Topic:
    """Return the topic in the path. Raises ControlError."""
    name = request.parameters["TOPIC"]
    topic = request.cluster.topics.topic(name)
    if topic is None:
        names = sorted(other.name for other in request.cluster.topics.all_topics())
        raise ControlError(404, f"there is no topic {name}{_but(names)}")
    return topic


def partition_of(request: ControlRequest, topic: Topic) -> Partition:
    """Return the topic's partition in the path. Raises ControlError."""
    text, count = request.parameters["INDEX"], len(topic.partitions)
    index = natural_number(text)
    if index is None or index >= count:
        raise ControlError(404, f"topic {topic.name} has no partition {text}, but {count} of them")
    return topic.partitions[index]


def _but(names: Sequence[str]) -> str:
    """Return the end of an error message that lists existing names."""
    some = [*names[:20], "..."] if len(names) > 20 else names
    return f", but {', '.join(some)}" if some else ""


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "configs": dict(topic.configs),
        "partitions": [_offsets(partition) for partition in topic.partitions],
    }


def _offsets(partition: Partition) -> dict[str, int]:
    try:
        log = partition.log
    except StorageError as error:
        raise ControlError(500, str(error)) from error
    return {"start_offset": log.log_start_offset, "end_offset": log.high_watermark}


# --- records --------------------------------------------------------------------------------------


async def produce(request: ControlRequest) -> dict[str, Any]:
    """POST /topics/TOPIC/records: write records. Raises ControlError.

    The body is {"records": [{"key", "value", "headers", "partition", "timestamp_ms"}]}. Without a
    partition the key determines the partition, as in Kafka's clients. Records without partition and
    key are distributed round-robin.
    """
    cluster, name = request.cluster, request.parameters["TOPIC"]
    if cluster.topics.creation_error(name) is None:
        run_all(cluster.topics.auto_create([name]))
    topic = topic_of(request)
    if topic.is_internal:
        raise ControlError(400, f"{name} is an internal topic")
    wanted = request.json("records").get("records")
    if not isinstance(wanted, list) or not all(isinstance(item, dict) for item in wanted):
        raise ControlError(400, "records is a list of objects")
    now_ms = cluster.clock.now_ms()
    partitions = [_partition_of(item, number, topic) for number, item in enumerate(wanted)]
    records = [_record(item, now_ms) for item in wanted]
    answers: list[dict[str, int]] = [{}] * len(wanted)
    written = []
    for index in sorted(set(partitions)):
        own = [number for number, other in enumerate(partitions) if other == index]
        partition = topic.partitions[index]
        if partition.leader_id not in cluster.brokers:
            raise ControlError(400, f"no broker leads {name}-{index}")
        for batch in _batches(own, records):
            base_offset = _append(partition, [records[number] for number in batch], now_ms)
            for place, number in enumerate(batch):
                answers[number] = {
                    "partition": index,
                    "offset": base_offset + place,
                    "timestamp_ms": records[number].timestamp_ms,
                }
        written.append(partition)
    await _flushed(written)
    return {"records": answers}


def _partition_of(item: dict[str, Any], number: int, topic: Topic) -> int:
    count = len(topic.partitions)
    index = item.get("partition")
    if index is None:
        key = _bytes(item.get("key"), "a key")
        return number % count if key is None else partition_for_key(key, count)
    if not isinstance(index, int) or not 0 <= index < count:
        message = f"topic {topic.name} has no partition {index!r}, but {count} of them"
        raise ControlError(404, message)
    return index


def _record(item: dict[str, Any], now_ms: int) -> Record:
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
        headers.append((pair[0], _bytes(pair[1], "a header")))
    key, value = _bytes(item.get("key"), "a key"), _bytes(item.get("value"), "a value")
    return Record(0, timestamp_ms, key, value, headers)


def _is_text(value: Any) -> bool:
    """Return whether a JSON value is a string that UTF-8 can encode, without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _bytes(encoded: Any, what: str) -> bytes | None:
    if encoded is None:
        return None
    try:
        return a2b_base64(encoded, strict_mode=True)
    except (Base64Error, TypeError, ValueError) as error:
        raise ControlError(400, f"{what} is base64 or null, not {encoded!r}") from error


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


def _append(partition: Partition, records: list[Record], now_ms: int) -> int:
    """Write one batch; return the offset of its first record. Raises ControlError."""
    for offset, record in enumerate(records):
        record.offset = offset
    try:
        result = partition.append(build_batch(records).to_bytes(), now_ms)
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


async def records(request: ControlRequest) -> dict[str, Any]:
    """GET /partitions/TOPIC/INDEX/records?offset=N&count=N: read up to `count` records.

    Reading starts at `offset`, or at the log start offset if that is larger. `next_offset` is the
    offset for the next request. Raises ControlError.
    """
    topic = topic_of(request)
    partition = partition_of(request, topic)
    offset, count = _number(request, "offset", 0), _number(request, "count", 100)
    shown: list[dict[str, Any]] = []
    size_bytes = 0
    try:
        log = partition.log
        offset = max(offset, log.log_start_offset)
        while len(shown) < count and size_bytes < _ANSWER_BYTES and offset < log.high_watermark:
            data = log.read(offset, _READ_BYTES, up_to=log.high_watermark)
            size_bytes += len(data)
            before = offset
            offset = _take(data, offset, count, shown)
            if offset == before:
                break
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"{topic.name}-{partition.index}: {error}") from error
    return {"records": shown, "next_offset": offset, **_offsets(partition)}


def _take(data: bytes, offset: int, count: int, shown: list[dict[str, Any]]) -> int:
    """Append the records in `data` from `offset` on to `shown`; return the next offset to read."""
    for header in iterate_batches(data):
        if not header.is_control:  # transaction markers are not records
            for record in iterate_records(data, header):
                if record.offset < offset:
                    continue
                if len(shown) == count:
                    return record.offset
                shown.append(_shown(record))
        offset = max(offset, header.next_offset)
    return offset


def _shown(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[name, _base64(value)] for name, value in record.headers],
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode()


def _number(request: ControlRequest, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    number = natural_number(text)
    if number is None:
        raise ControlError(400, f"{name}={text} is not a number")
    return number


# --- everything -----------------------------------------------------------------------------------


async def reset(request: ControlRequest) -> dict[str, Any]:
    """POST /reset: remove all topics, groups and connections, as after the first start.

    With move=true the brokers move to other ports. The response has the addresses of each broker in
    `listeners`. Raises ControlError.
    """
    cluster, moves = request.cluster, request.query.get("move", "false")
    if moves not in ("true", "false"):
        raise ControlError(400, f"move={moves} is neither true nor false")
    try:
        counts = await cluster_reset.reset(cluster, moves=moves == "true")
    except StorageError as error:
        raise ControlError(500, f"not everything could be deleted: {error}") from error
    except StartError as error:
        raise ControlError(500, f"the brokers cannot move: {error}") from error
    listeners = [
        [str(listener) for listener in cluster.servers.addresses(node_id)]
        for node_id in cluster.node_ids
    ]
    return {**counts, "listeners": listeners}
