"""Hosts as texts: which are addresses, which are this machine, and how Java writes them.

`ipaddress` is imported with the first question: a start asks none, and the import takes more than a
millisecond (Python before 3.13 has it by then, through pathlib).
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    Address = IPv4Address | IPv6Address

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
"""Files that Docker and Podman put into their containers."""


@lru_cache(maxsize=1024)
def parse_address(host: str) -> Address | None:
    """The IP address that a host is, None for a name.

    The zone id of an IPv6 address (`fe80::1%eth0`) is dropped, as the routing tables know none; an
    IPv4 address that an IPv6 socket shows (`::ffff:10.0.0.1`, RFC 4291) is the IPv4 address.
    """
    from ipaddress import ip_address

    try:
        address = ip_address(host.partition("%")[0] if ":" in host else host)
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
    """Whether a host is this machine and never another one: 127.0.0.0/8, ::1, localhost.

    Checks of security rely on it. RFC 6761 reserves that name; localhost.localdomain and the like
    may be another machine's.
    """
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    return parse_address(host) is not None


def in_container() -> bool:
    """Return whether this process runs in a container of Docker or Podman."""
    return any(map(os.path.exists, _CONTAINER_MARKS))
