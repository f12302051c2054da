"""Client settings from Kafka's properties, and addresses of bootstrap.servers."""

from __future__ import annotations

import pytest

from coordinator_server.client import (
    Address,
    ClientError,
    ClientSettings,
    parse_addresses,
    read_settings,
)


def test_properties_replace_defaults_and_others_are_ignored() -> None:
    """Properties replace defaults; unknown properties are ignored, as clients may share a file."""
    properties = {"client.id": "c", "request.timeout.ms": " 5 ", "ssl.truststore.location": "/x"}
    settings = read_settings(properties, ClientSettings(default_api_timeout_ms=7))
    assert settings == ClientSettings("c", 5, 7)
    assert read_settings({"security.protocol": "plaintext"}) == ClientSettings()


def test_what_cannot_be_used_is_refused() -> None:
    """A numeric client setting whose value is not a number is refused."""
    with pytest.raises(ClientError, match=r"^Invalid value x for configuration retry.backoff.ms: "):
        read_settings({"retry.backoff.ms": "x"})


def test_addresses_are_read_as_kafkas_clients_read_them() -> None:
    """Addresses may have a listener name in front, brackets around IPv6, and blanks in between."""
    assert parse_addresses("a:1, PLAINTEXT://b.c:2,[::1]:3,") == [
        Address("a", 1),
        Address("b.c", 2),
        Address("::1", 3),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Invalid url in bootstrap.servers: nonsense"),
        ("a:1,b:x", "Invalid url in bootstrap.servers: b:x"),
        ("a:70000", "Invalid port in bootstrap.servers: a:70000"),
        ("", "No resolvable bootstrap urls given in bootstrap.servers"),
    ],
)
def test_what_is_no_address_is_named(text: str, message: str) -> None:
    """An invalid address is refused with the text of Kafka's ConfigException."""
    with pytest.raises(ClientError) as raised:
        parse_addresses(text)
    assert str(raised.value) == message
