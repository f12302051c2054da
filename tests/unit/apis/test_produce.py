"""Produce: appended and refused batches. The responses are those of a running Kafka."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from protocol.apis.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.compression import Compression
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS
from tests.harness.records import batch
from tests.harness.transactions import TransactionBroker


def broker(**overrides: Any) -> MemoryBroker:
    """Return a broker with topic "t" of two partitions."""
    made = MemoryBroker(**overrides)
    made.topics.create("t", 2, {})
    return made


def request(
    records: bytes | None,
    *,
    topic: str = "t",
    topic_id: bytes = bytes(16),
    partition: int = 0,
    acks: int = 1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request with one batch."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def answer_of(
    made: MemoryBroker, asked: ProduceRequest, version: int = 9, client_id: str | None = "test"
) -> PartitionProduceResponse:
    """Return the response for the only partition of a request."""
    response = made.ask(asked, version, client_id=client_id)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def error_of(made: MemoryBroker, records: bytes | None, version: int = 9, **fields: Any) -> int:
    """Return the error code of one batch, and check that a refused batch was not appended."""
    end = made.topics.log("t", 0).log_end_offset
    answer = answer_of(made, request(records, **fields), version)
    assert answer.error_code == 0 or made.topics.log("t", 0).log_end_offset == end
    return answer.error_code


@pytest.mark.parametrize("version", range(3, 13))
def test_offsets_grow(version: int) -> None:
    """Each batch is answered with its first offset, at every version with topic names."""
    made = broker()
    assert answer_of(made, request(batch(b"a", b"b")), version).base_offset == 0
    second = answer_of(made, request(batch(b"c")), version)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)
    assert second.log_start_offset == (0 if version >= 5 else -1)


def test_topics_by_id_from_version_13() -> None:
    """Version 13 finds the topic by its id; an unknown id gets UNKNOWN_TOPIC_ID."""
    made = broker()
    topic = made.topics.topic("t")
    assert topic is not None
    good = answer_of(made, request(batch(b"a"), topic_id=topic.topic_id), 13)
    assert (good.error_code, good.base_offset) == (0, 0)
    bad = answer_of(made, request(batch(b"a"), topic_id=b"x" * 16), 13)
    assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [1, -1])
def test_acks_one_and_all_are_answered(acks: int) -> None:
    """With one replica, acks=1 and acks=all get the same response."""
    assert error_of(broker(), batch(b"a"), acks=acks) == 0


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_invalid(acks: int) -> None:
    """Acks other than -1, 0 and 1 get INVALID_REQUIRED_ACKS, and nothing is appended."""
    assert error_of(broker(), batch(b"a"), acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS


def call_without_acks(made: MemoryBroker, asked: ProduceRequest) -> SentRequest:
    """Send a request with acks=0; return its call."""
    return made.send(asked, 9)


def test_acks_zero_is_not_answered() -> None:
    """acks=0 appends the batch and sends no response."""
    made = broker()
    call = call_without_acks(made, request(batch(b"a"), acks=0))
    assert (call.replies, call.ended_without_answer) == ([], True)
    assert not call.connection.closed
    assert made.topics.log("t", 0).log_end_offset == 1


def test_acks_zero_closes_on_an_error() -> None:
    """An error with acks=0 closes the connection, the only way to notify the producer."""
    call = call_without_acks(broker(), request(batch(b"a"), topic="missing", acks=0))
    assert call.replies == []
    assert call.connection.refusals == ["acks=0 and UNKNOWN_TOPIC_OR_PARTITION"]


def test_unknown_topics_and_partitions() -> None:
    """Produce creates no topic: an unknown partition gets UNKNOWN_TOPIC_OR_PARTITION."""
    made = broker()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(made, batch(b"a"), topic="missing") == unknown
    assert error_of(made, batch(b"a"), topic="a b") == unknown
    assert error_of(made, batch(b"a"), partition=2) == unknown
    assert error_of(made, batch(b"a"), partition=-1) == unknown
    assert made.topics.topic("missing") is None


def test_internal_topics_are_not_for_clients() -> None:
    """Writes to internal topics get INVALID_TOPIC_EXCEPTION, except from the admin client id."""
    made = broker()
    made.topics.create_internal("__consumer_offsets")
    asked = request(batch(b"a"), topic="__consumer_offsets")
    assert answer_of(made, asked).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer_of(made, asked, client_id="__admin_client").error_code == 0


def damaged(records: bytes, position: int, byte: int) -> bytes:
    """Return a batch with one changed byte."""
    return records[:position] + bytes([byte]) + records[position + 1 :]


def test_an_unknown_compression() -> None:
    """A batch with a nonexistent codec gets UNKNOWN_SERVER_ERROR."""
    records = bytearray(damaged(batch(b"a"), 22, 5))
    struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
    assert error_of(broker(), bytes(records)) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a")[:20], ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-3], ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (damaged(batch(b"a"), 16, 1), ErrorCode.INVALID_RECORD),
        (damaged(batch(b"a"), 16, 3), ErrorCode.CORRUPT_MESSAGE),
        (b"x" * 80, ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(b"a"), 18, 0x55), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(b"a"), 7, 5), ErrorCode.INVALID_RECORD),
        (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
        (batch(b"a", last_offset=1), ErrorCode.INVALID_RECORD),
        (batch(b"a", producer_id=79, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch(b"a", times_ms=[START_MS + 7_200_000]), ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=[
        "null", "empty", "cut in the header", "cut", "two batches", "magic 1", "magic 3", "noise",
        "CRC", "base offset", "control", "count", "producer without sequence", "future",
    ],
)  # fmt: skip
def test_bad_batches(records: bytes | None, error: ErrorCode) -> None:
    """Each kind of invalid batch gets the error code that Kafka uses."""
    assert error_of(broker(), records) == error


def test_a_transactional_batch_needs_a_transaction() -> None:
    """A transactional batch needs a known transactional id in the request.

    A plain batch needs no transactional id.
    """
    made = TransactionBroker()
    records = batch(b"a", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error_of(made, records) == denied
    assert error_of(made, records, version=11, transactional_id="tx") == unknown
    assert error_of(made, batch(b"a"), transactional_id="tx") == 0


def test_zstd_needs_version_7() -> None:
    """Below version 7 of Produce a zstd batch gets UNSUPPORTED_COMPRESSION_TYPE."""
    made = broker()
    records = batch(b"a", compression=Compression.ZSTD)
    assert error_of(made, records, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert error_of(made, records, version=7) == 0


def test_sequences_of_idempotent_producers() -> None:
    """A retried batch gets its first response again; gaps and old epochs are refused."""
    made = broker()

    def send(epoch: int, sequence: int, producer_id: int = 77) -> tuple[int, int]:
        records = batch(
            b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        answer = answer_of(made, request(records))
        return answer.error_code, answer.base_offset

    assert send(0, 0) == (0, 0)
    assert send(0, 0) == (0, 0)
    assert send(0, 5) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(0, 2) == (0, 2)
    assert send(0, 5, producer_id=78) == (0, 4)
    assert send(1, 5) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(1, 0) == (0, 6)
    assert send(0, 4) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_the_log_append_time_is_told() -> None:
    """With LogAppendTime the Produce response has the broker's time."""
    made = broker()
    made.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    made.clock.time_ms = START_MS + 50
    answer = answer_of(made, request(batch(b"a"), topic="stamped"))
    assert answer.log_append_time_ms == START_MS + 50


