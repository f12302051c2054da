"""librdkafka pushes its metrics (KIP-714), and our broker shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.clients.support import create_topic, subscribe_to_metrics
from tests.support import Broker, wait_for

TOPIC = "t"


@pytest.fixture
def broker(start_broker: Callable[..., Broker], tmp_path: Path) -> Iterator[Broker]:
    """A broker with a topic. `start_broker` marks that the test needs our broker."""
    with Broker({}, data_dir=tmp_path / "data") as broker:
        create_topic(broker.bootstrap_servers, TOPIC, 2)
        yield broker
        assert not broker.log_lines("[error"), broker.log[-3000:]


def clients(broker: Broker) -> dict[str, dict[str, Any]]:
    """Return the clients that have pushed metrics, by client id."""
    listed = broker.control.call("GET", "/telemetry")["clients"]
    return {one["client_id"]: one for one in listed}


def produce(broker: Broker, client_id: str, until: Callable[[], bool]) -> None:
    """Produce records until a condition holds, then end the producer."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id}
    )

    def is_done() -> bool:
        producer.produce(TOPIC, b"value")
        producer.flush(5)
        return until()

    wait_for(is_done, f"what {client_id} waits for", 30, 0.05)


@pytest.mark.real_time
def test_a_producer_and_a_consumer_push_what_they_are_asked_for(broker: Broker) -> None:
    """Producer and consumer repeatedly push the metrics of their kind, with attributes."""
    bootstrap = broker.bootstrap_servers
    subscribe_to_metrics(
        bootstrap,
        "all",
        metrics="org.apache.kafka.",
        interval_ms="200",
        match="client_software_name=.*confluent.*",
    )
    produce(broker, "p", lambda: clients(broker).get("p", {}).get("pushes", 0) > 1)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "c",
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([TOPIC])

        def has_pushed() -> bool:
            consumer.poll(0.1)
            return "c" in clients(broker)

        wait_for(has_pushed, "the consumer pushes", 30)
    finally:
        consumer.close()
    for name, prefix in (("p", "org.apache.kafka.producer."), ("c", "org.apache.kafka.consumer.")):
        shown = broker.control.call("GET", f"/telemetry/{name}")
        names = [one["name"] for one in shown["metrics"]]
        assert names
        assert all(one.startswith(("org.apache.kafka.client.", prefix)) for one in names), names
        assert shown["client_source_address"] == "127.0.0.1"
        assert shown["is_whole"]
    (connections, *_) = [
        one
        for one in broker.control.call("GET", "/telemetry/p")["metrics"]
        if one["name"].endswith("connection.creation.total")
    ]
    assert connections["kind"] == "sum"


@pytest.mark.real_time
def test_clients_without_a_subscription_push_nothing(broker: Broker) -> None:
    """A client that no subscription matches pushes nothing; kill -9 keeps the subscriptions."""
    subscribe_to_metrics(
        broker.bootstrap_servers, "one", metrics="*", interval_ms="100", match="client_id=known"
    )
    broker.kill()
    broker.start()
    produce(broker, "known", lambda: "known" in clients(broker))
    produce(broker, "other", lambda: True)
    assert set(clients(broker)) == {"known"}
