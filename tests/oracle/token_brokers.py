"""A Kafka and our broker with delegation tokens, and the same listeners, users and ACLs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator_server.client import Client, read_settings
from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from tests.certificates import Authority
from tests.oracle.kafka_process import Kafka
from tests.support import Serve, free_port

LISTENERS = {"USERS": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL"}
KEY = "the key of both"
USERS = ("admin", "alice", "bob", "carol", "dave", "erin")
"""Users of PLAIN; the password of each is its name."""
MODULE = "org.apache.kafka.common.security"
AUTHORIZED = {
    "authorizer.class.name": AUTHORIZER_CLASS,
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": KEY,
}


class Settings:
    """The settings of both brokers, with certificates in a directory."""

    def __init__(self, directory: Path, more: Mapping[str, str]) -> None:
        authority = Authority("Tests CA")
        self.truststore = authority.write(directory / "ca.pem")
        self.keystore = authority.issue("mutual", hosts=()).write(directory / "client.pem")
        broker = authority.issue("broker").write(directory / "broker.pem")
        users = "".join(f' user_{name}="{name}"' for name in USERS)
        scram = f"{MODULE}.scram.ScramLoginModule required;"
        self.settings = {
            "inter.broker.listener.name": "PLAINTEXT",
            "connection.failed.authentication.delay.ms": "0",
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.users.plain.sasl.jaas.config": (
                f"{MODULE}.plain.PlainLoginModule required{users};"
            ),
            "listener.name.users.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.mutual.ssl.client.auth": "required",
            **more,
        }
        for name in ("tls", "mutual"):
            for store, path in (("keystore", broker), ("truststore", self.truststore)):
                self.settings[f"listener.name.{name}.ssl.{store}.location"] = str(path)
                self.settings[f"listener.name.{name}.ssl.{store}.type"] = "PEM"


class Brokers:
    """The addresses of one broker's listeners, and clients for the broker."""

    def __init__(self, settings: Settings, addresses: Mapping[str, str]) -> None:
        self._settings = settings
        self.addresses = addresses

    def client(self, listener: str, user: str = "", mechanism: str = "PLAIN") -> Client:
        """Return a client of a listener; on USERS it logs in as a user."""
        return self._client(listener, mechanism, f'username="{user}" password="{user}"')

    def client_with(self, token: Any, mechanism: str = "SCRAM-SHA-256") -> Client:
        """Return a client that logs in with a token."""
        return self._client("USERS", mechanism, jaas_of(token))

    def _client(self, listener: str, mechanism: str, options: str) -> Client:
        return Client(
            self.addresses[listener], read_settings(self.properties(listener, mechanism, options))
        )

    def properties(self, listener: str, mechanism: str, options: str) -> dict[str, str]:
        """Return the properties of a client."""
        protocol = LISTENERS.get(listener, "PLAINTEXT")
        found = {"security.protocol": protocol, "default.api.timeout.ms": "5000"}
        if protocol == "SSL":
            found["ssl.truststore.location"] = str(self._settings.truststore)
            found["ssl.truststore.type"] = "PEM"
        if listener == "MUTUAL":
            found["ssl.keystore.location"] = str(self._settings.keystore)
            found["ssl.keystore.type"] = "PEM"
        if listener == "USERS":
            login = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = f"{MODULE}.{login} required {options};"
        return found


def jaas_of(token: Any) -> str:
    """Return the login module options for a token."""
    password = base64.b64encode(token.hmac).decode()
    return f'username="{token.token_id}" password="{password}" tokenauth="true"'


class Theirs:
    """A Kafka that runs as long as the context."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._kafka = Kafka(directory, settings.settings, listeners=LISTENERS)
        self._settings = settings

    def __enter__(self) -> Brokers:
        try:
            self._kafka.start()
        except BaseException:
            self._kafka.end()
            raise
        addresses = {name: f"{host}:{port}" for name, (host, port) in self._kafka.addresses.items()}
        return Brokers(self._settings, {**addresses, "PLAINTEXT": self._kafka.bootstrap_servers})

    def __exit__(self, *_: object) -> None:
        self._kafka.end()


class Ours:
    """Our broker, which runs as long as the context and must not log a secret or a fault."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", *LISTENERS)}
        given = settings.settings | {
            "listeners": ",".join(f"{name}://{one}" for name, one in self._addresses.items()),
            "listener.security.protocol.map": ",".join(
                f"{name}:{LISTENERS.get(name, name)}" for name in self._addresses
            ),
        }
        arguments = [part for pair in given.items() for part in ("--set", "=".join(pair))]
        self.serve = Serve("--ephemeral", "--log-level", "debug", *arguments, listener=None)

    def __enter__(self) -> Brokers:
        self.serve.__enter__()
        return Brokers(self._settings, self._addresses)

    def __exit__(self, kind: object, *_: object) -> None:
        log = self.serve.log
        self.serve.__exit__()
        if kind is None:
            assert "Traceback" not in log, log[-3000:]
            assert KEY not in log