def test_records_without_keys_in_a_compacted_topic() -> None:
    """In a compacted topic each record without a key is reported by its index, since version 8."""
    made = broker()
    made.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    records = batch(b"a", b"b", key=None)
    answer = answer_of(made, request(records, topic="compacted"), 8)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.log_start_offset == 0
    assert [one.batch_index for one in answer.record_errors] == [0, 1]
    for one in answer.record_errors:
        assert one.batch_index_error_message == (
            "Compacted topic cannot accept message without key in topic partition compacted-0"
        )
    assert answer.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing "
        "the first three errors at most: ["
        "RecordError(batchIndex=0, message='Compacted topic cannot accept message without key in "
        "topic partition compacted-0'), "
        "RecordError(batchIndex=1, message='Compacted topic cannot accept message without key in "
        "topic partition compacted-0')]"
    )
    older = answer_of(made, request(records, topic="compacted"), 7)
    assert (older.error_code, older.record_errors) == (ErrorCode.INVALID_RECORD, [])


def test_too_large_a_batch() -> None:
    """A batch above max.message.bytes gets MESSAGE_TOO_LARGE, without a log start offset."""
    made = broker()
    made.topics.create("small", 1, {"max.message.bytes": "200"})
    answer = answer_of(made, request(batch(b"a" * 500), topic="small"))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_one_bad_partition_does_not_harm_the_others() -> None:
    """Each partition of a Produce request has its own result."""
    made = broker()
    asked = request(batch(b"a"))
    asked.topic_data[0].partition_data += [
        PartitionProduceData(index=7, records=batch(b"a")),
        PartitionProduceData(index=1, records=batch(b"a")),
    ]
    asked.topic_data.append(request(batch(b"a"), topic="missing").topic_data[0])
    response = made.ask(asked, 9)
    assert [
        (topic.name, one.index, one.error_code)
        for topic in response.responses
        for one in topic.partition_responses
    ] == [("t", 0, 0), ("t", 7, 3), ("t", 1, 0), ("missing", 0, 3)]


