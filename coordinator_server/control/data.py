"""Orders about data: topics, records and groups as a test wants to make and see them, and reset.

Bytes travel as base64 in JSON, null stays null. What is written here goes the way of a client's
batch: the log checks it, fetches that wait for it wake up.
"""

from __future__ import annotations

import asyncio
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from coordinator_server.control.request import ControlError, Order
from coordinator_server.server import StartError
from coordinator_server.topics.topic_configs import configs_error
from protocol.batch import Record, build_batch, iterate_batches, iterate_records
from protocol.errors import ProtocolError
from protocol.hashing import partition_for_key
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.topics.manager import Partition, Topic

_BATCH_BYTES = 256 * 1024
"""Records of one order are cut into batches of about this size (message.max.bytes is 1 MiB)."""

_READ_BYTES = 1024 * 1024
_ANSWER_BYTES = 4 * 1024 * 1024
_PARTITIONS_MAX = 10_000
_INT64 = 1 << 63


# --- topics ---------------------------------------------------------------------------------------


async def topics(order: Order) -> dict[str, Any]:
    """GET /topics."""
    return {"topics": [_topic(one) for one in order.cluster.topics.all_topics()]}


async def topic(order: Order) -> dict[str, Any]:
    """GET /topics/TOPIC."""
    return _topic(topic_of(order))


async def create_topic(order: Order) -> dict[str, Any]:
    """POST /topics/TOPIC, {"partitions": 3, "configs": {"retention.ms": "1000"}}."""
    manager, name, body = order.cluster.topics, order.parameters["TOPIC"], order.json()
    error = manager.creation_error(name)
    if error is not None:
        raise ControlError(400, f"topic {name!r}: {error[1]}")
    count = body.get("partitions")
    if count is None:
        count = order.cluster.config.integer("num.partitions")
    if not isinstance(count, int) or not 0 < count <= _PARTITIONS_MAX:
        raise ControlError(400, f"topic {name} cannot have {count!r} partitions")
    configs = body.get("configs") or {}
    if not isinstance(configs, dict):
        raise ControlError(400, f"topic {name}: configs are an object, not {configs!r}")
    given = {key: None if value is None else str(value) for key, value in configs.items()}
    try:
        message = configs_error(order.cluster.config, given.items())
        if message is not None:
            raise ControlError(400, f"topic {name}: {message}")
        kept = {key: value.strip() for key, value in given.items() if value is not None}
        return _topic(manager.create(name, count, kept))
    except StorageError as refusal:
        raise ControlError(400, f"topic {name}: {refusal}") from refusal


def topic_of(order: Order) -> Topic:
    """The topic that the path names. Raises ControlError."""
    name = order.parameters["TOPIC"]
    found = order.cluster.topics.topic(name)
    if found is None:
        there = sorted(one.name for one in order.cluster.topics.all_topics())
        raise ControlError(404, f"there is no topic {name}{_but(there)}")
    return found


def partition_of(order: Order, topic: Topic) -> Partition:
    """The topic's partition that the path names. Raises ControlError."""
    index, count = order.parameters["INDEX"], len(topic.partitions)
    if not (index.isascii() and index.isdigit()) or int(index) >= count:
        raise ControlError(404, f"topic {topic.name} has no partition {index}, but {count} of them")
    return topic.partitions[int(index)]


def _but(names: Sequence[str]) -> str:
    """What there is instead, should somebody have mistyped a name."""
    some = [*names[:20], "..."] if len(names) > 20 else names
    return f", but {', '.join(some)}" if some else ""


def _topic(one: Topic) -> dict[str, Any]:
    return {
        "topic": one.name,
        "configs": dict(one.configs),
        "partitions": [_offsets(partition) for partition in one.partitions],
    }


def _offsets(partition: Partition) -> dict[str, int]:
    try:
        log = partition.log
    except StorageError as error:
        raise ControlError(500, str(error)) from error
    return {"start_offset": log.log_start_offset, "end_offset": log.high_watermark}


# --- records --------------------------------------------------------------------------------------


async def produce(order: Order) -> dict[str, Any]:
    """POST /topics/TOPIC/records, {"records": [{"key", "value", "headers", ...}]}.

    A record may name its partition and timestamp_ms. Without a partition its key decides, as in
    Kafka's clients; without a key too the records go to the partitions in turn.
    """
    cluster, name = order.cluster, order.parameters["TOPIC"]
    cluster.topics.auto_create(name)
    there = topic_of(order)
    if there.is_internal:
        raise ControlError(400, f"{name} is the broker's own topic")
    asked = order.json().get("records")
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise ControlError(400, "records is a list of objects")
    now_ms = cluster.clock.now_ms()
    partitions = [_partition_of(one, number, there) for number, one in enumerate(asked)]
    records = [_record(one, now_ms) for one in asked]
    answers: list[dict[str, int]] = [{}] * len(asked)
    written = []
    for index in sorted(set(partitions)):
        own = [number for number, one in enumerate(partitions) if one == index]
        partition = there.partitions[index]
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


