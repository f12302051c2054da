"""The kernel's routing tables, in the format of Linux."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from coordinator_server.net.networks import RoutingTable


def row(interface: str, network: str, gateway: str, mask: str, flags: int) -> str:
    """Return a line of /proc/net/route; the addresses are in the machine's byte order."""
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
        ("10.1.2.3", False, True),  # a gateway, but not the default gateway
        ("10.9.0.1", False, False),
        ("10.66.0.1", False, False),
        ("127.0.0.1", False, True),
        ("fd00:dead::1", True, True),
        ("fd00:dead::99", False, True),
        ("fd00:beef::2", False, False),
        ("fe80::1", True, True),
        ("fe80::1%eth0", True, True),  # a link-local address with its zone, as in a socket
        ("fe80::99%eth0", False, True),
        ("fe80:0:0:1::99%eth0", False, False),  # fe80::/64 is the link, fe80::/10 is not
        ("169.254.0.7", False, False),  # link-local too, but without a route
        ("::1", False, True),
        ("::ffff:172.18.0.1", True, True),  # an IPv4 address, as in an IPv6 socket
        ("::ffff:172.19.0.1", False, False),
        ("::172.18.0.1", False, False),  # an IPv6 address of the machine
        ("no address", False, False),
    ],
)
def test_gateways_and_networks(host: str, is_gateway: bool, is_on_link: bool) -> None:
    """Default gateways are gateways; a network without a gateway is on the link."""
    routes = RoutingTable(IPV4_TABLE, IPV6_TABLE)
    assert (routes.is_gateway(host), routes.is_on_link(host)) == (is_gateway, is_on_link)


def test_tables_are_read_from_files(tmp_path: Path) -> None:
    """Tables are read in the kernel's format; a missing table is empty."""
    nothing = RoutingTable.read(tmp_path)
    assert not nothing.is_gateway("172.18.0.1")
    assert not nothing.is_on_link("172.18.0.1")
    (tmp_path / "route").write_text(IPV4_TABLE)
    (tmp_path / "ipv6_route").write_text(IPV6_TABLE)
    routes = RoutingTable.read(tmp_path)
    assert routes.is_gateway("172.18.0.1")
    assert routes.is_gateway("fd00:dead::1")
