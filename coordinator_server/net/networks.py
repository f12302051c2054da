"""The networks that this machine is in, and its gateways, from the kernel's routing tables.

A broker in a container has to know whether a client is in one of its networks or came through a
published port. /proc/net/route and /proc/net/ipv6_route say so; where there are no such files (not
Linux) no network is known, and no address is taken for a gateway.

`ipaddress` is imported with the first question, as in `config.hosts`.
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
