"""Dead letters of share groups, appended to their topic, which may be created first."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_server.clock.broker_clock import HeapTimer
from coordinator_server.coordinator import dead_letters
from coordinator_server.core.share_partitions.dead_letters import QueueOutcome
from coordinator_server.core.share_partitions.in_flight import DeadLetters
from coordinator_server.core.share_partitions.settings import DEAD_LETTER_TOPIC
from coordinator_server.steps import Steps
from protocol.batch import Record, build_batch, iterate_records
from protocol.batch_header import iterate_batches
from protocol.compression import Compression
from tests.harness.records import batch
from tests.harness.shares import ShareBroker

REJECT, RELEASE = 3, 2
QUEUE = "dlq.q"
IS_QUEUE = {"errors.deadletterqueue.group.enable": "true"}
_MAY_CREATE = "errors_deadletterqueue_auto_create_topics_enable"
COPY = {"errors.deadletterqueue.copy.record.enable": "true"}


def make(
    *, exists: bool = True, may_create: bool = False, configs: dict[str, str] | None = None
) -> ShareBroker:
    """Return a broker whose group "g" has a dead letter queue of two partitions."""
    broker = ShareBroker(num_partitions="3", **{_MAY_CREATE: str(may_create).lower()})
    broker.configure({DEAD_LETTER_TOPIC: QUEUE})
    if exists:
        broker.topics.create(QUEUE, 2, IS_QUEUE | (configs or {}))
    return broker


def reject(broker: ShareBroker, *sizes: int, index: int = 0, **fields: object) -> None:
    """Let member A acquire batches of these sizes and reject all of their records."""
    broker.produce("t", *sizes, index=index, **fields)
    broker.fetched(("t", index), max_records=10_000)
    last = sum(sizes) - 1
    assert broker.acknowledged(("t", index, 0, last, REJECT)) == {f"t-{index}": 0}
    broker.turn()


def records(broker: ShareBroker, index: int = 0, name: str = QUEUE) -> list[Record]:
    """Return the records in a partition of the queue."""
    topic = broker.topics.topic(name)
    if topic is None:
        return []
    data = topic.partitions[index].log.read(0, 1 << 26)
    return [one for header in iterate_batches(data) for one in iterate_records(data, header)]


def offsets(found: Sequence[Record]) -> list[int]:
    """Return the offsets of the original records."""
    return [int(dict(one.headers)["__dlq.errors.offset"] or b"") for one in found]


def timers(broker: ShareBroker) -> list[HeapTimer]:
    """Return the timers of scheduled attempts to write dead letters."""
    return [one for one in broker.clock.timers if "_again" in str(one._callback)]


def error_of(broker: ShareBroker) -> str | None:
    """Return the error that kept the last given-up records out of the queue."""
    return broker.given_up[-1].queue_error


def no_steps(_: Sequence[QueueOutcome]) -> Steps:
    """Return an empty sequence of steps."""
    yield from ()


class SourceLog:
    """A log that counts its reads; the records of compacted offsets are missing."""

    log_start_offset, high_watermark = 0, 1000

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read_offsets: list[int] = []

    def read(self, offset: int, _: int, *, up_to: int) -> bytes:
        """Return the batches from an offset on, all below `up_to`."""
        assert offset < up_to
        self.read_offsets.append(offset)
        return self.data


def test_headers_are_all_there_is_without_copies() -> None:
    """Without copies a dead letter has only headers, and the time of the rejection.

    Key and value are null.
    """
    broker = make()
    broker.clock.time_ms += 5_000
    reject(broker, 2)
    found = records(broker)
    assert [(one.key, one.value, one.timestamp_ms) for one in found] == [
        (None, None, broker.clock.time_ms)
    ] * 2
    assert dict(found[1].headers) == {
        "__dlq.errors.topic": b"t",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"g",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    (given_up,) = broker.given_up
    assert given_up == (0, 1, 1, "A", True, QUEUE, None)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_copies_have_key_and_value(compression: Compression) -> None:
    """Copies have the key and value of the original record, but not its headers, as in Kafka."""
    broker = make()
    broker.configure(COPY)
    reject(broker, 3, compression=compression)
    found = records(broker)
    assert [(one.key, one.value) for one in found] == [(b"k", b"v")] * 3
    assert offsets(found) == [0, 1, 2]


@pytest.mark.parametrize("deleted", [1, 2, 3])
def test_copies_of_records_that_are_gone_are_headers(deleted: int) -> None:
    """Dead letters of records below the log start offset have no copies of key and value."""
    broker = make()
    broker.configure(COPY)
    broker.produce("t", 2, 1)
    broker.fetched(("t", 0))
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.delete_records(deleted)
    broker.acknowledged(("t", 0, 0, 2, REJECT))
    broker.turn()
    assert [one.key for one in records(broker)] == [None] * deleted + [b"k"] * (3 - deleted)


def test_records_that_cannot_be_read_are_headers() -> None:
    """A dead letter of an unreadable record has only headers."""
    broker = make()
    broker.configure(COPY)
    log = SourceLog(batch(b"v")[:-4] + b"\xff" * 4)
    source: Any = SimpleNamespace(log=log, topic_name="t", index=0)
    letters = [DeadLetters(0, 1, 1, True, "A")]
    broker.share_partitions._queues.write("g", source, letters, no_steps)
    broker.turn()
    assert [one.key for one in records(broker)] == [None, None]


def test_compacted_offsets_are_read_in_few_steps() -> None:
    """One read skips a gap of compacted offsets, and each read is a separate step."""
    broker = make()
    broker.configure(COPY)
    log = SourceLog(build_batch([Record(900, 1, None, b"v")]).to_bytes())
    source: Any = SimpleNamespace(log=log, topic_name="t", index=0)
    queues = broker.share_partitions._queues
    queues.write("g", source, [DeadLetters(0, 599, 1, True, "A")], no_steps)
    broker.turn()
    assert log.read_offsets == [0]
    assert len(records(broker)) == 600
    log.data = b""
    letters = [DeadLetters(number, number, 1, True, "A") for number in range(0, 10, 2)]
    job = dead_letters._Job("g", source, letters, no_steps)
    queue = broker.topics.partition(QUEUE, 0)
    assert queue is not None
    assert len(list(queues._encode(job, queue))) == 5
    assert log.read_offsets == [0, 0, 2, 4, 6, 8]


def test_the_partition_is_chosen_by_that_of_the_records() -> None:
    """The source partition modulo the number of queue partitions selects the queue partition."""
    broker = make()
    reject(broker, 1, index=1)
    assert records(broker, 0) == []
    assert offsets(records(broker, 1)) == [0]


def test_many_records_go_in_several_batches() -> None:
    """Many dead letters are written in several batches, with one step for each batch."""
    broker = make()
    broker.configure(COPY)
    reject(broker, *[700] * 3)
    assert offsets(records(broker)) == list(range(2100))
    partition = broker.topics.partition(QUEUE, 0)
    assert partition is not None
    data = partition.log.read(0, 1 << 26)
    counts = [one.record_count for one in iterate_batches(data)]
    assert max(counts) == dead_letters.RECORDS_PER_BATCH
    assert len(counts) == 5


def test_batches_are_bounded_by_what_the_queue_takes() -> None:
    """No batch of dead letters exceeds the queue's max.message.bytes."""
    broker = make(configs={"max.message.bytes": "1000"})
    reject(broker, 20)
    assert offsets(records(broker)) == list(range(20))


