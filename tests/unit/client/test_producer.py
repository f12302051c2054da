"""The producer against failing brokers: retries, and records that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.client import Client, ClientError, ClientSettings
from coordinator_server.client.producer import Producer, ProducerSettings
from protocol.batch import Record, iterate_records
from protocol.batch_header import BatchHeader, iterate_batches
from protocol.errors import ErrorCode
from protocol.hashing import partition_for_key


class Cluster:
    """A client of one broker, which answers each Produce with the next error in `errors`.

    The first `unreachable` connections fail; a batch of more than `largest` records is too large.
    """

    settings = ClientSettings()

    def __init__(
        self,
        *errors: ErrorCode,
        partitions: int = 1,
        unreachable: int = 0,
        largest: int = 1_000_000,
    ) -> None:
        self._errors = list(errors)
        self.partitions = partitions
        self._unreachable = unreachable
        self._largest = largest
        self.batches: list[tuple[int, BatchHeader, list[bytes | None]]] = []
        """The sent batches: partition, header, values."""
        self.producer_ids = 0

    def metadata(self, names: list[str], *, create: bool) -> Any:
        """Return the topic, led by broker 1."""
        partitions = [
            SimpleNamespace(partition_index=index, leader_id=1) for index in range(self.partitions)
        ]
        topic = SimpleNamespace(name=names[0], error_code=0, partitions=partitions)
        return SimpleNamespace(topics=[topic])

    def ask(self, request: Any, node_id: int | None) -> Any:
        """Return a producer id."""
        assert type(request).__name__ == "InitProducerIdRequest"
        self.producer_ids += 1
        return SimpleNamespace(error_code=0, producer_id=self.producer_ids, producer_epoch=0)

    def connection(self, node_id: int) -> Any:
        """Return a connection, which takes Produce requests."""
        if self._unreachable:
            self._unreachable -= 1
            raise ClientError(ErrorCode.NETWORK_EXCEPTION)
        return SimpleNamespace(ask=self._produce, send=self._produce)

    def _produce(self, request: Any, **_: Any) -> Any:
        answers = []
        for partition in request.topic_data[0].partition_data:
            (header,) = iterate_batches(partition.records)
            values = [record.value for record in iterate_records(partition.records, header)]
            self.batches.append((partition.index, header, values))
            code = self._errors.pop(0) if self._errors else ErrorCode.NONE
            if len(values) > self._largest:
                code = ErrorCode.MESSAGE_TOO_LARGE
            if code is ErrorCode.NETWORK_EXCEPTION:
                raise ClientError(code)
            answers.append(
                SimpleNamespace(
                    index=partition.index, error_code=code, error_message=None, base_offset=7
                )
            )
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=answers)])


class Outcome:
    """A producer, and the records that it failed to write."""

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        self.failed: list[tuple[bytes | None, ErrorCode]] = []
        self.messages: list[str] = []
        self.producer = Producer(
            cast(Client, cluster),
            "t",
            ProducerSettings(retry_backoff_ms=0, **settings),
            self._fail,
            lambda _: None,
        )

    def _fail(self, record: Record, error: ClientError) -> None:
        self.failed.append((record.value, error.code))
        self.messages.append(str(error))

    def write(self, *values: bytes) -> None:
        """Write records without keys in one batch."""
        for value in values:
            self.producer.add(None, value, [])
        self.producer.flush()


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION])
def test_a_batch_is_sent_again_with_its_sequence_numbers(error: ErrorCode) -> None:
    """A retried batch keeps its sequence numbers, so that the broker detects duplicates.

    The next batch continues after these numbers.
    """
    cluster = Cluster(error)
    outcome = Outcome(cluster)
    outcome.write(b"1", b"2")
    outcome.write(b"3")
    sent = [(header.base_sequence, values) for _, header, values in cluster.batches]
    assert sent == [(0, [b"1", b"2"]), (0, [b"1", b"2"]), (2, [b"3"])]
    assert (outcome.failed, cluster.producer_ids) == ([], 1)


def test_after_the_last_retry_the_records_fail_and_their_numbers_are_not_used_again() -> None:
    """After the last retry the records fail, and their sequence numbers are not used again.

    The broker may still have written them, so the producer gets a new producer id.
    """
    cluster = Cluster(*[ErrorCode.NETWORK_EXCEPTION] * 3)
    outcome = Outcome(cluster, retries=2)
    outcome.write(b"1", b"2")
    outcome.write(b"3")
    assert outcome.failed == [
        (b"1", ErrorCode.NETWORK_EXCEPTION),
        (b"2", ErrorCode.NETWORK_EXCEPTION),
    ]
    _, header, values = cluster.batches[-1]
    assert (header.producer_id, header.base_sequence, values) == (2, 0, [b"3"])


def test_an_error_that_stays_is_not_tried_again() -> None:
    """MESSAGE_TOO_LARGE is not retriable and fails the records at once."""
    cluster = Cluster(ErrorCode.MESSAGE_TOO_LARGE)
    outcome = Outcome(cluster)
    outcome.write(b"1")
    assert outcome.failed == [(b"1", ErrorCode.MESSAGE_TOO_LARGE)]
    assert len(cluster.batches) == 1


def test_a_broker_that_has_forgotten_the_producer_gets_a_new_one() -> None:
    """After UNKNOWN_PRODUCER_ID, as after retention, the batch is sent with a new producer id."""
    cluster = Cluster(ErrorCode.UNKNOWN_PRODUCER_ID)
    outcome = Outcome(cluster)
    outcome.write(b"1")
    assert [header.producer_id for _, header, _ in cluster.batches] == [1, 2]
    assert outcome.failed == []


def test_without_keys_a_batch_fills_before_the_partition_changes() -> None:
    """Without keys a batch fills before the partition changes; every partition gets records."""
    cluster = Cluster(partitions=2)
    outcome = Outcome(cluster, batch_size=200)
    for number in range(200):
        outcome.producer.add(None, b"%040d" % number, [])
    assert len(cluster.batches) > 1
    outcome.producer.flush()
    assert {len(values) for _, _, values in cluster.batches[:-2]} <= {2, 3}
    assert {index for index, _, _ in cluster.batches} == {0, 1}
    written = [value or b"" for _, _, values in cluster.batches for value in values]
    assert sorted(written) == [b"%040d" % number for number in range(200)]


def test_a_broker_that_cannot_be_reached_uses_up_no_attempt() -> None:
    """A batch waits for an unreachable broker until delivery.timeout.ms, without using a retry."""
    cluster = Cluster(unreachable=5)
    outcome = Outcome(cluster, retries=1)
    outcome.write(b"1")
    assert outcome.failed == []
    assert [values for _, _, values in cluster.batches] == [[b"1"]]


def test_a_batch_that_no_broker_takes_in_time_fails() -> None:
    """A batch fails at delivery.timeout.ms with the text of Kafka's TimeoutException."""
    cluster = Cluster(unreachable=1)
    outcome = Outcome(cluster, delivery_timeout_ms=0)
    outcome.write(b"1", b"2")
    assert outcome.failed == [
        (b"1", ErrorCode.REQUEST_TIMED_OUT),
        (b"2", ErrorCode.REQUEST_TIMED_OUT),
    ]
    assert outcome.messages[0].startswith("Expiring 2 record(s) for t-0:")
    assert cluster.batches == []


