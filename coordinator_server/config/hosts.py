"""Host strings: parsing of IP addresses, loopback checks, and Java's format.

`ipaddress` is imported on first use, because the import takes more than a millisecond and a start
does not need the module (before Python 3.13 pathlib imports it anyway).
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
"""Files that exist in containers of Docker and Podman."""


@lru_cache(maxsize=1024)
def parse_address(host: str) -> Address | None:
    """Parse an IP address; return None for a host name.

    The zone id of an IPv6 address (`fe80::1%eth0`) is dropped, because routing tables contain none.
    An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`, RFC 4291) becomes the IPv4 address.
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
    """Return a host, with an IPv4-mapped IPv6 address replaced by the IPv4 address."""
    if not host.startswith("::ffff:"):
        return host
    return str(parse_address(host) or host)


def as_java(host: str) -> str:
    """Return a host as Java's InetAddress prints it: IPv6 addresses are not abbreviated."""
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
    """Return whether a host is always this machine: 127.0.0.0/8, ::1 or localhost.

    Security checks rely on this function. RFC 6761 reserves the name localhost; names such as
    localhost.localdomain may belong to another machine.
    """
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    return parse_address(host) is not None


def in_container() -> bool:
    """Return whether this process runs in a container of Docker or Podman."""
    return any(map(os.path.exists, _CONTAINER_MARKS))
