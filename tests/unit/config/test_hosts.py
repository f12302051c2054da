"""Hosts as text: addresses and names."""

from __future__ import annotations

import pytest

from coordinator_server.config.hosts import (
    as_java,
    is_address,
    is_loopback,
    parse_address,
    without_mapping,
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("localhost.localdomain", False),  # a name server may resolve this name to any address
        ("::ffff:127.0.0.1", True),
        ("128.0.0.1", False),
        ("::2", False),
        ("broker", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    """127.0.0.0/8, ::1 and localhost are this machine."""
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("1.2.3.4", True),
        ("fe80::1", True),
        ("fe80::1%eth0", True),
        ("broker", False),
        ("", False),
        ("%eth0", False),
        ("127.0.0.1%eth0", False),  # IPv4 has no zones
        ("1.2.3", False),
        ("1.2.3.256", False),
        ("01.2.3.4", False),  # some parsers read a leading 0 as octal, others as decimal
        ("1.2.3.4/8", False),
        ("[::1]", False),
    ],
)
def test_names_are_no_addresses(host: str, expected: bool) -> None:
    """An address may have a zone id; names and malformed addresses are not addresses."""
    assert is_address(host) is expected


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::5", "2001:db8:0:0:0:0:0:5"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("no:address", "no:address"),
    ],
)
def test_addresses_as_java_writes_them(host: str, written: str) -> None:
    """Addresses are formatted as in Java, for ACLs and descriptions of groups."""
    assert as_java(host) == written


def test_ipv4_behind_an_ipv6_socket_is_ipv4() -> None:
    """IPv4-mapped IPv6 addresses become IPv4 addresses; other IPv6 addresses stay."""
    assert parse_address("::ffff:10.0.0.1") == parse_address("10.0.0.1")
    assert parse_address("::ffff:0a00:0001") == parse_address("10.0.0.1")
    assert parse_address("::10.0.0.1") != parse_address("10.0.0.1")
    assert without_mapping("::ffff:10.0.0.1") == "10.0.0.1"
    for host in ("10.0.0.1", "::1", "fe80::1%eth0", "::ffff:0:a00:1", "unknown"):
        assert without_mapping(host) == host
