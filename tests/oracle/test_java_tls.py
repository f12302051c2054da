"""Java clients over TLS, with stores made by keytool on both sides."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.oracle.kafka_process import SECONDS, java
from tests.support import Serve

pytestmark = pytest.mark.nightly

STORE, KEY = "of the store", "of the key!"
COUNT = 20


class KeyTool:
    """Makes key and trust stores in one directory with Java's keytool."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self._directory / name

    def run(self, *arguments: str) -> None:
        """Run one keytool command."""
        command = ["keytool", "-J-XX:TieredStopAtLevel=1", *arguments]
        subprocess.run(
            command, cwd=self._directory, capture_output=True, check=True, timeout=SECONDS
        )

    def make(self, name: str, store_type: str, algorithm: str, key_password: str) -> None:
        """Create a key store with a self-signed certificate, and export the certificate."""
        store = ["-keystore", name, "-storetype", store_type, "-storepass", STORE]
        self.run(
            *("-genkeypair", "-alias", "one", "-keyalg", algorithm, *store),
            *("-keypass", key_password, "-dname", f"CN={name}, OU=Java"),
            *("-ext", "san=dns:localhost,ip:127.0.0.1"),
        )
        self.run("-exportcert", "-alias", "one", "-file", f"{name}.crt", *store)

    def trust(self, name: str, store_type: str, trusted: str) -> None:
        """Create a trust store with another store's certificate."""
        self.run(
            *("-importcert", "-noprompt", "-alias", "other", "-file", f"{trusted}.crt"),
            *("-keystore", name, "-storetype", store_type, "-storepass", STORE),
        )


@pytest.mark.parametrize(
    ("store_type", "algorithm", "key_password"), [("JKS", "RSA", KEY), ("PKCS12", "EC", STORE)]
)
def test_java_produces_and_consumes(
    tmp_path: Path, store_type: str, algorithm: str, key_password: str
) -> None:
    """Java's console tools use a client certificate, and our broker reads keytool's stores."""
    tool = KeyTool(tmp_path)
    tool.make("broker", store_type, algorithm, key_password)
    tool.make("client", store_type, algorithm, key_password)
    tool.trust("brokers", store_type, "broker")
    tool.trust("clients", store_type, "client")

    def settings(key_store: str, trust_store: str) -> dict[str, str]:
        return {
            "ssl.keystore.type": store_type,
            "ssl.keystore.location": str(tool.path(key_store)),
            "ssl.keystore.password": STORE,
            "ssl.key.password": key_password,
            "ssl.truststore.type": store_type,
            "ssl.truststore.location": str(tool.path(trust_store)),
            "ssl.truststore.password": STORE,
        }

    ours = settings("broker", "clients") | {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
    }
    client = settings("client", "brokers") | {"security.protocol": "SSL"}
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
    arguments = [f"--set={name}={value}" for name, value in ours.items()]
    with Serve("--ephemeral", "--log-level", "debug", *arguments, listener=None) as broker:
        common = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t"]
        common += ["--command-config", str(properties)]
        values = [f"value {number}" for number in range(COUNT)]
        subprocess.run(
            java("org.apache.kafka.tools.ConsoleProducer", *common),
            input="\n".join(values),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        read = subprocess.run(
            java(
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                *common,
                *("--from-beginning", "--group", "g", "--max-messages", str(COUNT)),
            ),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        assert read.stdout.split("\n")[:COUNT] == values
        assert broker.log_lines("client.authenticated", "User:CN=client,OU=Java")