def _partition_of(asked: dict[str, Any], number: int, there: Topic) -> int:
    count = len(there.partitions)
    index = asked.get("partition")
    if index is None:
        key = _bytes(asked.get("key"), "a key")
        return number % count if key is None else partition_for_key(key, count)
    if not isinstance(index, int) or not 0 <= index < count:
        message = f"topic {there.name} has no partition {index!r}, but {count} of them"
        raise ControlError(404, message)
    return index


def _record(asked: dict[str, Any], now_ms: int) -> Record:
    timestamp_ms = asked.get("timestamp_ms")
    if timestamp_ms is None:
        timestamp_ms = now_ms
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms < _INT64:
        raise ControlError(400, f"{timestamp_ms!r} is no timestamp in milliseconds")
    headers = []
    for pair in asked.get("headers") or ():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ControlError(400, f"a header is a name and a value, not {pair!r}")
        headers.append((pair[0], _bytes(pair[1], "a header")))
    key, value = _bytes(asked.get("key"), "a key"), _bytes(asked.get("value"), "a value")
    return Record(0, timestamp_ms, key, value, headers)


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
    """Write one batch; the offset of its first record."""
    for offset, record in enumerate(records):
        record.offset = offset
    try:
        result = partition.append(build_batch(records), now_ms)
    except StorageError as error:
        where = f"{partition.topic_name}-{partition.index}"
        details = "; ".join(text for _, text in error.record_errors)
        raise ControlError(400, f"{where}: {details or error}") from error
    if result.log_append_time_ms >= 0:
        for record in records:
            record.timestamp_ms = result.log_append_time_ms
    return result.base_offset


async def _flushed(partitions: Sequence[Partition]) -> None:
    """Wait until what was written is synced, where the topic asks for that."""
    loop = asyncio.get_running_loop()
    waits: list[asyncio.Future[StorageError | None]] = []
    for partition in partitions:
        if partition.flush_is_due:
            waits.append(loop.create_future())
            partition.when_flushed(_resolve(waits[-1]))
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


async def records(order: Order) -> dict[str, Any]:
    """GET /partitions/TOPIC/INDEX/records?offset=N&count=N: some records from an offset on.

    What lies before the first offset is passed over. `next_offset` is where to go on.
    """
    there = topic_of(order)
    partition = partition_of(order, there)
    offset, count = _number(order, "offset", 0), _number(order, "count", 100)
    found: list[dict[str, Any]] = []
    size_bytes = 0
    try:
        log = partition.log
        offset = max(offset, log.log_start_offset)
        while len(found) < count and size_bytes < _ANSWER_BYTES and offset < log.high_watermark:
            data = log.read(offset, _READ_BYTES, up_to=log.high_watermark).records
            size_bytes += len(data)
            before = offset
            offset = _take(data, offset, count, found)
            if offset == before:
                break
    except (StorageError, ProtocolError) as error:
        raise ControlError(500, f"{there.name}-{partition.index}: {error}") from error
    return {"records": found, "next_offset": offset, **_offsets(partition)}


def _take(data: bytes, offset: int, count: int, found: list[dict[str, Any]]) -> int:
    """Add the records of whole batches from `offset` on; the offset to go on with."""
    for header in iterate_batches(data):
        if not header.is_control:  # markers of transactions are no records to anybody
            for one in iterate_records(data, header):
                if one.offset < offset:
                    continue
                if len(found) == count:
                    return one.offset
                found.append(_shown(one))
        offset = max(offset, header.next_offset)
    return offset


def _shown(one: Record) -> dict[str, Any]:
    return {
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "key": _base64(one.key),
        "value": _base64(one.value),
        "headers": [[name, _base64(value)] for name, value in one.headers],
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode()


def _number(order: Order, name: str, default: int) -> int:
    text = order.query.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or int(text) >= _INT64:
        raise ControlError(400, f"{name}={text} is not a number")
    return int(text)


# --- everything -----------------------------------------------------------------------------------


async def reset(order: Order) -> dict[str, Any]:
    """POST /reset: the cluster as if it had just been started, with no client connected.

    With move=true at other ports; `listeners` tells where each broker listens now.
    """
    cluster, moves = order.cluster, order.query.get("move", "false")
    if moves not in ("true", "false"):
        raise ControlError(400, f"move={moves} is neither true nor false")
    try:
        told = await cluster.reset(moves=moves == "true")
    except StorageError as error:
        raise ControlError(500, f"not everything could be deleted: {error}") from error
    except StartError as error:
        raise ControlError(500, f"the brokers cannot move: {error}") from error
    listeners = [[str(one) for one in cluster.addresses(node_id)] for node_id in cluster.node_ids]
    return {**told, "listeners": listeners}
