"""Kafka's clients and tools authenticate with our broker by every mechanism, and change users."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.kafka_process import SECONDS, java
from tests.support import Serve

pytestmark = pytest.mark.nightly

MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
SECURITY = "org.apache.kafka.common.security"
UNSECURED = (
    f"{SECURITY}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
PASSWORD = 'pa=ss, "word";\\'
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": MECHANISMS,
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{SECURITY}.plain.PlainLoginModule required user_alice="{QUOTED}";'
    ),
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
    "connections.max.reauth.ms": "2000",
    "delegation.token.secret.key": "a key",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Serve]:
    """A broker with all mechanisms."""
    named = [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))]
    with Serve("--ephemeral", "--log-level", "debug", *named, listener=None) as serve:
        yield serve
        assert "authentication.failed" not in serve.log


def _client(directory: Path, mechanism: str, user: str = "alice") -> str:
    """Write a client's properties file and return its path."""
    module, options = "plain.PlainLoginModule", f'username="{user}" password="{QUOTED}"'
    if mechanism.startswith("SCRAM"):
        module = "scram.ScramLoginModule"
    elif mechanism == "OAUTHBEARER":
        module = "oauthbearer.OAuthBearerLoginModule"
        options = f'unsecuredLoginStringClaim_sub="{user}"'
    jaas = f"{SECURITY}.{module} required {options};".replace("\\", "\\\\")
    path = directory / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(path)


def _run(broker: Serve, main: str, config: str, *arguments: str, typed: str = "") -> str:
    command = java(
        main,
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--command-config",
        config,
        *arguments,
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, input=typed
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_tools_change_users_who_then_authenticate(broker: Serve, tmp_path: Path) -> None:
    """kafka-configs as alice creates bob, who creates a topic with each mechanism."""
    configs = "org.apache.kafka.tools.ConfigCommand"
    users = ("--entity-type", "users", "--entity-name", "bob")
    plain = _client(tmp_path, "PLAIN")
    added = f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]"
    _run(broker, configs, plain, "--alter", "--add-config", added, *users)
    added = f"SCRAM-SHA-512=[password={PASSWORD}]"
    _run(broker, configs, plain, "--alter", "--add-config", added, *users)
    topics = "org.apache.kafka.tools.TopicCommand"
    for mechanism in MECHANISMS.split(","):
        user = "bob" if mechanism.startswith("SCRAM") else "alice"
        config = _client(tmp_path, mechanism, user)
        _run(broker, topics, config, "--create", "--topic", f"of-{mechanism}")
    told = _run(broker, topics, plain, "--list")
    assert sorted(told.split()) == sorted(f"of-{one}" for one in MECHANISMS.split(","))


@pytest.mark.parametrize(
    "mechanism", [pytest.param("SCRAM-SHA-256", marks=pytest.mark.nightly), "SCRAM-SHA-512"]
)
def test_clients_with_a_delegation_token(broker: Serve, mechanism: str, tmp_path: Path) -> None:
    """Java's producer and consumer log in with a token from kafka-delegation-tokens.

    The consumer runs beyond the end of its session, so that it reauthenticates.
    """
    tools, plain, topic = "org.apache.kafka.tools", _client(tmp_path, "PLAIN"), f"by-{mechanism}"
    made = _run(
        broker,
        f"{tools}.DelegationTokenCommand",
        plain,
        *("--create", "--max-life-time-period", "-1"),
    )
    token_id, hmac = made.splitlines()[-1].split()[:2]
    config = tmp_path / "token.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={SECURITY}.scram.ScramLoginModule required"
        f' username="{token_id}" password="{hmac}" tokenauth="true";\n'
    )
    _run(broker, f"{tools}.ConsoleProducer", str(config), "--topic", topic, typed="first\nsecond\n")
    told = _run(
        broker,
        f"{tools}.consumer.ConsoleConsumer",
        str(config),
        *("--topic", topic, "--from-beginning", "--group", topic, "--timeout-ms", "12000"),
    )
    assert told.splitlines() == ["first", "second"]
    groups = f"{tools}.consumer.group.ConsumerGroupCommand"
    assert topic in _run(broker, groups, str(config), "--list").split()
    logins = [
        line
        for line in broker.log.splitlines()
        if "connection.authenticated" in line and mechanism in line and "user=alice" in line
    ]
    assert len(logins) > 4
