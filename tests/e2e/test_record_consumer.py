"""The consumer of the console tool with partitions that currently cannot be read."""

from __future__ import annotations

from typing import Any

import kafka
import pytest

from coordinator_server.client import Client
from coordinator_server.client.fetcher import FetchSettings
from coordinator_server.client.group_member import MemberSettings
from coordinator_server.kafka_tools.log_offsets import EARLIEST
from coordinator_server.kafka_tools.record_consumer import ConsumerSettings, RecordConsumer
from tests.support import Broker

LEADERLESS = 1
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}


def test_a_partition_without_a_leader_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without a leader does not hold up others; it is read once it has a leader."""
    leaderless = {LEADERLESS}
    metadata = Client.metadata

    def without_leader(self: Client, *arguments: Any, **options: Any) -> Any:
        answer = metadata(self, *arguments, **options)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.partition_index in leaderless:
                    partition.leader_id = -1
        return answer

    monkeypatch.setattr(Client, "metadata", without_leader)
    settings = ConsumerSettings(MemberSettings("g"), FetchSettings(), reset=EARLIEST)
    with Broker(SETTINGS) as broker:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        for partition in (0, LEADERLESS):
            producer.send("t", b"%d" % partition, partition=partition).get(10)
        consumer = RecordConsumer(
            lambda: Client(broker.bootstrap_servers), settings, lambda topic, error: None
        )
        consumer.subscribe(["t"])
        assert consumer.receive(10).partition == ("t", 0)
        with pytest.raises(TimeoutError):
            consumer.receive(0.5)
        producer.send("t", b"more", partition=0).get(10)
        assert consumer.receive(10).partition == ("t", 0)
        leaderless.clear()
        assert consumer.receive(10).partition == ("t", LEADERLESS)
        consumer.close()
        producer.close()
