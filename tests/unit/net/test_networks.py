"""The kernel's routing tables, in the format of Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_server.net.networks import RoutingTable
from tests.unit.net.tables import IPV4_TABLE, IPV6_TABLE


@pytest.mark.parametrize(
    ("host", "is_gateway", "is_on_link"),
    [
        ("172.18.0.1", True, True),
        ("172.18.255.254", False, True),
        ("172.19.0.1", False, False),
        ("10.1.2.127", False, True),
        ("10.1.2.128", False, False),
        ("10.1.2.3", False, True),  # the address is a gateway, but not the default gateway
        ("10.9.0.1", False, False),
        ("10.66.0.1", False, False),
        ("127.0.0.1", False, True),
        ("fd00:dead::1", True, True),
        ("fd00:dead::99", False, True),
        ("fd00:beef::2", False, False),
        ("fe80::1", True, True),
        ("fe80::1%eth0", True, True),  # a socket shows a link-local address with its zone
        ("fe80::99%eth0", False, True),
        # Only fe80::/64 is on the link, not all of fe80::/10.
        ("fe80:0:0:1::99%eth0", False, False),
        # The address is also link-local, but has no route.
        ("169.254.0.7", False, False),
        ("::1", False, True),
        ("::ffff:172.18.0.1", True, True),  # an IPv6 socket shows an IPv4 address in this form
        ("::ffff:172.19.0.1", False, False),
        # This IPv6 address only ends like the IPv4 gateway 172.18.0.1.
        ("::172.18.0.1", False, False),
        ("no address", False, False),
    ],
)
def test_gateways_and_networks(host: str, is_gateway: bool, is_on_link: bool) -> None:
    """Only default gateways are gateways; a host is on the link if its network needs no gateway."""
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