def test_a_record_that_is_too_large_does_not_hold_up_others() -> None:
    """A dead letter that is too large is lost without delaying others; the reason is reported."""
    broker = make(configs={"max.message.bytes": "1000"})
    broker.configure(COPY)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.append(batch(b"a", b"b" * 900, b"c"), broker.clock.now_ms())
    broker.fetched(("t", 0))
    broker.acknowledged(("t", 0, 0, 2, REJECT))
    broker.turn()
    assert offsets(records(broker)) == [0, 2]
    assert (error_of(broker) or "").startswith("MESSAGE_TOO_LARGE: ")


def test_a_check_that_takes_long_is_done_in_a_thread() -> None:
    """A long check of a record for a compressing queue runs in a thread."""
    broker = make(configs={"compression.type": "gzip", "max.message.bytes": "2000000"})
    broker.configure(COPY)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.append(batch(b"v" * 900_000), broker.clock.now_ms())
    broker.fetched(("t", 0), max_bytes=1 << 24)
    broker.acknowledged(("t", 0, 0, 0, REJECT))
    broker.turn()
    (record,) = records(broker)
    assert record.value == b"v" * 900_000


def test_the_queue_is_created_when_that_is_allowed() -> None:
    """If auto-creation is enabled, the queue is created with the default partition count.

    The queue's configs mark the topic as a dead letter queue.
    """
    broker = make(exists=False, may_create=True)
    reject(broker, 1)
    topic = broker.topics.topic(QUEUE)
    assert topic is not None
    assert len(topic.partitions) == 3
    assert topic.configs == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    assert offsets(records(broker)) == [0]


@pytest.mark.parametrize(
    ("name", "configs", "may_create", "reason"),
    [
        ("dlq.q", None, False, "DLQ topic does not exist and auto create is disabled on cluster"),
        ("dlq.q", {}, True, "DLQ is not enabled on configured DLQ topic for share group: g"),
        ("other", IS_QUEUE, True, "Configured DLQ topic name does not comply with the DLQ topic"),
        ("dlq.a b", None, True, "Topic name is invalid"),
        ("__x", IS_QUEUE, True, "Configured DLQ topic name in share group: g cannot start with __"),
    ],
)
def test_queues_that_cannot_be_written(
    name: str, configs: dict[str, str] | None, may_create: bool, reason: str
) -> None:
    """Records for a queue that cannot be written are archived at once, with a reported reason."""
    broker = make(exists=False, may_create=may_create)
    broker.configure({DEAD_LETTER_TOPIC: name})
    if configs is not None:
        broker.topics.create(name, 1, configs)
    reject(broker, 2)
    assert broker.topics.topic(name) is None or records(broker, 0, name) == []
    assert reason in (error_of(broker) or "")
    share_partition = broker.share_partitions.get(broker.key("t"))
    assert share_partition is not None
    assert share_partition.start_offset == 2
    assert timers(broker) == []


