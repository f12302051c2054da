"""serve --dev-security in the real process: files, restarts, refusals and hidden secrets."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import kafka as kafka_python
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from cryptography import x509

from coordinator_server.config.properties import parse_properties
from tests import forked
from tests.support import ROOT, Serve, free_port

SECONDS = 30
USERS = ("admin", "alice", "bob")
FORMS = ("aiokafka.json", "confluent.properties", "java.properties", "kafka-python.json")


def serve(directory: Path, *arguments: str, listener: str | None = "127.0.0.1:0") -> Serve:
    """Return a broker with security files in a directory."""
    where = ("--dev-security", str(directory))
    return Serve("--ephemeral", "--log-level", "debug", *where, *arguments, listener=listener)


def config_of(broker: Serve, directory: Path, user: str) -> dict[str, str]:
    """Return the librdkafka settings from the directory, with the broker's address."""
    text = (directory / f"{user}.confluent.properties").read_text()
    return {"bootstrap.servers": broker.bootstrap_servers, **parse_properties(text)}


def topics(config: Mapping[str, str], seconds: float = SECONDS) -> set[str]:
    """Return the topics that a client sees."""
    return set(AdminClient(dict(config)).list_topics(timeout=seconds).topics)


def passwords_of(directory: Path) -> dict[str, str]:
    """Return the passwords by user."""
    passwords: dict[str, str] = json.loads((directory / "users.json").read_text())
    return passwords


def test_files_are_made_once_and_hidden(tmp_path: Path) -> None:
    """The files are private to the owner; the next start reuses them and recreates missing ones."""
    directory = tmp_path / "some" / "where"
    with serve(directory) as broker:
        assert f"security: users and settings of clients are in {directory}\n" in broker.output
        expected = {f"{user}.{form}" for user in USERS for form in (*FORMS, "pem")}
        expected |= {"ca.key", "ca.pem", "server.pem", "users.json"}
        files = {path.name: path for path in directory.iterdir()}
        assert set(files) == expected
        modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in files.items()}
        assert modes.pop("ca.pem") == 0o644
        assert set(modes.values()) == {0o600}
        passwords = passwords_of(directory)
        assert len(set(passwords.values())) == len(USERS)
        assert min(map(len, passwords.values())) >= 24
        for user in USERS:
            assert topics(config_of(broker, directory, user)) == set()
        before = {name: path.read_bytes() for name, path in files.items()}
    (directory / "bob.pem").unlink()
    with serve(directory) as broker:
        after = {path.name: path.read_bytes() for path in directory.iterdir()}
        changed = [name for name in before if before[name] != after[name]]
        assert changed == ["bob.pem"]
        assert topics(config_of(broker, directory, "alice")) == set()


def test_settings_for_kafka_python_are_good_as_they_are(tmp_path: Path) -> None:
    """kafka-python accepts the settings in its file unchanged."""
    with serve(tmp_path) as broker:
        config = json.loads((tmp_path / "alice.kafka-python.json").read_text())
        servers = broker.bootstrap_servers
        with kafka_python.KafkaProducer(bootstrap_servers=servers, **config) as producer:
            producer.send("orders", b"a").get(SECONDS)


