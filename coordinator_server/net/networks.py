"""The networks and default gateways of this machine, from the kernel's routing tables.

A broker in a container must know whether a client is in one of its networks or connected through a
published port. Linux lists the routes in /proc/net/route and /proc/net/ipv6_route; on other systems
no network is known and no address counts as a gateway. `ipaddress` is imported on first use, as in
`config.hosts`.
"""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.hosts import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network, IPv6Network

    from coordinator_server.config.hosts import Address

_RTF_LOCAL = 0x80000000  # the route is to an address of this machine, not to a network
_RTF_REJECT = 0x0200


class _RoutingEntry(NamedTuple):
    """One routing table row; gateway 0.0.0.0 or :: means that the network is on-link."""

    network: IPv4Network | IPv6Network
    gateway: Address


class RoutingTable:
    """The kernel's IPv4 and IPv6 routes, parsed from the table texts."""

    def __init__(self, ipv4_table: str = "", ipv6_table: str = "") -> None:
        self._tables = ipv4_table, ipv6_table

    @classmethod
    def read(cls, directory: Path = Path("/proc/net")) -> RoutingTable:
        """Read the current tables; a missing file counts as empty."""
        return cls(_text(directory / "route"), _text(directory / "ipv6_route"))

    def is_gateway(self, host: str) -> bool:
        """Return whether an address is a default gateway."""
        return parse_address(host) in self._default_gateways

    def is_on_link(self, host: str) -> bool:
        """Return whether an address is loopback or in an on-link network of this machine."""
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


def _ipv4_entries(table: str) -> Iterator[_RoutingEntry]:
    """Parse /proc/net/route: hexadecimal numbers in host byte order."""
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
    """Parse /proc/net/ipv6_route: network, length, source, length, next hop, ..., flags."""
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
