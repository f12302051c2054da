"""Dead letter queues of share groups (KIP-1191): their topics, records and contents.

Records are built and read with the codec of `protocol`, which other tests compare with Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.compression import Compression
from tests.conformance import share_looks as looks
from tests.conformance.producers import Partition, error
from tests.conformance.share_setups import EARLIEST, join
from tests.conformance.shares import ShareMember
from tests.conformance.stage import Stage

QUEUE = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
IS_QUEUE = "errors.deadletterqueue.group.enable"
LIMIT = "share.delivery.count.limit"

Given = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

_TOPIC = 2
_ARCHIVING = 3
_SOURCE_HEADERS = [("of the source", b"1")]


def queue_name(t: Stage, prefix: str = "dlq.") -> str:
    """Return the name of the scenario's queue, which need not exist."""
    name = f"{prefix}{t.g}".replace("/", "-")
    t.name_it(name, f"<{prefix}queue>")
    return name


def queue(
    t: Stage,
    partitions: int = 1,
    *,
    prefix: str = "dlq.",
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic, unrecorded, and return its name.

    The topic is a dead letter queue unless `configs` say otherwise.
    """
    name = queue_name(t, prefix)
    named = {IS_QUEUE: "true"} | dict(configs or {})
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in named.items()],
    }
    created = t.raw("CreateTopics", 7, {"topics": [wanted], "timeout_ms": 9000})
    assert created["topics"][0]["error_code"] == 0, created
    while any(_fetched(t, name, index)["error_code"] for index in range(partitions)):
        t.nap(0.02)
    return name


def reader_of(
    t: Stage,
    queue_topic: str,
    *batches: Sequence[Given],
    compression: Compression = Compression.NONE,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> tuple[Partition, ShareMember]:
    """Create a partition with these batches and a group that uses this queue.

    Return the partition and a member of the group.
    """
    topic = looks.topic(t, partitions)
    looks.configure(t, EARLIEST | {QUEUE: queue_topic} | dict(configs or {}))
    t.nap(0.1)  # Kafka's components apply the configs one after the other.
    (member,) = join(t, "A", topic)
    for records in batches:
        send(t, (topic, 0), records, compression)
    return (topic, 0), member


def plain(count: int, size: int = 1) -> list[Given]:
    """Return `count` records with keys and values of this size."""
    return [(b"k%d" % number, b"v" * size) for number in range(count)]


def send(
    t: Stage,
    place: Partition,
    records: Sequence[Given],
    compression: Compression = Compression.NONE,
) -> None:
    """Append one batch, unrecorded. Its records have a header and a fixed timestamp."""
    batch = build_batch(
        [
            Record(number, 1_700_000_000_000 + number, key, value, _SOURCE_HEADERS)
            for number, (key, value) in enumerate(records)
        ],
        compression=compression,
    )
    data = [{"index": place[1], "records": batch.to_bytes()}]
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": place[0], "partition_data": data}],
    }
    answer = t.raw("Produce", 11, body)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer


def settled(t: Stage, *places: Partition) -> None:
    """Wait, unrecorded, until no record of these partitions is being copied to the queue."""
    for place in places:
        for _ in range(600):
            answer = looks.ask_state(t, "ReadShareGroupState", 0, place, {"leader_epoch": 0})
            states = [one["delivery_state"] for one in answer["state_batches"]]
            if answer["error_code"] or _ARCHIVING not in states:
                break
            t.nap(0.05)
    t.nap(0.1)


def letters(t: Stage, topic: str, index: int = 0, label: str = "letters") -> None:
    """Record the records in a partition of the queue, one line each."""
    t.rec(f"{label} {t.sub(topic)}-{index}", shown_letters(t, topic, index))


def shown_letters(t: Stage, topic: str, index: int = 0) -> Any:
    """Return a queue's records as recorded: timestamp kind, compression, key, value and headers."""
    answer = _fetched(t, topic, index)
    if answer["error_code"]:
        return error(answer["error_code"])
    data = answer["records"] or b""
    shown = []
    for header in iterate_batches(data):
        kind = [header.compression.name] if header.compression else []
        kind += ["append time"] if header.log_append_time else []
        for record in iterate_records(data, header):
            is_new = record.timestamp_ms > 1_750_000_000_000
            said = [
                "" if is_new else "old",
                *kind,
                _text(record.key),
                _text(record.value),
                *(
                    f"{name.removeprefix('__dlq.errors.')}={t.sub((value or b'null').decode())}"
                    for name, value in record.headers
                ),
            ]
            shown.append(" ".join(filter(None, said)))
    return shown


def topic_configs(t: Stage, topic: str, label: str = "configs of the queue") -> None:
    """Record the partitions of a topic, and its configs that are not defaults."""
    asked = {"topics": [{"name": topic, "topic_id": bytes(16)}]}
    found = t.raw("Metadata", 12, asked)["topics"][0]
    if found["error_code"]:
        t.rec(label, error(found["error_code"]))
        return
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": None}
    answer = t.raw("DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    own = {one["name"]: one["value"] for one in answer["configs"] if one["config_source"] == 1}
    t.rec(label, [len(found["partitions"]), dict(sorted(own.items()))])


def stored_states(
    t: Stage, place: Partition, start: int, states: Sequence[tuple[int, int, int, int]]
) -> None:
    """Write share-partition state, unrecorded: first offset, last offset, state, delivery count."""
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    body = {
        "state_epoch": 2,
        "leader_epoch": 0,
        "start_offset": start,
        "delivery_complete_count": 0,
        "state_batches": [dict(zip(names, one, strict=True)) for one in states],
    }
    answer = looks.ask_state(t, "WriteShareGroupState", 1, place, body)
    assert answer["error_code"] == 0, answer


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    return data.decode() if len(data) < 20 else f"{len(data)} bytes"


def _fetched(t: Stage, topic: str, index: int) -> Any:
    asked = {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
    body = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 24,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "replica_id": -1,
    }
    return t.raw("Fetch", 12, body)["responses"][0]["partitions"][0]