def test_the_service_of_the_example(tmp_path: Path) -> None:
    """examples/secured_compose connects with the settings file named in its compose file."""
    example = ROOT / "examples" / "secured_compose"
    name = "alice.kafka-python.json"
    assert f"/var/lib/kafka/security/{name}" in (example / "docker-compose.yml").read_text()
    with serve(tmp_path) as broker:
        settings = {"BOOTSTRAP": broker.bootstrap_servers, "SETTINGS": str(tmp_path / name)}
        done = subprocess.run(
            [sys.executable, example / "service.py"],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "orders: hello\n"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """No password appears in the log, the output or DescribeConfigs."""
    with serve(tmp_path) as broker:
        config = config_of(broker, tmp_path, "alice")
        with pytest.raises(confluent_kafka.KafkaException):
            topics({**config, "sasl.password": "wrong"}, 1)
        with pytest.raises(confluent_kafka.KafkaException):
            topics({"bootstrap.servers": broker.bootstrap_servers}, 1)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient(config_of(broker, tmp_path, "admin"))
        described = admin.describe_configs([resource])[resource].result(SECONDS)
        assert described["scram.users"].value is None
        assert broker.log_lines("authentication.failed", "user=alice")
        shown = f"{broker.log}{broker.output}{ {one.value for one in described.values()} }"
        assert broker.stop() == 0
        shown += broker.log
    assert not any(password in shown for password in passwords_of(tmp_path).values())


def test_names_of_the_certificate(tmp_path: Path) -> None:
    """The certificate names this machine and all advertised hosts; a new host causes a new one."""

    def names() -> set[str]:
        certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return {str(one.value) for one in found.value}

    local = {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    with serve(tmp_path):
        assert names() == local
    certificate = (tmp_path / "server.pem").read_bytes()
    with serve(tmp_path, "--set", "published.host=kafka.example"):
        assert names() == {*local, "kafka.example"}
    assert (tmp_path / "server.pem").read_bytes() != certificate
    listeners = "listeners=INSIDE://127.0.0.1:0"
    advertised = "advertised.listeners=INSIDE://broker:9092"
    protocols = "listener.security.protocol.map=INSIDE:PLAINTEXT"
    with serve(
        tmp_path, "--set", listeners, "--set", advertised, "--set", protocols, listener=None
    ):
        assert {*local, "broker"} <= names()


def test_a_plaintext_listener_is_secured(tmp_path: Path) -> None:
    """A PLAINTEXT listener of any name is secured, and explicit settings take precedence."""
    listeners = "listeners=INSIDE://127.0.0.1:0"
    protocols = "listener.security.protocol.map=INSIDE:PLAINTEXT"
    mechanisms = "sasl.enabled.mechanisms=PLAIN"
    with serve(
        tmp_path, "--set", listeners, "--set", protocols, "--set", mechanisms, listener=None
    ) as broker:
        config = config_of(broker, tmp_path, "alice")
        with pytest.raises(confluent_kafka.KafkaException):
            topics(config, 1)
        assert topics({**config, "sasl.mechanism": "PLAIN"}) == set()


def test_by_a_variable(tmp_path: Path) -> None:
    """KAFKA_DEV_SECURITY_DIR acts like --dev-security; the container's healthcheck respects it."""
    variables = {
        "KAFKA_DEV_SECURITY_DIR": str(tmp_path),
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{free_port()}",
    }
    with Serve("--ephemeral", environment=variables, listener=None) as broker:
        assert topics(config_of(broker, tmp_path, "alice")) == set()
        check = [sys.executable, "-m", "coordinator_server.container.healthcheck"]
        done = forked.run(check, env={**os.environ, **variables})
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_passwords_do_not_pass_in_the_clear(tmp_path: Path, host: str) -> None:
    """PLAIN without TLS is only allowed on loopback."""
    listeners = f"listeners=SASL_PLAINTEXT://{host}:0"
    broker = serve(tmp_path, "--set", listeners, listener=None)
    assert broker.run() == 2
    assert "passwords (PLAIN) would pass unencrypted" in broker.log
    assert broker.output == ""
    assert not any(password in broker.log for password in passwords_of(tmp_path).values())
    local = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
    with serve(tmp_path, "--set", local, listener=None) as broker:
        assert topics(config_of(broker, tmp_path, "alice")) == set()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("users.json", "{", "names with passwords are expected"),
        ("users.json", '{"alice": "geheim\\"; x=\\""}', "names with passwords are expected"),
        ("users.json", '{"server": "secret"}', "names with passwords are expected"),
        ("users.json", "[]", "names with passwords are expected"),
        ("ca.pem", "geheim", "no certificate can be read"),
        ("ca.key", "geheim", "no private key can be read"),
        ("server.pem", "geheim", "no certificate can be read"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: str, words: str) -> None:
    """An invalid file ends the start with exit code 2; the error has its name, not its contents."""
    with serve(tmp_path):
        pass
    (tmp_path / name).write_text(content)
    broker = serve(tmp_path)
    assert broker.run() == 2
    assert words in broker.log
    assert str(tmp_path / name) in broker.log
    assert broker.log.count("\n") == 1
    assert "geheim" not in broker.log


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """A path that is not a directory is refused."""
    (tmp_path / "file").touch()
    broker = serve(tmp_path / "file" / "dir")
    assert broker.run() == 2
    assert "dev.security.dir: " in broker.log
    assert "Not a directory" in broker.log
