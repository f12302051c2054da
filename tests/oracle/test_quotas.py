"""Quotas: Kafka and our broker give the same answers and throttle the same clients."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.apis.alter_client_quotas import AlterClientQuotasRequest
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from protocol.json_form import to_json
from tests.faults.client import Client
from tests.oracle.kafka_process import Kafka
from tests.oracle.quota_cases import CASES, Case, Names, Operations, alter, describe
from tests.scripts.player import AREAS, OfficialTools, Player, cases, differences
from tests.support import Broker, address_of, wait_for

SETTLE_SECONDS = 0.3
RATE = 200_000
RECORD = bytes(260_000)  # the eighth record of this size exceeds the quota
_ALL: Names = [("user", None)]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of a Kafka."""
    kafka = Kafka(tmp_path_factory.mktemp("kafka"), {})
    try:
        kafka.start()
        yield kafka.bootstrap_servers
    finally:
        kafka.end()


def forget_all(servers: str) -> None:
    """Remove all quotas that an earlier test may have left."""
    client = Client(address_of(servers))
    found = client.ask(describe().request, 1).entries
    changes: list[tuple[Names, Operations]] = [
        (
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [(value.key, None) for value in entry.values],
        )
        for entry in found
    ]
    client.ask(alter(*changes).request, 1)
    wait_for(lambda: not client.ask(describe().request, 1).entries, "the quotas are gone")
    client.close()


def answers(servers: str) -> list[dict[str, Any]]:
    """Return a broker's answers with sorted entities: Kafka's order is that of a hash table.

    The values of an entity keep the broker's order.
    """
    forget_all(servers)
    client = Client(address_of(servers))
    told = []
    is_settled = True
    for case in CASES:
        is_change = isinstance(case.request, AlterClientQuotasRequest)
        if not is_change and not is_settled:
            # A broker of Kafka applies changes shortly after the response.
            time.sleep(SETTLE_SECONDS)
        is_settled = not is_change
        answer: dict[str, Any] = to_json(client.ask(case.request, case.version), case.version)
        for entry in answer["entries"] or ():
            entry["entity"].sort(key=str)
        if answer["entries"]:
            answer["entries"].sort(key=str)
        told.append(answer)
    client.close()
    return told


def text(case: Case) -> str:
    """Return the version and fields of a request, for the message of a failed test."""
    return f"v{case.version} {case.request}"


def throttled(servers: str) -> dict[str, list[int]]:
    """Return the throttle times of requests that exceed each of a client's quotas."""
    client = Client(address_of(servers), timeout_seconds=60)
    limits: Operations = [
        ("producer_byte_rate", RATE),
        ("consumer_byte_rate", RATE),
        ("controller_mutation_rate", 1.0),
    ]
    client.ask(alter((_ALL, limits)).request, 1)
    time.sleep(1)  # a broker of Kafka applies changes shortly after the response

    def create(name: str, version: int) -> tuple[int, int]:
        topic = CreatableTopic(name=name, num_partitions=12, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    created = [create("t", 6), create("u", 6), create("v", 5), create("w", 6)]
    wait_for(lambda: produce(client, b"x") >= 0, "the topic is there")
    times = {
        "produce": [produce(client, RECORD) for _ in range(10)],
        "errors of created": [error for error, _ in created],
        "created": [throttle_ms for _, throttle_ms in created],
    }
    fetched = [fetch(client, offset) for offset in range(1, 11)]
    times["fetch"] = [throttle_ms for throttle_ms, _ in fetched]
    times["fetched partitions"] = [count for _, count in fetched]
    client.ask(alter((_ALL, [(key, None) for key, _ in limits])).request, 1)
    client.close()
    return times


def produce(client: Client, value: bytes) -> int:
    """Return the throttle time of producing one record; negative if it was refused."""
    records = build_batch([Record(0, 0, None, value)]).to_bytes()
    data = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=records)]
    )
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    (result,) = answer.responses[0].partition_responses
    throttle_ms: int = -result.error_code or answer.throttle_time_ms
    return throttle_ms


def fetch(client: Client, offset: int) -> tuple[int, int]:
    """Return the throttle time of fetching one record, and the number of topics in the response."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    answer = client.ask(request, 12)
    return answer.throttle_time_ms, len(answer.responses)


@pytest.mark.nightly
def test_throttle_times_are_kafkas(apache: str) -> None:
    """The throttle times of the same sequence of requests are approximately equal."""
    theirs = throttled(apache)
    with Broker() as broker:
        ours = throttled(broker.bootstrap_servers)
    print(f"ours  {ours}\nKafka {theirs}")
    for exact in ("errors of created", "fetched partitions"):
        assert ours[exact] == theirs[exact], exact
    for name in ("produce", "created", "fetch"):
        assert ours[name] == [pytest.approx(one, rel=0.1, abs=300) for one in theirs[name]], name
    assert max(theirs["produce"]) > 0 < max(theirs["fetch"])


@pytest.mark.nightly
def test_kafkas_own_tool_prints_the_same(apache: str, tmp_path: Path) -> None:
    """kafka-configs prints the same about our broker and about Kafka, without credentials."""
    lines = [
        case
        for case in cases(AREAS[0])
        if re.search(r"--(user|client|ip)\b|users|clients|--(user|client|ip)-defaults", case.line)
        and not re.search(r"SCRAM|client-metrics|--describe --user @u$", case.line)
    ]
    assert len(lines) >= 25
    forget_all(apache)
    differing = []
    with OfficialTools() as official, Broker() as broker:
        about_us = Player(official, broker.bootstrap_servers, "k-", tmp_path / "ours")
        about_kafka = Player(official, apache, "k-", tmp_path / "kafka")
        for case in lines:
            expected, told = about_kafka.play(case), about_us.play(case)
            end = time.monotonic() + 5
            while case.only_reads and told != expected and time.monotonic() < end:
                expected = about_kafka.play(case)
            if told != expected:
                differing.append((case.line, expected, told))
    assert not differing, differences(differing)


@pytest.mark.nightly
def test_answers_are_kafkas(apache: str) -> None:
    """Every field of every answer is equal, for valid and invalid requests."""
    theirs = answers(apache)
    with Broker() as broker:
        ours = answers(broker.bootstrap_servers)
    differing = [
        f"{text(case)}\n  ours  {our}\n  Kafka {their}"
        for case, our, their in zip(CASES, ours, theirs, strict=True)
        if str(our) != str(their)  # compared as text, because NaN does not equal NaN
    ]
    assert not differing, "\n".join(differing)
