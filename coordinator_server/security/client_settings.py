"""Client settings to connect to a --dev-security broker, under each client library's names.

Uses only the standard library and imports nothing heavy, because the fixture of users' tests
imports this module.
"""

from __future__ import annotations

from typing import NamedTuple

CLIENTS = ("kafka-python", "aiokafka", "confluent", "java")
"""The supported client libraries; confluent settings are librdkafka's."""

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""The SASL mechanisms for user name and password."""

AUTHORITY_FILE = "ca.pem"
USERS_FILE = "users.json"

_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class ClientAccess(NamedTuple):
    """How a client connects and as which user; `protocol` and `mechanism` are Kafka's names.

    `directory` is the --dev-security directory.
    """

    protocol: str
    mechanism: str
    user: str
    password: str
    directory: str

    def __repr__(self) -> str:
        return f"Access({self.protocol}, {self.user})"

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_certificate(self) -> bool:
        """Whether the client authenticates with a certificate."""
        return self.protocol == "SSL"

    @property
    def has_password(self) -> bool:
        """Whether the client authenticates with user name and password."""
        return self.protocol.startswith("SASL_")

    @property
    def authority(self) -> str:
        """Path of the CA certificate."""
        return f"{self.directory}/{AUTHORITY_FILE}"

    @property
    def certificate(self) -> str:
        """Path of the file with the user's private key and certificate."""
        return f"{self.directory}/{self.user}.pem"


def client_settings(client: str, access: ClientAccess) -> dict[str, str]:
    """Return the settings for a client of CLIENTS, without broker addresses.

    aiokafka also needs an `ssl_context` object. Raises ValueError for an unknown client or
    mechanism.
    """
    if client not in CLIENTS:
        raise ValueError(f"{client!r} is none of {', '.join(CLIENTS)}")
    if access.has_password and access.mechanism not in MECHANISMS:
        raise ValueError(f"mechanism: {access.mechanism!r} is none of {', '.join(MECHANISMS)}")
    if client == "confluent":
        return _librdkafka(access)
    if client == "java":
        return _java(access)
    settings = {"security_protocol": access.protocol}
    if client == "kafka-python" and access.uses_tls:
        settings["ssl_cafile"] = access.authority
        if access.has_certificate:
            settings["ssl_certfile"] = settings["ssl_keyfile"] = access.certificate
    if access.has_password:
        settings["sasl_mechanism"] = access.mechanism
        settings["sasl_plain_username"] = access.user
        settings["sasl_plain_password"] = access.password
    return settings


def _librdkafka(access: ClientAccess) -> dict[str, str]:
    settings = {"security.protocol": access.protocol}
    if access.uses_tls:
        settings["ssl.ca.location"] = access.authority
    if access.has_certificate:
        settings["ssl.certificate.location"] = settings["ssl.key.location"] = access.certificate
    if access.has_password:
        settings["sasl.mechanism"] = access.mechanism
        settings["sasl.username"] = access.user
        settings["sasl.password"] = access.password
    return settings


def _java(access: ClientAccess) -> dict[str, str]:
    settings = {"security.protocol": access.protocol}
    if access.uses_tls:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = access.authority
    if access.has_certificate:
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = access.certificate
    if access.has_password:
        module = _PLAIN_MODULE if access.mechanism == "PLAIN" else _SCRAM_MODULE
        settings["sasl.mechanism"] = access.mechanism
        settings["sasl.jaas.config"] = (
            f'{module} required username="{access.user}" password="{access.password}";'
        )
    return settings
