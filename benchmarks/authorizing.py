"""CPU cost of the authorizer per heartbeat: `python -m benchmarks.authorizing`.

A broker with an authorizer and ACLs of 1 000 groups, and a broker without an authorizer, answer the
same heartbeats in turn. The figure is CPU time of the broker per heartbeat, the minimum of all
rounds.
"""

from __future__ import annotations

import os
import socket
from struct import Struct

from coordinator_server.client import Address, ClientConnection, ClientSettings
from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from coordinator_server.testing import Broker
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.codec import encoder
from protocol.headers import RequestHeader

CONNECTIONS = 10
HEARTBEATS = 3000
ROUNDS = 7
GROUPS = 1000
SECURED = {"authorizer.class.name": AUTHORIZER_CLASS, "allow.everyone.if.no.acl.found": True}
_LENGTH = Struct(">i")
_TICKS = os.sysconf("SC_CLK_TCK")


def _frame(group_id: str) -> bytes:
    header = RequestHeader(api_key=12, api_version=4, correlation_id=1, client_id="bench")
    request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    body = encoder(RequestHeader, 2)(header) + encoder(HeartbeatRequest, 4)(request)
    return _LENGTH.pack(len(body)) + body


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _add_acls(address: Address) -> None:
    connection = ClientConnection(address, ClientSettings())
    acls = [
        AclCreation(
            resource_type=3,
            resource_name=f"group-{number}",
            principal="User:ANONYMOUS",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(GROUPS)
    ]
    connection.ask(CreateAclsRequest(creations=acls))
    connection.close()


def _round(address: Address, pid: int) -> float:
    """Return CPU per heartbeat in microseconds."""
    sockets = [socket.create_connection((address.host, address.port)) for _ in range(CONNECTIONS)]
    frames = [_frame(f"group-{number}") for number in range(CONNECTIONS)]
    before = _cpu_seconds(pid)
    for _ in range(HEARTBEATS):
        for one, frame in zip(sockets, frames, strict=True):
            one.sendall(frame)
        for one in sockets:
            one.recv(1024)
    spent = _cpu_seconds(pid) - before
    for one in sockets:
        one.close()
    return spent / (HEARTBEATS * CONNECTIONS) * 1e6


def main() -> None:
    """Print the CPU per heartbeat with and without an authorizer, and the ratio."""
    with Broker() as plain, Broker(SECURED) as secured:
        brokers = {}
        for name, broker in (("without", plain), ("with", secured)):
            host, port = broker.bootstrap_servers.split(":")
            brokers[name] = (Address(host, int(port)), broker.pid)
        _add_acls(brokers["with"][0])
        figures: dict[str, list[float]] = {name: [] for name in brokers}
        for _ in range(ROUNDS):
            for name, (address, pid) in brokers.items():
                figures[name].append(_round(address, pid))
    least = {name: min(found) for name, found in figures.items()}
    for name, found in least.items():
        print(f"{name} an authorizer: {found:.1f} us per heartbeat")
    print(f"with / without: {least['with'] / least['without']:.3f}")


if __name__ == "__main__":
    main()
