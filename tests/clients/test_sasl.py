"""Client libraries authenticate with each of their mechanisms, and produce and consume."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiokafka
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider

from coordinator_server.client import Client, read_settings
from protocol.apis.create_delegation_token import CreateDelegationTokenRequest
from tests.clients.copies import franz_go, kafkajs
from tests.support import Serve

SECONDS = 30
PASSWORD = secrets.token_urlsafe(12) + " ,="
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    ),
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
    "scram.users": ";".join(
        f"SCRAM-SHA-{bits}=[name=alice,password={PASSWORD}]" for bits in (256, 512)
    ),
    "delegation.token.secret.key": "a key",
    # The session lifetime is short, so that clients reauthenticate while they work.
    "connections.max.reauth.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Serve]:
    """A broker with all mechanisms."""
    named = [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))]
    with Serve("--ephemeral", *named, listener=None) as serve:
        yield serve
        assert "authentication.failed" not in serve.log
        assert PASSWORD not in serve.log


def _token() -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 3600}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def _librdkafka(broker: Serve, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (_token(), time.time() + 3600)
    else:
        settings |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    return settings


class _KafkaTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]  # no types
    def token(self) -> str:
        return _token()


class _AioTokens(AioTokenProvider):  # type: ignore[misc]  # the library ships no types
    async def token(self) -> str:
        return _token()


@pytest.mark.nightly
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("program", [franz_go, kafkajs])
def test_other_languages(
    broker: Serve,
    mechanism: str,
    program: Callable[[Path], tuple[list[str], dict[str, str]]],
    tmp_path: Path,
) -> None:
    """franz-go and kafkajs copy a record in a transaction."""
    password = _token() if mechanism == "OAUTHBEARER" else PASSWORD
    command, environment = program(tmp_path)
    _copies(broker, command, {**environment, "SASL": f"{mechanism}:alice:{password}"}, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_franz_go_with_a_delegation_token(broker: Serve, mechanism: str, tmp_path: Path) -> None:
    """franz-go with a delegation token copies a record and reauthenticates during the copy."""
    settings = read_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'x required username="alice" password="{PASSWORD}";',
        }
    )
    client = Client(broker.bootstrap_servers, settings)
    made = client.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1))
    client.close()
    command, environment = franz_go(tmp_path)
    password = base64.b64encode(made.hmac).decode()
    environment |= {"SASL": f"{mechanism}:{made.token_id}:{password}", "DELEGATION_TOKEN": "1"}
    _copies(broker, command, environment, tmp_path)


def _copies(broker: Serve, command: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    """Check that a program copies a record from one topic to another."""
    settings = _librdkafka(broker, "PLAIN")
    source, target = f"source-{uuid4()}", f"target-{uuid4()}"
    producer = confluent_kafka.Producer(settings)
    producer.produce(source, b"value")
    producer.produce(target, b"first")
    assert producer.flush(SECONDS) == 0
    with (tmp_path / "output").open("wb") as output:
        arguments = [*command, broker.bootstrap_servers, source, target, source]
        process = subprocess.Popen(arguments, env=environment, stdout=output, stderr=output)
    try:
        reader = confluent_kafka.Consumer(
            {**settings, "group.id": target, "auto.offset.reset": "earliest"}
        )
        reader.subscribe([target])
        values = []
        for _ in range(2):
            record = reader.poll(SECONDS)
            assert record is not None, (tmp_path / "output").read_text()
            values.append(record.value())
        assert values == [b"first", b"value!"]
        reader.close()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(broker: Serve, mechanism: str) -> None:
    """librdkafka produces and consumes beyond the end of its SASL session."""
    settings = _librdkafka(broker, mechanism)
    topic = f"confluent-{mechanism}-{uuid4()}"
    producer = confluent_kafka.Producer(settings)
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    for value in (b"first", b"second"):
        producer.produce(topic, value)
        assert producer.flush(SECONDS) == 0
        if value == b"first":
            consumer.subscribe([topic])
        record = consumer.poll(SECONDS)
        assert record is not None
        assert (record.error(), record.value()) == (None, value)
        time.sleep(3.5 if value == b"first" else 0)
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Serve, mechanism: str) -> None:
    """kafka-python produces and consumes."""
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _KafkaTokens()
    else:
        settings |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    topic = f"kafka-python-{mechanism}-{uuid4()}"
    producer = kafka.KafkaProducer(**settings)
    producer.send(topic, b"value").get(SECONDS)
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
        **settings,
    )
    assert next(consumer).value == b"value"
    consumer.close()
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(broker: Serve, mechanism: str) -> None:
    """aiokafka produces and consumes."""
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _AioTokens()
    else:
        settings |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    topic = f"aiokafka-{mechanism}-{uuid4()}"
    async with (
        aiokafka.AIOKafkaProducer(**settings) as producer,
        aiokafka.AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **settings
        ) as consumer,
    ):
        await producer.send_and_wait(topic, b"value")
        assert (await consumer.getone()).value == b"value"
