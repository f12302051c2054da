"""SASL in the real process: settings, persistent users and hidden secrets."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from coordinator_server.security.sasl.oauthbearer import VALIDATED
from protocol.apis.metadata import MetadataRequest
from tests.faults.client import Client
from tests.support import Serve, address_of, wait_for

SECONDS = 30
PASSWORD = secrets.token_urlsafe(12)
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    ),
    "scram.users": f"SCRAM-SHA-256=[name=bob,password={PASSWORD}]",
    "sasl.server.max.receive.size": "20000",
}


def _serve(more: Mapping[str, str] | None = None, *arguments: str) -> Serve:
    pairs = [f"{name}={value}" for name, value in {**SETTINGS, **(more or {})}.items()]
    named = [part for pair in pairs for part in ("--set", pair)]
    return Serve(*(arguments or ("--ephemeral",)), "--log-level", "debug", *named, listener=None)


def _client(broker: Serve, user: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def _topics(client: dict[str, Any], seconds: float = SECONDS) -> set[str]:
    return set(AdminClient(client).list_topics(timeout=seconds).topics)


def test_users_are_added_changed_and_kept(tmp_path: Path) -> None:
    """Users from the setting and from clients survive a restart; a deleted user is refused."""
    arguments = ("--data-dir", str(tmp_path / "data"))
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    password = PASSWORD.encode()
    with _serve(None, *arguments) as broker:
        admin = AdminClient(_client(broker, "bob", "SCRAM-SHA-256"))
        put = UserScramCredentialUpsertion("carol", credential, password)
        admin.alter_user_scram_credentials([put])["carol"].result(SECONDS)
        assert broker.stop() == 0
    kept = (tmp_path / "data" / "security.changes").read_text()
    assert "carol" in kept
    assert PASSWORD not in kept
    with _serve(None, *arguments) as broker:
        assert _topics(_client(broker, "carol", "SCRAM-SHA-512")) is not None
        admin = AdminClient(_client(broker, "alice", "PLAIN"))
        told = admin.describe_user_scram_credentials()
        assert sorted(told.result(SECONDS)) == ["bob", "carol"]
        drop = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512)
        admin.alter_user_scram_credentials([drop])["carol"].result(SECONDS)
        with pytest.raises(confluent_kafka.KafkaException):
            _topics(_client(broker, "carol", "SCRAM-SHA-512"), 1)
        assert PASSWORD not in broker.log


def test_no_secret_is_shown() -> None:
    """No password appears in the log or in DescribeConfigs."""
    with _serve() as broker:
        wrong = secrets.token_urlsafe(12)
        for mechanism, user in (("PLAIN", "alice"), ("SCRAM-SHA-256", "bob")):
            with pytest.raises(confluent_kafka.KafkaException):
                _topics(_client(broker, user, mechanism, wrong), 1)
            line = broker.log_lines("authentication.failed", mechanism)[0]
            assert f"user={user}" in line
            assert "listener=SASL_PLAINTEXT" in line
            assert "remote=127.0.0.1" in line
        with socket.create_connection(address_of(broker.bootstrap_servers)) as sent:
            sent.sendall(_raw_plain(b"\x1b[31m" + b"x" * 200, wrong.encode()))
            sent.settimeout(SECONDS)
            while sent.recv(1000):
                pass
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient(_client(broker, "alice", "PLAIN"))
        described = admin.describe_configs([resource])[resource].result(SECONDS)
        for name in ("sasl.jaas.config", "scram.users"):
            assert described[name].value is None
            assert described[name].is_sensitive
        assert PASSWORD not in broker.log
        assert wrong not in broker.log
        assert "\x1b[31m" not in broker.log
        assert "xxxx" not in broker.log


def _raw_plain(user: bytes, password: bytes) -> bytes:
    """Return a SaslHandshake v0 and a PLAIN token."""
    handshake = struct.pack(">hhihh5s", 17, 0, 1, -1, 5, b"PLAIN")
    token = b"\0" + user + b"\0" + password
    return b"".join(struct.pack(">i", len(part)) + part for part in (handshake, token))


def test_failures_hold_nobody_up() -> None:
    """While many clients wait for a delayed failure, other clients are served at once."""
    with _serve({"connection.failed.authentication.delay.ms": "1000"}) as broker:
        plaintext = _plaintext(broker)
        wrong = _raw_plain(b"alice", b"wrong")
        waiting = [
            socket.create_connection(address_of(broker.bootstrap_servers)) for _ in range(200)
        ]
        for one in waiting:
            one.sendall(wrong)
        slowest = 0.0
        for _ in range(50):
            start = time.monotonic()
            plaintext.ask(MetadataRequest(topics=[]))
            slowest = max(slowest, time.monotonic() - start)
        for one in waiting:
            one.close()
        assert slowest < 0.5
        assert broker.log_lines("authentication.failed")


def _plaintext(broker: Serve) -> Client:
    """Return a client of the second listener."""
    lines = wait_for(lambda: _listening(broker)[1:], "both listen")
    return Client(address_of(lines[0].removeprefix("listening ")))


def _listening(broker: Serve) -> list[str]:
    return [line for line in broker.output.splitlines() if line.startswith("listening")]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not served, only PLAIN"),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": (
                    VALIDATED
                ),
            },
            "jwks.endpoint.url",
        ),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "geheim"}, "JAAS"),
        ({"scram.users": "geheim"}, "scram.users: user 1"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], words: str) -> None:
    """An invalid setting ends the start with exit code 2; the error names it without its value."""
    broker = _serve(settings)
    assert broker.run() == 2
    assert words in broker.log
    assert "geheim" not in broker.log
