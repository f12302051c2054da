"""Quotas slow real clients down to their rates without affecting other clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from benchmarks.probe import Probe, percentile
from coordinator_server.client import Client
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from protocol.apis.api_versions import ApiVersionsRequest
from protocol.apis.describe_client_quotas import DescribeClientQuotasRequest
from protocol.apis.metadata import MetadataRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from tests.faults.client import Client as FrameClient
from tests.faults.client import GoneError, frame_of
from tests.support import Broker

RECORD = bytes(10_000)
RATE = 200_000.0
ALONE_SECONDS = 4.0
MOST_MORE_MS = 20


def alter(servers: str, quotas: Mapping[str, float | None], **names: str | None) -> None:
    """Set quotas of an entity (None removes them); entity types are given with _ for -."""
    entity = [
        AlteredQuotaEntity(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in names.items()
    ]
    operations = [
        QuotaOperation(key=key, value=value or 0.0, remove=value is None)
        for key, value in quotas.items()
    ]
    client = Client(servers)
    try:
        answer: AlterClientQuotasResponse = client.ask_controller(
            "alterClientQuotas",
            AlterClientQuotasRequest(entries=[AlterQuotaEntry(entity=entity, ops=operations)]),
        )
    finally:
        client.close()
    assert [one.error_message for one in answer.entries] == [None]


def described(servers: str) -> dict[str, float]:
    """Return all quotas of all entities."""
    client = Client(servers)
    try:
        answer = client.ask(DescribeClientQuotasRequest(strict=False))
    finally:
        client.close()
    return {value.key: value.value for entry in answer.entries for value in entry.values}


def producer(servers: str, client_id: str) -> KafkaProducer:
    """Return a producer that sends one record per request."""
    return KafkaProducer(
        bootstrap_servers=servers,
        client_id=client_id,
        batch_size=0,
        max_in_flight_requests_per_connection=1,
    )


def produced_for(seconds: float, one: KafkaProducer, topic: str) -> float:
    """Produce at full speed and return the acknowledged bytes per second."""
    began = time.monotonic()
    sent = 0
    while time.monotonic() - began < seconds:
        one.send(topic, RECORD).get(timeout=30)
        sent += len(RECORD)
    return sent / (time.monotonic() - began)


def fetched_for(seconds: float, one: KafkaConsumer) -> float:
    """Return the bytes of values fetched per second."""
    began = time.monotonic()
    got = 0
    while time.monotonic() - began < seconds:
        for records in one.poll(timeout_ms=200).values():
            got += sum(len(record.value) for record in records)
    return got / (time.monotonic() - began)


def small_produce(topic: str) -> bytes:
    """Return a Produce request frame with one small record."""
    record = Record(0, time.time_ns() // 1_000_000, None, b"x")
    data = PartitionProduceData(index=0, records=build_batch([record]).to_bytes())
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return frame_of(request, 9)


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def p99_ms(probe: Probe) -> float:
    """Return the p99 of the probe's latencies since the last call."""
    return percentile(probe.waits_ms(), 0.99)


def test_a_producer_is_slowed_down_while_it_is_connected() -> None:
    """A quota applies to a connected producer from its next request on, until it is removed."""
    with Broker(quota_window_num=2) as broker:
        servers = broker.bootstrap_servers
        one = producer(servers, "slow")
        try:
            one.send("t", RECORD).get(timeout=30)  # this record creates the topic
            fast = produced_for(1, one, "t")
            alter(servers, {"producer_byte_rate": RATE}, client_id="slow")
            # The broker counts bytes only since the quota was set. This second of load uses up the
            # burst that is left.
            produced_for(1, one, "t")
            slow = produced_for(2, one, "t")
            alter(servers, {"producer_byte_rate": None}, client_id="slow")
            produced_for(0.5, one, "t")
            again = produced_for(0.5, one, "t")
        finally:
            one.close()
    print(f"{fast:,.0f} B/s, with a quota of {RATE:,.0f}: {slow:,.0f}, without it {again:,.0f}")
    assert slow < 1.5 * RATE < min(fast, again)


