"""Faults on demand with real clients: each fault shows in a client, and the client recovers."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import confluent_kafka
import kafka as kafka_python
import pytest
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Partition

from coordinator_server.testing import Broker, TopicPartition
from coordinator_server.testing.control import BrokerError
from protocol.apis.api_versions import ApiVersionsRequest
from protocol.apis.metadata import MetadataRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import Message
from tests.harness.client import Client
from tests.harness.records import batch
from tests.support import Serve
from tests.testing.support import outcomes

pytest_plugins = ["pytester"]


def consumer_of(kafka: Broker, group: str = "app") -> kafka_python.KafkaConsumer:
    """Return a consumer of a partition of `orders` that commits when it is told to."""
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
        request_timeout_ms=11_000,
    )
    consumer.assign([Partition("orders", 0)])
    return consumer


def values(consumer: kafka_python.KafkaConsumer) -> list[bytes]:
    """Return the values that a consumer polls within ten seconds, as soon as there are any."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        polled = consumer.poll(timeout_ms=500)
        if polled:
            return [record.value for records in polled.values() for record in records]
    return []


def commit(consumer: kafka_python.KafkaConsumer, offset: int) -> None:
    """Commit an offset of `orders`."""
    consumer.commit({Partition("orders", 0): OffsetAndMetadata(offset, "", -1)})


def test_a_client_finds_the_coordinator_again(kafka: Broker) -> None:
    """After three NOT_COORDINATOR answers kafka-python's commit succeeds, and the rule is over."""
    kafka.produce("orders", "a")
    consumer = consumer_of(kafka)
    with kafka.faults.error("OffsetCommit", "NOT_COORDINATOR", times=3) as fault:
        commit(consumer, 1)
        assert fault.injected == 3
        assert kafka.faults.rules()[0]["is_over"]
    assert kafka.faults.rules() == []
    assert kafka.committed("app") == {TopicPartition("orders", 0): 1}
    consumer.close()


def test_an_error_that_clients_do_not_retry_reaches_the_user(kafka: Broker) -> None:
    """A denied partition raises TopicAuthorizationFailedError; without the rule commits succeed."""
    kafka.produce("orders", "a")
    consumer = consumer_of(kafka)
    with (
        kafka.faults.error("OffsetCommit", "TOPIC_AUTHORIZATION_FAILED", topic="ord*"),
        pytest.raises(TopicAuthorizationFailedError),
    ):
        commit(consumer, 1)
    commit(consumer, 1)
    consumer.close()


@pytest.mark.parametrize("fault", ["drop-before", "drop-after", "cut"])
def test_a_producer_sends_again_after_a_lost_connection(kafka: Broker, fault: str) -> None:
    """An idempotent librdkafka producer reconnects, and the log has each record once."""
    kafka.create_topic("orders", 1)
    if fault == "cut":
        rule = kafka.faults.cut("Produce", times=2)
    else:
        rule = kafka.faults.drop("Produce", fault.removeprefix("drop-"), times=2)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
        }
    )
    for number in range(3):
        producer.produce("orders", str(number).encode())
        assert producer.flush(20) == 0
    assert rule.injected == 2
    assert [record.value for record in kafka.consume("orders", 3)] == [b"0", b"1", b"2"]


def test_a_delay_holds_one_client_and_no_other(kafka: Broker) -> None:
    """The named client waits for the delay; another client is served meanwhile."""
    kafka.create_topic("orders", 1)
    kafka.faults.delay("Metadata", 1_500, client_id="slow")
    waits = {}
    for name in ("slow", "quick"):
        client = confluent_kafka.Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "client.id": name, "group.id": "app"}
        )
        began = time.monotonic()
        client.list_topics("orders", timeout=20)
        waits[name] = time.monotonic() - began
        client.close()
    assert waits["slow"] >= 1.5
    assert waits["quick"] < 1.5


def test_a_fetch_fails_for_one_partition(kafka: Broker) -> None:
    """The consumer gets the record once the leader is no longer missing."""
    kafka.produce("orders", "a")
    with kafka.faults.error(
        "Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, times=2
    ) as fault:
        consumer = consumer_of(kafka)
        assert values(consumer) == [b"a"]
        assert fault.injected == 2
    consumer.close()


def test_a_corrupt_batch_is_fetched_again(kafka: Broker) -> None:
    """librdkafka with `check.crcs` reports the wrong CRC, and then reads the record."""
    kafka.produce("orders", "a")
    reported = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "app",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.error.backoff.ms": 50,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    with kafka.faults.corrupt(topic="orders", times=1) as fault:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                break
            if message is not None:
                reported.append(message.error().name())
        assert fault.injected == 1
    assert message is not None
    assert message.value() == b"a"
    assert reported == ["_BAD_MSG"]
    consumer.close()


def test_a_reset_removes_the_rules(kafka: Broker) -> None:
    """The next test of a suite meets no fault of the test before."""
    kafka.faults.error("Metadata", "LEADER_NOT_AVAILABLE")
    kafka.reset()
    assert kafka.faults.rules() == []


