"""The variables of published compose files work in the entry point, with real clients."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from coordinator_server.config.config import Config
from tests.compose.published import ROWS, Files, Login, Published, jaas_path
from tests.support import ROOT, Serve, free_port, free_ports, wait_for

START = (sys.executable, "-m", "tests.e2e.image_entrypoint")
"""The entry point with the test's directories instead of the image's."""

_LISTENER = re.compile(r"([A-Za-z0-9_-]+)://[^:,]*:\d+")
_TIMEOUT_SECONDS = 20


class Container:
    """Files, addresses and variables of a row, changed for this machine.

    The ports of two listeners differ by at least `apart`.
    """

    def __init__(self, row: Published, directory: Path, *, apart: int = 1) -> None:
        self._apart = apart
        files = Files(row, directory)
        self.secrets, self.bitnami = files.secrets, files.bitnami
        self.authority, self.broker = files.authority, files.broker
        self.ports: dict[str, int] = {}
        self._row = row
        self.environment = {
            "PATH": "/usr/bin:/bin",
            **{name: self._moved(name, value) for name, value in row.environment.items()},
            "KAFKA_LOG_DIRS": str(directory / "data"),
        }
        if "KAFKA_ADVERTISED_HOST_NAME" in row.environment:
            self.ports["PLAINTEXT"] = port = free_port()
            self.environment |= {"KAFKA_ADVERTISED_HOST_NAME": "127.0.0.1"}
            self.environment |= dict.fromkeys(("KAFKA_PORT", "KAFKA_ADVERTISED_PORT"), str(port))
        if row.jaas:
            path = Path(jaas_path(self.environment) or self.bitnami / "kafka_jaas.conf")
            path.parent.mkdir(exist_ok=True)
            path.write_text(row.jaas)

    def _moved(self, name: str, value: str) -> str:
        """Return a value with the test's directories, and with free ports on loopback."""
        if name.endswith("LISTENERS"):
            return _LISTENER.sub(self._address, value)
        value = value.replace("/etc/kafka", str(self.secrets.parent))
        value = value.replace("/opt/kafka/config", str(self.secrets.parent))
        return value.replace("/opt/bitnami/kafka/config", str(self.bitnami))

    def _address(self, match: re.Match[str]) -> str:
        port = self.ports.get(match[1].upper()) or free_ports(self._apart)
        self.ports[match[1].upper()] = port
        return f"{match[1]}://127.0.0.1:{port}"

    def serve(self) -> Serve:
        """Return the broker, not started yet."""
        command = [*START, str(self.secrets), str(self.bitnami)]
        return Serve(listener=None, command=command, environment=self.environment)

    def client(self, login: Login, config: Config, directory: Path) -> dict[str, Any]:
        """Return the settings of a librdkafka client."""
        protocol = config.security_protocol(login.listener.upper())
        settings: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[login.listener]}",
            "security.protocol": protocol.name,
            "socket.timeout.ms": 10_000,
        }
        if protocol.uses_tls:
            # If one file is both truststore and keystore, the broker trusts only its own
            # certificate, so the client uses that certificate.
            one = self._row.environment.get("KAFKA_SSL_TRUSTSTORE_FILENAME", "")
            is_same = one and one == self._row.environment.get("KAFKA_SSL_KEYSTORE_FILENAME")
            own = self.broker if is_same else self.authority.issue("client", hosts=())
            key, chain = directory / "client.key", directory / "client.pem"
            key.write_bytes(own.key_pem())
            chain.write_bytes(own.chain_pem())
            settings |= {
                "ssl.ca.location": str(self.authority.write(directory / "ca.pem")),
                "ssl.key.location": str(key),
                "ssl.certificate.location": str(chain),
            }
        if login.mechanism:
            settings["sasl.mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            settings["oauth_cb"] = lambda _: (_unsigned(login.user), time.time() + 3600)
        elif login.mechanism:
            settings |= {"sasl.username": login.user, "sasl.password": login.password}
        return settings


def _unsigned(user: str) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(part.decode().rstrip("=") for part in encoded) + "."


def _round_trip(settings: Mapping[str, Any], topic: str) -> None:
    """Create a topic, produce a record and consume it."""
    admin = AdminClient(dict(settings))
    new = confluent_kafka.admin.NewTopic(topic, 1, 1)
    admin.create_topics([new])[topic].result(_TIMEOUT_SECONDS)
    producer = confluent_kafka.Producer(dict(settings))
    producer.produce(topic, b"value")
    assert producer.flush(_TIMEOUT_SECONDS) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(_TIMEOUT_SECONDS)
    consumer.close()
    assert message is not None
    assert message.error() is None, message.error()
    assert message.value() == b"value"


def _is_refused(settings: Mapping[str, Any]) -> bool:
    """Return whether a client with a wrong password cannot authenticate."""
    errors: list[confluent_kafka.KafkaError] = []
    wrong = {**settings, "sasl.password": "wrong", "error_cb": errors.append}
    admin = AdminClient(wrong)
    wait_for(lambda: admin.poll(0.1) or errors, "the refusal")
    return bool(errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source.split()[0]}-{row.service}")
def test_the_variables_of_a_published_file(row: Published, tmp_path: Path) -> None:
    """The broker serves clients with the listed warnings, or refuses to start with the reason."""
    container = Container(row, tmp_path)
    broker = container.serve()
    if row.refusal:
        assert broker.run() == 2
        assert broker.log.startswith(f"coordinator-server: {row.refusal}")
        assert broker.log.count("\n") == 1
        return
    names = row.environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP") or row.environment.get(
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP"
    )
    config = Config(overrides={"listener.security.protocol.map": names} if names else {})
    with broker:
        for number, login in enumerate(row.clients):
            settings = container.client(login, config, tmp_path)
            _round_trip(settings, f"topic-{number}")
            if login.password:
                assert _is_refused(settings)
        if row.topics:
            found = AdminClient(container.client(row.clients[0], config, tmp_path)).list_topics()
            for name, partitions in map(str.split, row.topics):
                assert len(found.topics[name].partitions) == int(partitions)
        assert broker.stop() == 0
    usual = ("settings.ignored", "authentication.failed")
    lines = [line for line in broker.log.splitlines() if "[warning" in line]
    warnings = [line for line in lines if not any(event in line for event in usual)]
    assert all(any(words in line for line in warnings) for words in row.warnings), warnings
    assert all(any(words in line for words in row.warnings) for line in warnings), warnings
    assert len([line for line in warnings if "settings.doubted" in line]) <= 1


