"""The settings of a client: the subset of Kafka's client properties that this client supports.

Names and defaults are those of Kafka's AdminClientConfig. Other properties are ignored, because a
`--command-config` file is often shared with other clients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.client.errors import ClientError
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.client.security import SecuritySettings

_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def lookup_name(self) -> str | bytes:
        """Return the host in the form that functions of `socket` take.

        An ASCII host is returned as bytes: for a str, Python first imports its IDNA tables (20 ms).
        """
        return self.host.encode() if self.host.isascii() else self.host


class ClientSettings(NamedTuple):
    """The settings of a client, times in milliseconds; `security` is None in plain text."""

    client_id: str = "adminclient-1"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    security: SecuritySettings | None = None


def read_settings(
    properties: Mapping[str, str], defaults: ClientSettings | None = None
) -> ClientSettings:
    """Return the settings in `properties`, with defaults from `defaults`.

    Raises ClientError (INVALID_CONFIG) for an invalid value, UnsupportedSettingError for security
    settings that are not supported.
    """
    settings = defaults or ClientSettings()
    security = settings.security
    if properties.get("security.protocol", "PLAINTEXT").strip().upper() != "PLAINTEXT":
        from coordinator_server.client.security import read_security

        security = read_security(properties)
    given: dict[str, int | str] = {}
    for field in ClientSettings._fields[:-1]:
        name = field.replace("_", ".")
        if name not in properties:
            continue
        value = properties[name].strip()
        if field == "client_id":
            given[field] = value or settings.client_id
        elif re.fullmatch(r"[+-]?[0-9]+", value):
            given[field] = int(value)
        else:
            raise ClientError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {value} for configuration {name}: Not a number of type INT",
            )
    numbers: Any = given
    return settings._replace(security=security, **numbers)


def parse_addresses(bootstrap_servers: str) -> list[Address]:
    """Parse HOST:PORT[,HOST:PORT...], with IPv6 addresses in brackets and an optional LISTENER://.

    Raises ClientError (INVALID_CONFIG) with the message of Kafka's ConfigException.
    """
    addresses = []
    for url in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        match = _ADDRESS.fullmatch(url)
        if match is None or not match[1]:
            raise ClientError(ErrorCode.INVALID_CONFIG, f"Invalid url in bootstrap.servers: {url}")
        if int(match[2]) > 65_535:
            raise ClientError(ErrorCode.INVALID_CONFIG, f"Invalid port in bootstrap.servers: {url}")
        addresses.append(Address(match[1], int(match[2])))
    if not addresses:
        raise ClientError(
            ErrorCode.INVALID_CONFIG, "No resolvable bootstrap urls given in bootstrap.servers"
        )
    return addresses