TRANSACTIONAL = batch(b"a", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
TOO_SHORT = batch(b"a")[:8] + struct.pack(">i", 5) + batch(b"a")[12:]
BAD_MAGIC = batch(b"a")[:16] + b"\3" + batch(b"a")[17:]
OLD_MAGIC = batch(b"a")[:16] + b"\1" + batch(b"a")[17:]
DENIED = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
SIZE = (ErrorCode.CORRUPT_MESSAGE, "Record size 5 is less than the minimum record overhead (14)")
MAGIC = (ErrorCode.CORRUPT_MESSAGE, "Invalid magic found in record: 3")
STORED = (ErrorCode.NONE, None)
UNMAPPED = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, None)
ACKS = (ErrorCode.INVALID_REQUIRED_ACKS, None)
FORMAT = (ErrorCode.INVALID_RECORD, None)


@pytest.mark.parametrize(
    ("records", "fields", "expected"),
    [
        ([batch(b"a"), TOO_SHORT], {}, [SIZE, SIZE]),
        ([batch(b"a"), BAD_MAGIC], {}, [MAGIC, MAGIC]),
        ([batch(b"a"), OLD_MAGIC], {}, [STORED, FORMAT]),
        ([batch(b"a"), batch(b"a")[:10]], {}, [STORED, FORMAT]),
        ([batch(b"a"), TRANSACTIONAL], {}, [DENIED, DENIED]),
        ([TRANSACTIONAL, TOO_SHORT], {}, [DENIED, DENIED]),
        ([TOO_SHORT, TRANSACTIONAL], {}, [SIZE, SIZE]),
        (
            [TRANSACTIONAL, TOO_SHORT],
            {"transactional_id": "x"},
            [UNMAPPED, (ErrorCode.CORRUPT_MESSAGE, None)],
        ),
        ([TOO_SHORT, TRANSACTIONAL], {"transactional_id": "x"}, [SIZE, SIZE]),
        ([TRANSACTIONAL, batch(b"a")], {"transactional_id": "x", "acks": 3}, [UNMAPPED, ACKS]),
        ([OLD_MAGIC, batch(b"a")], {"acks": 3}, [FORMAT, ACKS]),
        ([TOO_SHORT], {"acks": 3}, [SIZE]),
        ([OLD_MAGIC], {"acks": 3}, [FORMAT]),
    ],
)
def test_what_is_checked_before_anything_is_appended(
    records: list[bytes], fields: dict[str, Any], expected: list[tuple[ErrorCode, str | None]]
) -> None:
    """An invalid size or magic, or a missing transactional id, refuses all partitions.

    Acks are checked after the format of a batch and its transaction.
    """
    made = TransactionBroker()
    asked = request(None, **fields)
    asked.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=one) for index, one in enumerate(records)
    ]
    (topic,) = made.ask(asked, 12).responses
    answers = [(one.error_code, one.error_message) for one in topic.partition_responses]
    assert answers == expected
    appended = [made.topics.log("t", index).log_end_offset for index in range(len(records))]
    assert appended == [int(one is STORED) for one in expected]


def test_a_transactional_id_counts_before_the_topic() -> None:
    """The error for a missing transactional id precedes the error for a nonexistent partition."""
    assert error_of(broker(), TRANSACTIONAL, partition=9) == DENIED[0]


def test_acks_zero_closes_when_the_whole_request_is_refused() -> None:
    """With acks=0 the connection is closed when the whole request is refused."""
    made = broker()
    asked = request(TOO_SHORT, acks=0)
    asked.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(b"a")))
    call = call_without_acks(made, asked)
    assert call.replies == []
    assert call.connection.refusals == ["acks=0 and CORRUPT_MESSAGE"]
    assert made.topics.log("t", 1).log_end_offset == 0


def test_a_failing_disk() -> None:
    """A failed write gets KAFKA_STORAGE_ERROR; the next batch takes the same offset."""
    made = broker()
    assert error_of(made, batch(b"a")) == 0
    made.disk.fail_at(0)
    assert error_of(made, batch(b"b")) == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer_of(made, request(batch(b"c"))).base_offset == 1


def test_the_batch_is_stored_as_it_was_sent() -> None:
    """A stored batch differs from the sent batch only in base offset and leader epoch."""
    made = broker()
    first, second = batch(b"a"), batch(b"b", compression=Compression.GZIP)
    for records in (first, second):
        error_of(made, records)
    stored = made.topics.log("t", 0).read(1, 10_000)
    assert stored[16:] == second[16:]
    assert struct.unpack_from(">qii", stored) == (1, len(second) - 12, 0)


def test_an_empty_request() -> None:
    """A Produce request without topics gets a response without topics."""
    assert broker().ask(ProduceRequest(acks=1), 9).responses == []
