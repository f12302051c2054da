"""Addresses and the kind of network that each belongs to."""

from __future__ import annotations

import socket
import struct


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
