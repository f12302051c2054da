"""Clients with and without a certificate produce and consume in a group over TLS."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context

from tests.certificates import Identity
from tests.tls_broker import TlsBroker, serving
from tests.tls_conversations import Papers

COUNT = 100
SECONDS = 30.0
PASSWORD = "of the client's key"
VALUES = [b"value %d" % number for number in range(COUNT)]


class Client:
    """A client's bootstrap address and TLS files; `key` is None without a client certificate."""

    def __init__(self, broker: TlsBroker, directory: Path, identity: Identity | None) -> None:
        host, port = broker.addresses["REQUESTED" if identity is None else "REQUIRED"]
        self.bootstrap = f"{host}:{port}"
        self.authority = str(broker.papers.directory / "ca.pem")
        self.key: str | None = None
        self.certificate: str | None = None
        if identity is not None:
            key, certificate = directory / "client.key", directory / "client.pem"
            key.write_bytes(identity.key_pem(PASSWORD))
            certificate.write_bytes(identity.chain_pem())
            self.key, self.certificate = str(key), str(certificate)


Converse = Callable[[Client, str], Awaitable[list[bytes]]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """A broker with all listeners."""
    papers = Papers(tmp_path_factory.mktemp("papers"))
    with serving(papers, group_initial_rebalance_delay_ms="0") as broker:
        yield broker


async def with_kafka_python(client: Client, topic: str) -> list[bytes]:
    """Produce and consume with kafka-python; return the values."""
    options = {
        "bootstrap_servers": client.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": client.authority,
        "ssl_certfile": client.certificate,
        "ssl_keyfile": client.key,
        "ssl_password": PASSWORD if client.key else None,
    }
    producer = kafka.KafkaProducer(**options)
    for value in VALUES:
        producer.send(topic, value)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
        **options,
    )
    values = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    return values


async def with_confluent_kafka(client: Client, topic: str) -> list[bytes]:
    """Produce and consume with confluent-kafka; return the values."""
    options = {
        "bootstrap.servers": client.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": client.authority,
    }
    if client.key is not None and client.certificate is not None:
        options |= {
            "ssl.key.location": client.key,
            "ssl.key.password": PASSWORD,
            "ssl.certificate.location": client.certificate,
        }
    producer = confluent_kafka.Producer(options)
    for value in VALUES:
        producer.produce(topic, value)
    assert not producer.flush(SECONDS)
    consumer = confluent_kafka.Consumer(
        {**options, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    end = time.monotonic() + SECONDS
    while len(values) < COUNT and time.monotonic() < end:
        values += [message.value() for message in consumer.consume(COUNT, 1.0)]
    consumer.close()
    return values


async def with_aiokafka(client: Client, topic: str) -> list[bytes]:
    """Produce and consume with aiokafka; return the values."""
    options = {
        "bootstrap_servers": client.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": create_ssl_context(
            cafile=client.authority,
            certfile=client.certificate,
            keyfile=client.key,
            password=PASSWORD,
        ),
    }
    async with aiokafka.AIOKafkaProducer(**options) as producer:
        for value in VALUES:
            await producer.send_and_wait(topic, value)
    async with aiokafka.AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **options
    ) as consumer:
        return [(await consumer.getone()).value for _ in VALUES]


@pytest.mark.parametrize("has_certificate", [False, True], ids=["without", "with-certificate"])
@pytest.mark.parametrize("client", [with_kafka_python, with_confluent_kafka, with_aiokafka])
async def test_a_client_produces_and_consumes(
    broker: TlsBroker, tmp_path: Path, client: Converse, has_certificate: bool
) -> None:
    """A client verifies the broker's host name; its certificate, if any, authenticates it."""
    name = f"{client.__name__}-{has_certificate}".replace("_", "-")
    identity = broker.papers.authority.issue(name) if has_certificate else None
    values = await client(Client(broker, tmp_path, identity), name)
    assert values == VALUES
    principal = f"User:CN={name},O=Tests" if has_certificate else "User:ANONYMOUS"
    assert broker.serve.log_lines("client.authenticated", principal)