def test_the_three_brokers_of_the_documentation(tmp_path: Path) -> None:
    """The variables in docs/docker.md start three brokers, each of which bootstraps clients."""
    page = (ROOT / "docs" / "docker.md").read_text()
    snippet = page.partition("## Three brokers")[2].partition("```yaml")[2].partition("```")[0]
    lines = re.findall(r"^ +(KAFKA_[A-Z_]+): (.*)$", snippet, re.MULTILINE)
    row = Published("page", "kafka-1", "", "", "\n".join(f"{name}={one}" for name, one in lines))
    container = Container(row, tmp_path, apart=3)
    with container.serve() as broker:
        port = container.ports["PLAINTEXT_HOST"]
        for number in range(3):
            settings = {"bootstrap.servers": f"127.0.0.1:{port + number}"}
            _round_trip(settings, f"topic-{number}")
            brokers = AdminClient(settings).list_topics().brokers
            told = {(one.id, one.host, one.port) for one in brokers.values()}
            assert told == {(index + 1, "127.0.0.1", port + index) for index in range(3)}
        assert broker.stop() == 0
        assert not [line for line in broker.log.splitlines() if "[warning" in line]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "keystore_creds",
            "wrong",
            "listener SSL: ssl.keystore.location: {}/kafka.keystore.jks: damaged, or "
            "ssl.keystore.password is wrong (ssl.keystore.location is KAFKA_SSL_KEYSTORE_FILENAME, "
            "ssl.keystore.password is KAFKA_SSL_KEYSTORE_CREDENTIALS)",
        ),
        (
            "keystore_creds",
            None,
            "listener SSL: ssl.keystore.password: {}/kafka.keystore.jks: the key store needs its "
            "password (ssl.keystore.password is KAFKA_SSL_KEYSTORE_CREDENTIALS, which is not set)",
        ),
    ],
)
def test_errors_name_the_variables(
    name: str, content: str | None, words: str, tmp_path: Path
) -> None:
    """An error about a derived setting names the variable that the user wrote."""
    [row] = [one for one in ROWS if one.source.endswith("single-node/ssl")]
    container = Container(row, tmp_path)
    if content is None:
        del container.environment["KAFKA_SSL_KEYSTORE_CREDENTIALS"]
    else:
        (container.secrets / name).write_text(content)
    broker = container.serve()
    assert broker.run() == 2
    assert broker.log == f"coordinator-server: {words.format(container.secrets)}\n"


def test_the_documentation_has_the_rows() -> None:
    """docs/docker.md has a line with the outcome for each row."""
    lines = (ROOT / "docs" / "docker.md").read_text().splitlines()
    missing = [row.line_of_documentation for row in ROWS if row.line_of_documentation not in lines]
    assert not missing, "\n".join(missing)