def test_an_impossible_rule_is_refused(kafka: Broker) -> None:
    """The error names what is possible, and no rule is added."""
    with pytest.raises(BrokerError, match="Kafka never returns TOPIC_ALREADY_EXISTS for Heartbeat"):
        kafka.faults.error("Heartbeat", "TOPIC_ALREADY_EXISTS")
    assert kafka.faults.rules() == []


def test_each_fault_is_an_event(kafka: Broker) -> None:
    """`GET /events` has an event for each request that meets a fault."""
    kafka.produce("orders", "a")
    consumer = consumer_of(kafka)
    with ThreadPoolExecutor() as pool:
        events = kafka.control.events("/events", {"types": "fault"})
        first = pool.submit(next, events)
        while not first.done():  # the request for events may be served after the first commit
            kafka.faults.error("OffsetCommit", "NOT_COORDINATOR", times=1)
            commit(consumer, 1)
        event = first.result()
    assert event["type"] == "fault"
    assert event["data"]["api"] == "OffsetCommit"
    assert event["data"]["action"] == "error"
    consumer.close()


def test_the_marker_adds_rules_for_one_test(pytester: pytest.Pytester) -> None:
    """`kafka_faults` marks a test, and the broker's log in a failed test's report has the fault."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_faults(api="ListGroups", delay_ms=1)
        @pytest.mark.kafka_faults(api="Metadata", error="LEADER_NOT_AVAILABLE", times=1)
        def test_marked(kafka):
            import kafka as kafka_python
            rules = [rule["rule"]["api"] for rule in kafka.faults.rules()]
            assert rules == ["ListGroups", "Metadata"]
            with kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send("orders", b"x").get(20)
            assert False

        def test_unmarked(kafka):
            assert kafka.faults.rules() == []
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore")
    assert outcomes(result) == {"failed": 1, "passed": 1}
    result.stdout.fnmatch_lines(["*fault.injected*action=error api=Metadata*"])


def frame_of(request: Message, version: int) -> bytes:
    """Return the frame of a request, with its length."""
    frame = Client().frame(request, version, "raw")[1]
    return len(frame[4:]).to_bytes(4, "big") + frame[4:]


def received(kafka: Broker, *frames: bytes) -> bytes:
    """Send frames at once; return the bytes that the broker sends before it closes."""
    host, _, port = kafka.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"".join(frames))
        chunks = iter(partial(connection.recv, 65536), b"")
        return b"".join(chunks)


def test_nothing_follows_half_a_response(kafka: Broker) -> None:
    """A request that the client has sent behind the first one is not answered."""
    kafka.faults.add(api="Metadata", late_ms=50, cut=True)
    frames = [frame_of(MetadataRequest(topics=[]), 12), frame_of(ApiVersionsRequest(), 0)]
    answer = received(kafka, *frames)
    length = int.from_bytes(answer[:4], "big")
    assert len(answer) == (4 + length) // 2


def test_a_produce_behind_a_refused_one_without_acks_is_not_served(kafka: Broker) -> None:
    """The error of a Produce with acks=0 closes the connection before the next request."""
    kafka.create_topic("orders", 1)
    kafka.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", delay_ms=50, times=1)
    frames = []
    for acks in (0, 1):
        data = PartitionProduceData(index=0, records=batch(b"v"))
        topic = TopicProduceData(name="orders", partition_data=[data])
        frames.append(frame_of(ProduceRequest(acks=acks, timeout_ms=9, topic_data=[topic]), 12))
    assert received(kafka, *frames) == b""
    assert kafka.consume("orders", None) == []


def test_a_rule_of_a_file_begins_again_at_a_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the rule is measured from the reset, also if the clock was advanced before."""
    file = tmp_path / "faults.json"
    file.write_text('[{"api": "ListGroups", "delay_ms": 1, "for_ms": 60000}]')
    monkeypatch.setenv("COORDINATOR_SERVER_FAULTS", str(file))
    with Broker() as broker:
        broker.clock.advance(61)
        assert [rule["is_over"] for rule in broker.faults.rules()] == [True]
        broker.reset()
        assert [rule["is_over"] for rule in broker.faults.rules()] == [False]
        broker.clock.advance(61)
        assert [rule["is_over"] for rule in broker.faults.rules()] == [True]


RULES = {
    "toml": '[[faults]]\napi = "ListGroups"\nerror = "COORDINATOR_NOT_AVAILABLE"\n',
    "yaml": "faults:\n- api: ListGroups\n  error: COORDINATOR_NOT_AVAILABLE\n",
    "json": '[{"api": "ListGroups", "error": "COORDINATOR_NOT_AVAILABLE"}]',
}


@pytest.mark.parametrize("suffix", RULES)
def test_rules_of_a_file_are_active_from_the_start(tmp_path: Path, suffix: str) -> None:
    """`serve --faults FILE` serves the first request of a client with the rules of the file."""
    file = tmp_path / f"faults.{suffix}"
    file.write_text(RULES[suffix])
    with Serve("--faults", str(file)) as broker:
        admin = kafka_python.KafkaAdminClient(
            bootstrap_servers=[f"{broker.address[0]}:{broker.address[1]}"]
        )
        with pytest.raises(kafka_python.errors.KafkaError, match="CoordinatorNotAvailable"):
            admin.list_groups()
        admin.close()