@pytest.mark.nightly
@pytest.mark.alone
@pytest.mark.real_time
def test_one_client_is_slowed_to_its_rate_and_another_is_not_touched() -> None:
    """Produce and fetch rates are within 10 % of the quotas, and a neighbour's p99 does not rise.

    The neighbour runs in a separate process, so that the other clients cannot delay it. Its p99
    without load is measured before, between and after, so that a busy machine affects both values.
    """
    with Broker(quota_window_num=2) as broker:
        servers = broker.bootstrap_servers
        one = producer(servers, "slow")
        one.send("n", b"x").get(timeout=30)  # this record creates the topic
        reader = KafkaConsumer(
            "t",
            bootstrap_servers=servers,
            client_id="slow",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=len(RECORD),  # a larger fetch would use up the quota
        )
        alone, beside = [], []
        try:
            produced_for(1.5, one, "t")
            quotas = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
            alter(servers, quotas, client_id="slow")
            with Probe(broker, small_produce("n"), 0.005) as neighbour:

                def measured(work: Callable[[], float]) -> float:
                    """Return the rate of `work`; record the neighbour's p99 during and after it."""
                    neighbour.waits_ms()
                    given = work()
                    beside.append(p99_ms(neighbour))
                    time.sleep(ALONE_SECONDS)
                    alone.append(p99_ms(neighbour))
                    return given

                time.sleep(ALONE_SECONDS)
                alone.append(p99_ms(neighbour))
                produced_for(2.5, one, "t")
                produced = measured(lambda: produced_for(8, one, "t"))
                fetched_for(2.5, reader)
                fetched = measured(lambda: fetched_for(8, reader))
        finally:
            for client in (one, reader):
                client.close()
    print(
        f"a quota of {RATE:,.0f} B/s: {produced:,.0f} produced, {fetched:,.0f} fetched; p99 of the"
        f" neighbour {_shown(alone)} ms alone, {_shown(beside)} beside producer and consumer"
    )
    assert produced == pytest.approx(RATE, rel=0.1)
    assert fetched == pytest.approx(RATE, rel=0.1)
    for number, p99 in enumerate(beside):
        assert p99 < max(alone[number : number + 2]) + MOST_MORE_MS


def test_quotas_are_kept(tmp_path: Path) -> None:
    """Quotas survive a restart and are enforced after it; a reset removes them."""
    with Broker(data_dir=tmp_path) as broker:
        alter(broker.bootstrap_servers, {"producer_byte_rate": 1000.0}, user=None)
    with Broker(data_dir=tmp_path, quota_window_num=2) as broker:
        assert described(broker.bootstrap_servers) == {"producer_byte_rate": 1000.0}
        one = producer(broker.bootstrap_servers, "any")
        try:
            began = time.monotonic()
            for _ in range(2):
                one.send("t", bytes(1500)).get(timeout=30)
            took = time.monotonic() - began
        finally:
            one.close()
        broker.reset()
        assert described(broker.bootstrap_servers) == {}
    assert took > 0.4


def test_requests_take_their_share_of_time() -> None:
    """A request quota counts all requests of a client, and responses have the throttle time."""
    with Broker(quota_window_num=2) as broker:
        client = FrameClient(broker.address)
        free, _ = asked_for(1, client)
        alter(broker.bootstrap_servers, {"request_percentage": 1.0}, user=None)
        limited, throttled_ms = asked_for(2, client)
        client.close()
    print(f"{free:,.0f} requests a second, with 1 % of a thread {limited:,.0f}")
    assert limited < free / 3
    assert throttled_ms > 500


def asked_for(seconds: float, client: FrameClient) -> tuple[float, int]:
    """Return the requests per second, and the total throttle time in ms."""
    began = time.monotonic()
    count = throttled_ms = 0
    while time.monotonic() - began < seconds:
        throttled_ms += client.ask(MetadataRequest(topics=None), 12).throttle_time_ms
        count += 1
    return count / (time.monotonic() - began), throttled_ms


def test_connections_of_an_address_come_by_its_quota() -> None:
    """Connections above the quota of an address are not served; later connections are."""
    with Broker(quota_window_num=2) as broker:
        alter(broker.bootstrap_servers, {"connection_creation_rate": 3.0}, ip="127.0.0.1")
        time.sleep(1.2)  # after this wait, the connection that set the quota no longer counts
        served = [is_served(broker.address) for _ in range(4)]
        time.sleep(2.2)
        assert is_served(broker.address)
    assert served == [True, True, True, False]


def test_a_listener_accepts_by_its_rate() -> None:
    """Connections above a listener's creation rate wait, and none is refused."""
    with Broker({"max.connection.creation.rate": 4, "quota.window.num": 2}) as broker:
        began = time.monotonic()
        assert all(is_served(broker.address) for _ in range(10))
        took = time.monotonic() - began
    assert 0.8 < took < 5


def is_served(address: tuple[str, int]) -> bool:
    """Return whether a new connection gets a response."""
    client = FrameClient(address)
    try:
        client.ask(ApiVersionsRequest(), 0)
    except GoneError:
        return False
    finally:
        client.close()
    return True