def test_a_queue_that_was_unset_meanwhile() -> None:
    """If the group's queue is unset before the write, the dead letters fail with this reason."""
    broker = make()
    broker.produce("t", 1)
    broker.fetched(("t", 0))
    broker.acknowledged(("t", 0, 0, 0, REJECT))
    broker.configure({DEAD_LETTER_TOPIC: None})
    broker.turn()
    assert error_of(broker) == "Configured DLQ topic name in share group: g is empty."


def lead(broker: ShareBroker, leader_id: int) -> None:
    """Give the queue's first partition another leader, or none."""
    partition = broker.topics.partition(QUEUE, 0)
    assert partition is not None
    partition.leader_id = leader_id


def test_a_queue_without_a_leader_is_tried_again() -> None:
    """Records stay Archiving until the queue has a leader, and are then written."""
    broker = make()
    lead(broker, -1)
    reject(broker, 2)
    broker.advance(1_000)
    assert broker.given_up == []
    lead(broker, broker.node_id)
    broker.advance(1_999)
    assert broker.given_up == []
    broker.advance(1)
    assert offsets(records(broker)) == [0, 1]
    assert error_of(broker) is None


def test_a_queue_that_stays_without_a_leader() -> None:
    """After five attempts in 15 s without a leader the records are given up."""
    broker = make()
    lead(broker, -1)
    reject(broker, 2)
    for elapsed_ms in (1_000, 2_000, 4_000, 7_999):
        broker.advance(elapsed_ms)
        assert broker.given_up == []
    broker.advance(1)
    assert error_of(broker) == "dlq.q-0 has no leader"
    assert timers(broker) == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_broker_that_stops_writes_no_more(ends: bool) -> None:
    """A stopped broker writes no more dead letters; the records stay Archiving.

    The next leader sends them. The same holds when the share partitions are forgotten.
    """
    broker = make()
    lead(broker, -1)
    reject(broker, 2)
    if ends:
        broker.share_partitions.stop()
    else:
        broker.share_partitions.forget()
    lead(broker, broker.node_id)
    broker.advance(20_000)
    assert records(broker) == []
    assert broker.given_up == []
    state = broker.persister.states[broker.key("t")]
    assert set(state.offsets.values()) == {(3, 1)}


def test_letters_of_a_broker_that_stops_at_once() -> None:
    """A broker that stops between two steps writes no further dead letters."""
    broker = make()
    broker.produce("t", 1)
    broker.fetched(("t", 0))
    broker.acknowledged(("t", 0, 0, 0, REJECT))
    broker.share_partitions.stop()
    broker.turn()
    assert records(broker) == []


def test_a_queue_that_does_not_store_the_records() -> None:
    """A compacted queue refuses dead letters, which have no key."""
    broker = make(configs={"cleanup.policy": "compact"})
    reject(broker, 2)
    assert records(broker) == []
    assert (error_of(broker) or "").startswith("INVALID_RECORD: ")


def test_a_disk_that_fails() -> None:
    """If the disk fails, its error is reported as the reason for lost dead letters."""
    broker = make()
    partition = broker.topics.partition(QUEUE, 0)
    assert partition is not None
    partition.is_deleted = True
    reject(broker, 2)
    assert "deleted" in (error_of(broker) or "")


def test_records_over_the_limit() -> None:
    """If records exceeded the delivery limit, the header has this reason and the delivery count."""
    broker = make()
    broker.configure({"share.delivery.count.limit": "2"})
    broker.produce("t", 1)
    for epoch in range(2):
        broker.fetched(("t", 0), epoch=2 * epoch)
        broker.acknowledged(("t", 0, 0, 0, RELEASE), epoch=2 * epoch + 1)
    broker.turn()
    (record,) = records(broker)
    headers = dict(record.headers)
    assert headers["__dlq.errors.delivery.count"] == b"2"
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert broker.given_up == [(0, 0, 2, "A", False, QUEUE, None)]


def test_letters_of_one_change_have_outcomes_of_their_own() -> None:
    """Two ranges that become dead letters together are written and reported separately."""
    broker = make()
    broker.produce("t", 1)
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    outcomes: list[QueueOutcome] = []

    def done(written: Sequence[QueueOutcome]) -> Steps:
        outcomes.extend(written)
        yield

    letters = [DeadLetters(0, 1, 1, True, "A"), DeadLetters(5, 5, 2, False, "B")]
    broker.share_partitions._queues.write("g", partition, letters, done)
    broker.turn()
    assert outcomes == [(letters[0], QUEUE, None), (letters[1], QUEUE, None)]
    assert offsets(records(broker)) == [0, 1, 5]
