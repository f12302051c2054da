"""Listeners for each security protocol, and the client properties for each of them.

`SecuredKafka` in tests/oracle runs Apache Kafka, `SecuredBroker` runs our broker. Both use the same
settings, certificates and user.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from coordinator_server.kafka_tools.script_names import BY_NAME, run_script
from tests.certificates import Authority
from tests.support import Serve, free_port

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
_UNSECURED = (
    f"{_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


class Secured:
    """A broker with a listener per security protocol: certificates, settings, and one user.

    `looks_like` is the broker's name in the output of doctor.
    """

    looks_like = "looks like Kafka 4.2 or newer"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.password = secrets.token_urlsafe(12)
        self._authority = Authority("Tests CA")
        self.truststore = self._authority.write(directory / "ca.pem")
        self.other_truststore = Authority("Another CA").write(directory / "other-ca.pem")
        self.keystore = self._authority.issue(USER, hosts=()).write(directory / "client.pem")
        self.stranger = directory / "stranger.pem"
        Authority("Another CA").issue("eve", hosts=()).write(self.stranger)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return host and port of each listener in LISTENERS."""
        raise NotImplementedError

    @property
    def plain_server(self) -> str:
        """Return HOST:PORT of the listener without security."""
        raise NotImplementedError

    def server(self, listener: str) -> str:
        """Return HOST:PORT of a listener."""
        host, port = self.addresses[listener]
        return f"{host}:{port}"

    def properties(self, listener: str, mechanism: str | None = None) -> dict[str, str]:
        """Return the client properties for a listener."""
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
        """Write a properties file and return its path."""
        path = self._directory / f"{name}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def _make_users(self) -> None:
        """Give the user its SCRAM credentials."""
        for mechanism in SASL_MECHANISMS[1:3]:
            arguments = ["--bootstrap-server", self.plain_server, "--alter"]
            arguments += ["--entity-type", "users", "--entity-name", USER]
            arguments += ["--add-config", f"{mechanism}=[password={self.password}]"]
            assert run_script(BY_NAME["kafka-configs"], arguments) == 0

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
                # Kafka accepts unsecured tokens by default; this project's broker accepts them only
                # with this setting.
                settings[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _UNSECURED
        settings["listener.name.mutual.ssl.client.auth"] = "required"
        return settings


class SecuredBroker(Secured):
    """Our broker with all secured listeners; `serve` is its process."""

    def __init__(
        self,
        directory: Path,
        more: Mapping[str, str] | None = None,
        *,
        log_level: str = "debug",
    ) -> None:
        super().__init__(directory)
        names = ("PLAINTEXT", *LISTENERS)
        self._addresses = {name: ("127.0.0.1", free_port()) for name in names}
        listeners = {name: f"{name}://{self.server(name)}" for name in names}
        protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
        settings = {
            **self._settings(),
            "listeners": ",".join(listeners.values()),
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "group.initial.rebalance.delay.ms": "0",
            **(more or {}),
        }
        arguments = [f"--set={name}={value}" for name, value in settings.items()]
        self.serve = Serve("--ephemeral", "--log-level", log_level, *arguments, listener=None)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return host and port of each listener in LISTENERS."""
        return self._addresses

    @property
    def plain_server(self) -> str:
        """Return HOST:PORT of the listener without security."""
        return self.server("PLAINTEXT")

    def start(self) -> None:
        """Start the broker with the user's SCRAM credentials."""
        self.serve.__enter__()
        self._make_users()

    def end(self) -> None:
        """End the broker immediately, in any state."""
        self.serve.__exit__()
