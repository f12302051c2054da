"""The producer against brokers that fail: what is sent again, and what is given up."""

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
    """A client of one broker, which answers each Produce with the next of `errors`, then none.

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
        """What was sent: partition, header, values."""
        self.producer_ids = 0

    def metadata(self, names: list[str], *, create: bool) -> Any:
        """The topic, led by broker 1."""
        partitions = [
            SimpleNamespace(partition_index=index, leader_id=1) for index in range(self.partitions)
        ]
        topic = SimpleNamespace(name=names[0], error_code=0, partitions=partitions)
        return SimpleNamespace(topics=[topic])

    def ask(self, request: Any, node_id: int | None) -> Any:
        """A producer id."""
        assert type(request).__name__ == "InitProducerIdRequest"
        self.producer_ids += 1
        return SimpleNamespace(error_code=0, producer_id=self.producer_ids, producer_epoch=0)

    def connection(self, node_id: int) -> Any:
        """A connection, which takes Produce requests."""
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
    """A producer, and the records that it could not write."""

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
    """The broker knows it by them, if it has written it; the next batch goes on after it."""
    cluster = Cluster(error)
    outcome = Outcome(cluster)
    outcome.write(b"1", b"2")
    outcome.write(b"3")
    sent = [(header.base_sequence, values) for _, header, values in cluster.batches]
    assert sent == [(0, [b"1", b"2"]), (0, [b"1", b"2"]), (2, [b"3"])]
    assert (outcome.failed, cluster.producer_ids) == ([], 1)


def test_after_the_last_retry_the_records_fail_and_their_numbers_are_not_used_again() -> None:
    """They may be written all the same: a new producer id keeps the next ones apart."""
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
    """MESSAGE_TOO_LARGE of the broker fails at once."""
    cluster = Cluster(ErrorCode.MESSAGE_TOO_LARGE)
    outcome = Outcome(cluster)
    outcome.write(b"1")
    assert outcome.failed == [(b"1", ErrorCode.MESSAGE_TOO_LARGE)]
    assert len(cluster.batches) == 1


def test_a_broker_that_has_forgotten_the_producer_gets_a_new_one() -> None:
    """UNKNOWN_PRODUCER_ID, as after retention: the batch is sent again under a new id."""
    cluster = Cluster(ErrorCode.UNKNOWN_PRODUCER_ID)
    outcome = Outcome(cluster)
    outcome.write(b"1")
    assert [header.producer_id for _, header, _ in cluster.batches] == [1, 2]
    assert outcome.failed == []


def test_without_keys_a_batch_fills_before_the_partition_changes() -> None:
    """A full batch is sent at once, and in all every partition gets records."""
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
    """It restarts: the batch waits for it, for as long as delivery.timeout.ms allows."""
    cluster = Cluster(unreachable=5)
    outcome = Outcome(cluster, retries=1)
    outcome.write(b"1")
    assert outcome.failed == []
    assert [values for _, _, values in cluster.batches] == [[b"1"]]


def test_a_batch_that_no_broker_takes_in_time_fails() -> None:
    """With the text of Kafka's TimeoutException; delivery.timeout.ms is over at once here."""
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
    """max.message.bytes of the topic may be less than batch.size; the order of records stays."""
    cluster = Cluster(largest=2)
    outcome = Outcome(cluster)
    outcome.write(b"1", b"2", b"3", b"4", b"5")
    written = [
        (header.base_sequence, values) for _, header, values in cluster.batches if len(values) <= 2
    ]
    assert written == [(0, [b"1", b"2"]), (2, [b"3"]), (3, [b"4", b"5"])]
    assert (outcome.failed, cluster.producer_ids) == ([], 1)


def test_a_partition_that_is_gone_fails_its_records_alone() -> None:
    """The topic was deleted and created with fewer partitions, while a batch was sent again."""
    cluster = Cluster(ErrorCode.NOT_LEADER_OR_FOLLOWER, partitions=3)
    outcome = Outcome(cluster, delivery_timeout_ms=100)
    keys = (b"%d" % number for number in range(100))
    outcome.producer.add(next(key for key in keys if partition_for_key(key, 3) == 2), b"1", [])
    cluster.partitions = 1
    outcome.producer.flush()
    assert outcome.failed == [(b"1", ErrorCode.REQUEST_TIMED_OUT)]


@pytest.mark.parametrize(("acks", "offsets"), [(-1, [7, 8]), (0, [-1, -1])])
def test_each_record_that_is_written_is_told(acks: int, offsets: list[int]) -> None:
    """With its partition and its offset, which nobody knows with acks=0."""
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
