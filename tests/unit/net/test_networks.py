"""The kernel's routing tables, in the forms that Linux prints, and the addresses of hosts."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from coordinator_server.net.networks import (
    RoutingTable,
    as_java,
    is_address,
    is_loopback,
    parse_address,
    without_mapping,
)


def row(interface: str, network: str, gateway: str, mask: str, flags: int) -> str:
    """One line of /proc/net/route: the addresses are numbers of the machine's byte order."""
    numbers = [
        f"{struct.unpack('=I', socket.inet_aton(address))[0]:08X}"
        for address in (network, gateway, mask)
    ]
    return f"{interface}\t{numbers[0]}\t{numbers[1]}\t{flags:04X}\t0\t0\t0\t{numbers[2]}\t0\t0\t0"


IPV4_TABLE = "\n".join(
    [
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
        row("eth0", "0.0.0.0", "172.18.0.1", "0.0.0.0", 3),
        row("eth0", "172.18.0.0", "0.0.0.0", "255.255.0.0", 1),
        row("eth1", "10.1.2.0", "0.0.0.0", "255.255.255.128", 1),
        row("eth1", "10.9.0.0", "10.1.2.3", "255.255.0.0", 3),
        row("*", "10.66.0.0", "0.0.0.0", "255.255.0.0", 0x201),
    ]
)
_ZERO = "0" * 32
IPV6_TABLE = "\n".join(
    [
        f"fd00dead{'0' * 24} 40 {_ZERO} 00 {_ZERO} 00000100 00000001 00000000 00000001 eth0",
        f"{_ZERO} 00 {_ZERO} 00 fd00dead{'0' * 23}1 00000400 00000001 00000000 00000003 eth0",
        f"fe80{'0' * 28} 40 {_ZERO} 00 {_ZERO} 00000100 00000001 00000000 00000001 eth0",
        f"{_ZERO} 00 {_ZERO} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00000003 eth0",
        f"fd00beef{'0' * 23}2 80 {_ZERO} 00 {_ZERO} 00000000 00000002 00000000 80000001 lo",
        f"{_ZERO} 00 {_ZERO} 00 {_ZERO} ffffffff 00000001 00000000 00200200 lo",
    ]
)


@pytest.mark.parametrize(
    ("host", "is_gateway", "is_on_link"),
    [
        ("172.18.0.1", True, True),
        ("172.18.255.254", False, True),
        ("172.19.0.1", False, False),
        ("10.1.2.127", False, True),
        ("10.1.2.128", False, False),
        ("10.1.2.3", False, True),  # a gateway, but not the default one
        ("10.9.0.1", False, False),
        ("10.66.0.1", False, False),
        ("127.0.0.1", False, True),
        ("fd00:dead::1", True, True),
        ("fd00:dead::99", False, True),
        ("fd00:beef::2", False, False),
        ("fe80::1", True, True),
        ("fe80::1%eth0", True, True),  # as a socket shows a link-local address: with its zone
        ("fe80::99%eth0", False, True),
        ("fe80:0:0:1::99%eth0", False, False),  # fe80::/64 is the link, fe80::/10 is not
        ("169.254.0.7", False, False),  # link-local too, but there is no route to such a link
        ("::1", False, True),
        ("::ffff:172.18.0.1", True, True),  # as an IPv6 socket shows an IPv4 address
        ("::ffff:172.19.0.1", False, False),
        ("::172.18.0.1", False, False),  # an IPv6 address of its own
        ("no address", False, False),
    ],
)
def test_gateways_and_networks(host: str, is_gateway: bool, is_on_link: bool) -> None:
    """Default gateways are gateways; a network that is reached without one is on the link."""
    routes = RoutingTable(IPV4_TABLE, IPV6_TABLE)
    assert (routes.is_gateway(host), routes.is_on_link(host)) == (is_gateway, is_on_link)


def test_tables_are_read_from_files(tmp_path: Path) -> None:
    """/proc/net/route as the kernel writes it; a table that is not there is empty."""
    nothing = RoutingTable.read(tmp_path)
    assert not nothing.is_gateway("172.18.0.1")
    assert not nothing.is_on_link("172.18.0.1")
    (tmp_path / "route").write_text(IPV4_TABLE)
    (tmp_path / "ipv6_route").write_text(IPV6_TABLE)
    routes = RoutingTable.read(tmp_path)
    assert routes.is_gateway("172.18.0.1")
    assert routes.is_gateway("fd00:dead::1")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::ffff:127.0.0.1", True),
        ("128.0.0.1", False),
        ("::2", False),
        ("broker", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    """127.0.0.0/8, ::1 and the name localhost are this machine."""
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
        ("1.2.3", False),
        ("1.2.3.256", False),
        ("01.2.3.4", False),  # octal to some, decimal to others
        ("1.2.3.4/8", False),
        ("[::1]", False),
    ],
)
def test_names_are_no_addresses(host: str, expected: bool) -> None:
    """A zone id does not make an address a name; what only looks like one is none."""
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
    """ACLs and the descriptions of groups have them so."""
    assert as_java(host) == written


def test_ipv4_behind_an_ipv6_socket_is_ipv4() -> None:
    """Mapped addresses are IPv4 addresses, other IPv6 addresses stay as they are."""
    assert parse_address("::ffff:10.0.0.1") == parse_address("10.0.0.1")
    assert parse_address("::ffff:0a00:0001") == parse_address("10.0.0.1")
    assert parse_address("::10.0.0.1") != parse_address("10.0.0.1")
    assert without_mapping("::ffff:10.0.0.1") == "10.0.0.1"
    for host in ("10.0.0.1", "::1", "fe80::1%eth0", "::ffff:0:a00:1", "unknown"):
        assert without_mapping(host) == host
