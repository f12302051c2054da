"""Our tools and `doctor` against a Kafka with TLS and SASL."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from coordinator_server.client import Address, ClientConnection, read_settings
from coordinator_server.tools.doctor import main
from protocol.apis.metadata import MetadataRequest
from tests.oracle.secured_kafka import SASL_MECHANISMS, SESSION_MS, SecuredKafka
from tests.support import ROOT

pytestmark = pytest.mark.slow

WAYS = [
    ("TLS", None),
    ("MUTUAL", None),
    *((name, one) for name in ("SASL", "SASLTLS") for one in SASL_MECHANISMS),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """One Kafka with a listener for everything."""
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.end()


def tool(
    kafka: SecuredKafka, command: str, way: tuple[str, str | None], *arguments: str, lines: str = ""
) -> str:
    """What a tool prints that is to succeed."""
    listener, mechanism = way
    config = kafka.write(f"{listener}-{mechanism}", kafka.properties(listener, mechanism))
    done = subprocess.run(
        [sys.executable, "-m", "coordinator_server", command, "--bootstrap-server",
         kafka.server(listener), "--command-config", str(config), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, input=lines,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def test_tools_and_doctor_work_by_every_way_in(
    kafka: SecuredKafka, way: tuple[str, str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics, records, groups and settings; nothing is left of the doctor's group."""
    topic = f"t-{way[0]}-{way[1]}"
    tool(kafka, "topics", way, "--create", "--topic", topic)
    tool(kafka, "produce", way, "--topic", topic, lines="one\ntwo\n")
    read = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--group", f"g-{topic}")
    assert tool(kafka, "consume", way, *read) == "one\ntwo\n"
    assert topic in tool(kafka, "groups", way, "--describe", "--group", f"g-{topic}")
    assert "retention" in tool(
        kafka, "configs", way, "--describe", "--all", "--entity-type", "topics",
        "--entity-name", topic,
    )  # fmt: skip

    listener, mechanism = way
    config = kafka.write("doctor", kafka.properties(listener, mechanism))
    assert main([kafka.server(listener), "--command-config", str(config), "--timeout", "20"]) == 0
    output = capsys.readouterr().out
    assert "looks like Kafka 4.2 or newer" in output
    assert kafka.password not in output
    assert "doctor-" not in tool(kafka, "groups", way, "--list")


@pytest.mark.parametrize("pause_s", [SESSION_MS / 1000 * 0.9, SESSION_MS / 1000 * 1.3])
def test_a_session_is_renewed(kafka: SecuredKafka, pause_s: float) -> None:
    """KIP-368: by the first request after most of its time, and after all of it as well."""
    settings = read_settings(kafka.properties("SASL", "SCRAM-SHA-256"))
    connection = ClientConnection(Address(*kafka.kafka.addresses["SASL"]), settings)
    for _ in range(2):
        time.sleep(pause_s)
        assert connection.ask(MetadataRequest(topics=[])).brokers
    connection.close()


def diagnosis(
    kafka: SecuredKafka,
    capsys: pytest.CaptureFixture[str],
    listener: str,
    properties: dict[str, str],
) -> tuple[str, str]:
    """The step that fails, and why with what to change."""
    config = kafka.write("doctor", properties)
    arguments = [kafka.server(listener), "--command-config", str(config), "--json"]
    assert main(arguments) == 1
    output = capsys.readouterr().out
    assert kafka.password not in output
    (failed,) = [step for step in json.loads(output)["steps"] if not step["ok"]]
    return failed["step"], failed["reason"] + " / ".join(failed["changes"])


def test_what_doctor_says_of_kafkas_refusals(
    kafka: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake of a client, at each listener."""
    tls = kafka.properties("TLS")
    sasl = kafka.properties("SASL", "PLAIN")
    stranger = str(kafka.truststore.with_name("stranger.pem"))
    wrong_user = {**sasl, "sasl.jaas.config": 'M required username="alice" password="no";'}
    cases = [
        ("TLS", {}, "versions", "speaks TLS"),
        ("SASL", tls, "tls", "Kafka in plain text"),
        ("SASL", {}, "metadata", "wants SASL (PLAIN, "),
        ("SASLTLS", tls, "metadata", "security.protocol=SASL_SSL"),
        ("TLS", {**sasl, **tls, "security.protocol": "SASL_SSL"}, "sasl", "takes no SASL"),
        ("MUTUAL", tls, "tls", "without a certificate"),
        ("MUTUAL", {**tls, "ssl.keystore.location": stranger}, "tls", "the client's certificate"),
        ("TLS", {**tls, "ssl.truststore.location": str(kafka.other_truststore)}, "tls",
         "no certificate of CN=Tests CA"),
        ("EXPIRED", tls, "tls", "has expired: CN=broker"),
        ("OTHERNAME", tls, "tls", "not among other.example"),
        ("SASL", wrong_user, "sasl", "Invalid username or password"),
        ("SASL", {**wrong_user, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl", "SCRAM-SHA-256=[pass"),
        ("SASL", {**sasl, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "a.b.c"},
         "sasl", "invalid_token"),
    ]  # fmt: skip
    for listener, properties, step, words in cases:
        told = diagnosis(kafka, capsys, listener, properties)
        assert told[0] == step, told
        assert words in told[1]
