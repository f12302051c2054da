"""A Kafka with a listener for each security protocol, and the client properties for each."""

from __future__ import annotations

import secrets
from pathlib import Path

from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from tests.certificates import Authority
from tests.oracle.kafka_process import Kafka

LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "OTHERNAME": "SSL",
    "EXPIRED": "SSL",
}
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER = "alice"
SESSION_MS = 3_000
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka:
    """The broker, its certificates in a directory, and the user that it knows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.password = secrets.token_urlsafe(12)
        self._authority = Authority("Tests CA")
        self.truststore = self._authority.write(directory / "ca.pem")
        self.other_truststore = Authority("Another CA").write(directory / "other-ca.pem")
        self.keystore = self._authority.issue(USER, hosts=()).write(directory / "client.pem")
        Authority("Another CA").issue("eve", hosts=()).write(directory / "stranger.pem")
        self.kafka = Kafka(directory, self._settings(), listeners=LISTENERS)

    def start(self) -> None:
        """Start it, with the user's SCRAM credentials."""
        self.kafka.start()
        for mechanism in SASL_MECHANISMS[1:3]:
            arguments = ["--bootstrap-server", self.kafka.bootstrap_servers, "--alter"]
            arguments += ["--entity-type", "users", "--entity-name", USER]
            arguments += ["--add-config", f"{mechanism}=[password={self.password}]"]
            assert run_script(BY_NAME["kafka-configs"], arguments) == 0

    def end(self) -> None:
        """Whatever state it is in, it ends now."""
        self.kafka.end()

    def server(self, listener: str) -> str:
        """HOST:PORT of a listener."""
        host, port = self.kafka.addresses[listener]
        return f"{host}:{port}"

    def properties(self, listener: str, mechanism: str | None = None) -> dict[str, str]:
        """What a client needs for a listener."""
        found = {"security.protocol": LISTENERS[listener]}
        if LISTENERS[listener].endswith("SSL"):
            found["ssl.truststore.location"] = str(self.truststore)
            found["ssl.truststore.type"] = "PEM"
        if listener == "MUTUAL":
            found["ssl.keystore.location"] = str(self.keystore)
            found["ssl.keystore.type"] = "PEM"
        if mechanism is not None:
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = self._jaas(mechanism)
        return found

    def write(self, name: str, properties: dict[str, str]) -> Path:
        """A properties file."""
        path = self._directory / f"{name}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "OAUTHBEARER":
            module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
            return f'{module} required unsecuredLoginStringClaim_sub="{USER}";'
        module = f"{_MODULES}.scram.ScramLoginModule"
        if mechanism == "PLAIN":
            module = f"{_MODULES}.plain.PlainLoginModule"
        return f'{module} required username="{USER}" password="{self.password}";'

    def _settings(self) -> dict[str, str]:
        settings = {}
        for listener, protocol in LISTENERS.items():
            prefix = f"listener.name.{listener.lower()}"
            if protocol.endswith("SSL"):
                hosts = ("other.example",) if listener == "OTHERNAME" else ("127.0.0.1",)
                days = -3 if listener == "EXPIRED" else 5
                identity = self._authority.issue("broker", hosts=hosts, days=days)
                store = identity.write(self._directory / f"{listener}.pem")
                settings[f"{prefix}.ssl.keystore.location"] = str(store)
                settings[f"{prefix}.ssl.keystore.type"] = "PEM"
                settings[f"{prefix}.ssl.truststore.location"] = str(self.truststore)
                settings[f"{prefix}.ssl.truststore.type"] = "PEM"
            if protocol.startswith("SASL"):
                settings[f"{prefix}.connections.max.reauth.ms"] = str(SESSION_MS)
                settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(SASL_MECHANISMS)
                plain = f"{_MODULES}.plain.PlainLoginModule required"
                settings[f"{prefix}.plain.sasl.jaas.config"] = (
                    f'{plain} user_{USER}="{self.password}";'
                )
                scram = f"{_MODULES}.scram.ScramLoginModule required;"
                settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = scram
                settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = scram
                settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = self._jaas("OAUTHBEARER")
        settings["listener.name.mutual.ssl.client.auth"] = "required"
        return settings
