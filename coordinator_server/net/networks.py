"""The networks that this machine is in, and its gateways, from the kernel's routing tables.

A broker in a container has to know whether a client is in one of its networks or came through a
published port. /proc/net/route and /proc/net/ipv6_route say so; where there are no such files (not
Linux) no network is known, and no address is taken for a gateway.

Addresses are those of `ipaddress`, which is imported with the first question: a start asks none,
and the import takes more than a millisecond (Python before 3.13 has it by then, through pathlib).
"""

from __future__ import annotations

import socket
import sys
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")  # Docker's and Podman's
_RTF_LOCAL = 0x80000000  # an address of this machine, no network
_RTF_REJECT = 0x0200


class _RoutingEntry(NamedTuple):
    """One row of a table; an unspecified gateway (0.0.0.0, ::) is a network that is on the link."""

    network: IPv4Network | IPv6Network
    gateway: Address


class RoutingTable:
    """The kernel's routes, IPv4 and IPv6, from the texts of its tables."""

    def __init__(self, ipv4_table: str = "", ipv6_table: str = "") -> None:
        self._tables = ipv4_table, ipv6_table

    @classmethod
    def read(cls, directory: Path = Path("/proc/net")) -> RoutingTable:
        """The tables as they are now; one that is not there is empty."""
        return cls(_text(directory / "route"), _text(directory / "ipv6_route"))

    def is_gateway(self, host: str) -> bool:
        """Whether an address is that of a default gateway."""
        return parse_address(host) in self._default_gateways

    def is_on_link(self, host: str) -> bool:
        """Whether an address lies in a network of this machine's own, loopback included."""
        address = parse_address(host)
        if address is None:
            return False
        return address.is_loopback or any(address in network for network in self._networks)

    @cached_property
    def _entries(self) -> list[_RoutingEntry]:
        ipv4_table, ipv6_table = self._tables
        return [*_ipv4_entries(ipv4_table), *_ipv6_entries(ipv6_table)]

    @cached_property
    def _default_gateways(self) -> frozenset[Address]:
        return frozenset(
            entry.gateway
            for entry in self._entries
            if not entry.gateway.is_unspecified and not entry.network.prefixlen
        )

    @cached_property
    def _networks(self) -> list[IPv4Network | IPv6Network]:
        return [
            entry.network
            for entry in self._entries
            if entry.gateway.is_unspecified and entry.network.prefixlen
        ]


@lru_cache(maxsize=1024)
def parse_address(host: str) -> Address | None:
    """The IP address that a host is, None for a name.

    A zone id (`fe80::1%eth0`) is dropped, as the routing tables know none; an IPv4 address that an
    IPv6 socket shows (`::ffff:10.0.0.1`, RFC 4291) is the IPv4 address.
    """
    from ipaddress import ip_address

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def without_mapping(host: str) -> str:
    """A host as it is written; an IPv4 address that an IPv6 socket shows is written as IPv4."""
    if not host.startswith("::ffff:"):
        return host
    return str(parse_address(host) or host)


def as_java(host: str) -> str:
    """A host as Java's InetAddress writes it: the groups of an IPv6 address are all there."""
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    try:
        packed = socket.inet_pton(socket.AF_INET6, address)
    except OSError:
        return host
    groups = (packed[i] << 8 | packed[i + 1] for i in range(0, 16, 2))
    return ":".join(f"{group:x}" for group in groups) + percent + zone


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and never another one: 127.0.0.0/8, ::1, localhost."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    return parse_address(host) is not None


def in_container() -> bool:
    """Whether this process runs in a container of Docker or Podman."""
    return any(Path(mark).exists() for mark in _CONTAINER_MARKS)


def _ipv4_entries(table: str) -> Iterator[_RoutingEntry]:
    """Rows of /proc/net/route: hexadecimal numbers in the machine's own byte order."""
    from ipaddress import IPv4Address, IPv4Network

    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or int(fields[3], 16) & _RTF_REJECT:
            continue
        network, gateway, mask = (
            IPv4Address(int(fields[column], 16).to_bytes(4, sys.byteorder)) for column in (1, 2, 7)
        )
        yield _RoutingEntry(IPv4Network(f"{network}/{mask}", strict=False), gateway)


def _ipv6_entries(table: str) -> Iterator[_RoutingEntry]:
    """Rows of /proc/net/ipv6_route: network, length, source, length, next hop, ..., flags."""
    from ipaddress import IPv6Address, IPv6Network

    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 10 or int(fields[8], 16) & (_RTF_LOCAL | _RTF_REJECT):
            continue
        network = IPv6Network((bytes.fromhex(fields[0]), int(fields[1], 16)), strict=False)
        yield _RoutingEntry(network, IPv6Address(bytes.fromhex(fields[4])))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