def test_a_batch_that_is_too_large_is_sent_in_smaller_ones() -> None:
    """A batch that is too large is split, and its records keep their order.

    max.message.bytes of the topic may be lower than batch.size.
    """
    cluster = Cluster(largest=2)
    outcome = Outcome(cluster)
    outcome.write(b"1", b"2", b"3", b"4", b"5")
    written = [
        (header.base_sequence, values) for _, header, values in cluster.batches if len(values) <= 2
    ]
    assert written == [(0, [b"1", b"2"]), (2, [b"3"]), (3, [b"4", b"5"])]
    assert (outcome.failed, cluster.producer_ids) == ([], 1)


def test_a_partition_that_is_gone_fails_its_records_alone() -> None:
    """Records of a partition that no longer exists fail; the other records are written.

    The topic may be recreated with fewer partitions during a retry.
    """
    cluster = Cluster(ErrorCode.NOT_LEADER_OR_FOLLOWER, partitions=3)
    outcome = Outcome(cluster, delivery_timeout_ms=100)
    keys = (b"%d" % number for number in range(100))
    outcome.producer.add(next(key for key in keys if partition_for_key(key, 3) == 2), b"1", [])
    cluster.partitions = 1
    outcome.producer.flush()
    assert outcome.failed == [(b"1", ErrorCode.REQUEST_TIMED_OUT)]


@pytest.mark.parametrize(("acks", "offsets"), [(-1, [7, 8]), (0, [-1, -1])])
def test_each_record_that_is_written_is_told(acks: int, offsets: list[int]) -> None:
    """Each written record is reported with its partition and, except with acks=0, its offset."""
    written: list[tuple[bytes | None, int, int]] = []

    def tell(record: Record, partition: int) -> None:
        written.append((record.value, partition, record.offset))

    settings = ProducerSettings(retry_backoff_ms=0, acks=acks, is_idempotent=acks != 0)
    cluster = cast(Client, Cluster(ErrorCode.NOT_LEADER_OR_FOLLOWER) if acks else Cluster())
    producer = Producer(cluster, "t", settings, lambda *_: None, lambda _: None, tell)
    for value in (b"a", b"b"):
        producer.add(None, value, [])
    producer.flush()
    assert written == [(b"a", 0, offsets[0]), (b"b", 0, offsets[1])]
