"""Run our tools and `doctor` over each security protocol, against any broker.

tests/e2e/test_secured_client.py runs them against our broker, tests/oracle/test_secured_client.py
against Apache Kafka.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from coordinator_server.client import Address, ClientConnection, read_settings
from coordinator_server.tools.doctor import main
from protocol.apis.metadata import MetadataRequest
from tests.secured import SASL_MECHANISMS, SESSION_MS, Secured
from tests.support import ROOT

Way = tuple[str, str | None]
"""A listener and a SASL mechanism."""

WAYS: list[Way] = [
    ("TLS", None),
    ("MUTUAL", None),
    *((name, one) for name in ("SASL", "SASLTLS") for one in SASL_MECHANISMS),
]
PAUSES_SECONDS = [SESSION_MS / 1000 * 0.9, SESSION_MS / 1000 * 1.3]


def name_of(way: Way) -> str:
    """Return a readable name for a listener and mechanism."""
    return f"{way[0]}-{way[1]}"


def tool(secured: Secured, command: str, way: Way, *arguments: str, lines: str = "") -> str:
    """Return the output of a tool; the test fails if the tool does."""
    listener, mechanism = way
    config = secured.write(name_of(way), secured.properties(listener, mechanism))
    done = subprocess.run(
        [sys.executable, "-m", "coordinator_server", command, "--bootstrap-server",
         secured.server(listener), "--command-config", str(config), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, input=lines,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert secured.password not in done.stdout + done.stderr
    return done.stdout


def play_tools(secured: Secured, way: Way) -> None:
    """Manage topics, records, groups and settings with the tools."""
    topic = f"t-{name_of(way)}"
    tool(secured, "topics", way, "--create", "--topic", topic)
    tool(secured, "produce", way, "--topic", topic, lines="one\ntwo\n")
    read = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--group", f"g-{topic}")
    assert tool(secured, "consume", way, *read) == "one\ntwo\n"
    assert topic in tool(secured, "groups", way, "--describe", "--group", f"g-{topic}")
    assert "retention" in tool(
        secured, "configs", way, "--describe", "--all", "--entity-type", "topics",
        "--entity-name", topic,
    )  # fmt: skip


def play_doctor(secured: Secured, way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that doctor finds no fault and leaves no trace of its group."""
    listener, mechanism = way
    config = secured.write("doctor", secured.properties(listener, mechanism))
    arguments = [secured.server(listener), "--command-config", str(config), "--timeout", "20"]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert secured.looks_like in output
    assert secured.password not in output
    assert "doctor-" not in tool(secured, "groups", way, "--list")


def play_session(secured: Secured, pause_s: float) -> None:
    """Check that the client reauthenticates (KIP-368) both before and after its session expires."""
    settings = read_settings(secured.properties("SASL", "SCRAM-SHA-256"))
    connection = ClientConnection(Address(*secured.addresses["SASL"]), settings)
    for _ in range(2):
        time.sleep(pause_s)
        assert connection.ask(MetadataRequest(topics=[])).brokers
    connection.close()


def diagnosis(
    secured: Secured,
    capsys: pytest.CaptureFixture[str],
    listener: str,
    properties: dict[str, str],
) -> tuple[str, str]:
    """Return the step at which doctor fails, and the reason with the suggested changes."""
    config = secured.write("doctor", properties)
    arguments = [secured.server(listener), "--command-config", str(config), "--json"]
    assert main(arguments) == 1
    output = capsys.readouterr().out
    assert secured.password not in output
    (failed,) = [step for step in json.loads(output)["steps"] if not step["ok"]]
    return failed["step"], failed["reason"] + " / ".join(failed["changes"])


def play_refusals(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    """Check doctor's diagnosis of each client mistake at each listener."""
    tls = secured.properties("TLS")
    sasl = secured.properties("SASL", "PLAIN")
    wrong_user = {**sasl, "sasl.jaas.config": 'M required username="alice" password="no";'}
    cases = [
        ("TLS", {}, "versions", "speaks TLS"),
        ("SASL", tls, "tls", "Kafka in plain text"),
        ("SASL", {}, "metadata", "wants SASL (PLAIN, "),
        ("SASLTLS", tls, "metadata", "security.protocol=SASL_SSL"),
        ("TLS", {**sasl, **tls, "security.protocol": "SASL_SSL"}, "sasl", "takes no SASL"),
        ("MUTUAL", tls, "tls", "without a certificate"),
        ("MUTUAL", {**tls, "ssl.keystore.location": str(secured.stranger)}, "tls",
         "the client's certificate"),
        ("TLS", {**tls, "ssl.truststore.location": str(secured.other_truststore)}, "tls",
         "no certificate of CN=Tests CA"),
        ("EXPIRED", tls, "tls", "has expired: CN=broker"),
        ("OTHERNAME", tls, "tls", "not among other.example"),
        ("SASL", wrong_user, "sasl", "Invalid username or password"),
        ("SASL", {**wrong_user, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl", "SCRAM-SHA-256=[pass"),
        ("SASL", {**sasl, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "a.b.c"},
         "sasl", "invalid_token"),
    ]  # fmt: skip
    for listener, properties, step, words in cases:
        told = diagnosis(secured, capsys, listener, properties)
        assert told[0] == step, told
        assert words in told[1]
