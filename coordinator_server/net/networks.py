"""The networks that this machine is in, and its gateways, as the kernel's tables tell them.

A broker in a container has to know whether a client is in one of its networks or came through a
published port. The answer stands in /proc/net/route and /proc/net/ipv6_route; where there are no
such files (not Linux) nothing is known, and nobody is taken for a gateway.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import NamedTuple

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")  # Docker's and Podman's
_LOCAL = 0x80000000  # RTF_LOCAL: an address of our own, no network
_REJECTED = 0x0200  # RTF_REJECT


class _Route(NamedTuple):
    """One row: addresses as numbers of `bits` (32 or 128) bits; gateway 0 is a network of ours."""

    bits: int
    network: int
    prefix_bits: int
    gateway: int


class Routes:
    """What the tables said when they were read."""

    def __init__(self, ipv4_table: str = "", ipv6_table: str = "") -> None:
        rows = [*_ipv4_routes(ipv4_table), *_ipv6_routes(ipv6_table)]
        self._gateways = {
            (row.bits, row.gateway) for row in rows if row.gateway and not row.prefix_bits
        }
        self._networks = [row for row in rows if not row.gateway and row.prefix_bits]

    @classmethod
    def read(cls, directory: Path = Path("/proc/net")) -> Routes:
        """The kernel's tables; a table that is not there is empty."""
        return cls(_text(directory / "route"), _text(directory / "ipv6_route"))

    def is_gateway(self, host: str) -> bool:
        """Whether an address is that of a default gateway."""
        return _number(host) in self._gateways

    def is_near(self, host: str) -> bool:
        """Whether an address lies in a network of ours, the loopback's included."""
        found = _number(host)
        if found is None:
            return False
        bits, number = found
        return is_loopback(host) or any(
            row.bits == bits and (number ^ row.network) >> (bits - row.prefix_bits) == 0
            for row in self._networks
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and never another one: 127.0.0.0/8, ::1, localhost."""
    found = _number(host)
    if found is None:
        return host.lower() == "localhost"
    bits, number = found
    return number >> 24 == 127 if bits == 32 else number == 1


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    return _number(host) is not None


def in_container() -> bool:
    """Whether this process runs in a container of Docker or Podman."""
    return any(Path(mark).exists() for mark in _CONTAINER_MARKS)


def _number(host: str) -> tuple[int, int] | None:
    """Bits and value of an IP address; None for a name."""
    for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
        try:
            return bits, int.from_bytes(socket.inet_pton(family, host.partition("%")[0]), "big")
        except OSError:
            continue
    return None


def _ipv4_routes(table: str) -> list[_Route]:
    """Rows of /proc/net/route: hexadecimal numbers in the machine's own byte order."""
    routes = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or int(fields[3], 16) & _REJECTED:
            continue
        network, gateway, mask = (
            int.from_bytes(struct.pack("=I", int(fields[column], 16)), "big")
            for column in (1, 2, 7)
        )
        routes.append(_Route(32, network, mask.bit_count(), gateway))
    return routes


def _ipv6_routes(table: str) -> list[_Route]:
    """Rows of /proc/net/ipv6_route: network, length, source, length, next hop, ..., flags."""
    routes = []
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 10 or int(fields[8], 16) & (_LOCAL | _REJECTED):
            continue
        routes.append(
            _Route(128, int(fields[0], 16), int(fields[1], 16), gateway=int(fields[4], 16))
        )
    return routes


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
