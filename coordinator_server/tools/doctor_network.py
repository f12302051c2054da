"""The first steps of `doctor`: name resolution, connections, and the protocol of a port."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from coordinator_server.client import Address
from coordinator_server.config.hosts import is_loopback
from coordinator_server.tools.doctor_step import Step, StepFailedError, shown

_CORRELATION_ID = 0x646F6374
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
_HTTP = b"GET / HTTP/1.1\r\nHost: doctor\r\nConnection: close\r\n\r\n"
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16


class Peer(Enum):
    """The protocol that a server on a port speaks."""

    KAFKA = "Kafka in plain text"
    TLS = "TLS"
    HTTP = "HTTP"
    SILENT = "nothing"
    CLOSES = "it closes the connection"
    OTHER = "another protocol"


class ResolvedAddress(NamedTuple):
    """One address of a host name."""

    family: int
    address: tuple[Any, ...]

    def __str__(self) -> str:
        return str(self.address[0])


def resolve(step: Step, address: Address) -> list[ResolvedAddress]:
    """Return all addresses of a name, in the system's order. Raises StepFailedError."""
    addresses: list[ResolvedAddress] = []
    errors: list[OSError] = []

    def look_up() -> None:  # called in a thread, because getaddrinfo has no timeout
        try:
            for family, _, _, _, target in socket.getaddrinfo(
                address.lookup_name(), address.port, type=socket.SOCK_STREAM
            ):
                if ResolvedAddress(family, target) not in addresses:
                    addresses.append(ResolvedAddress(family, target))
        except (OSError, UnicodeError) as error:
            errors.append(error if isinstance(error, OSError) else OSError(str(error)))

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(step.left_s())
    if thread.is_alive():
        raise StepFailedError(
            f"the name servers do not answer for {address.host}",
            ["the name servers of this machine (/etc/resolv.conf)"],
        )
    if errors:
        raise StepFailedError(
            f"{address.host} does not resolve here: {errors[0].strerror or errors[0]}",
            [_change_of_name(address.host)],
        )
    listed = ", ".join(map(str, addresses))
    step.found = listed if listed == address.host else f"{address.host}: {listed}"
    return addresses


def _change_of_name(host: str) -> str:
    if "." not in host.strip("."):
        return (
            f"bootstrap.servers: {host} looks like the name of a container, a pod or a machine of"
            " another network; take the name or address by which this machine reaches the broker"
        )
    return "bootstrap.servers: a name that this machine knows, or its entry in DNS or /etc/hosts"


def connect(step: Step, targets: Sequence[ResolvedAddress], address: Address) -> socket.socket:
    """Try all addresses and return a connection to the first that accepts.

    Raises StepFailedError if none accepts.
    """
    connected: socket.socket | None = None
    failure: OSError | None = None
    for place, target in enumerate(targets):
        begin_s = time.monotonic()
        try:
            connection = _connect_to(target, step.left_s() / (len(targets) - place))
        except OSError as error:
            failure = error
            step.details.append(f"{target}: {_reason(error)}")
            continue
        took_ms = (time.monotonic() - begin_s) * 1000
        if connected is None:
            connected = connection
            step.found = f"{target} port {address.port}"
        else:
            connection.close()
            step.details.append(f"{target}: connected as well, {took_ms:.1f} ms")
    if connected is None:
        assert failure is not None
        raise StepFailedError(
            f"no connection to {shown(address)}: {_reason(failure)}", [_change_of_port(failure)]
        )
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _connect_to(target: ResolvedAddress, timeout_s: float) -> socket.socket:
    connection = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(target.address)
    except OSError:
        connection.close()
        raise
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()


def _change_of_port(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return (
            "nobody listens there: start the broker, take the port of its listener, or let it"
            " listen on more than its own loopback (listeners=PLAINTEXT://0.0.0.0:9092; in a"
            " container the port has to be published as well)"
        )
    return "a firewall or a route drops the packets: the address in bootstrap.servers, or the way"


def identify(address: Address, deadline_s: float) -> Peer:
    """Return the protocol of a port, probed like a Kafka client, a TLS client and a browser."""
    import ssl

    answers = []
    for request, part in ((_API_VERSIONS, 4), (_HTTP, 2)):
        answer = _ask(address, request, max(deadline_s - time.monotonic(), 0.1) / part)
        if answer is not None and (peer := _peer(answer)) is not None:
            return peer
        answers.append(answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, max(deadline_s - time.monotonic(), 0.1)) as plain:
            context.wrap_socket(plain).close()
        return Peer.TLS
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return Peer.TLS
    except OSError:
        pass
    if any(answers):
        return Peer.OTHER
    return Peer.SILENT if None in answers else Peer.CLOSES


def _peer(answer: bytes) -> Peer | None:
    """Return the protocol that a response to a probe indicates."""
    if answer.startswith(b"HTTP/"):
        return Peer.HTTP
    if len(answer) >= 2 and answer[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and answer[1] == 3:
        return Peer.TLS
    if len(answer) >= 8 and answer[4:8] == struct.pack(">i", _CORRELATION_ID):
        return Peer.KAFKA
    return None


def _ask(address: Address, request: bytes, timeout_s: float) -> bytes | None:
    """Return the start of the response: empty if the connection closes, None without a response."""
    deadline_s = time.monotonic() + timeout_s
    answer = b""
    try:
        with socket.create_connection(address, timeout_s) as connection:
            connection.sendall(request)
            while len(answer) < 8:
                connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
                part = connection.recv(16)
                if not part:
                    break
                answer += part
    except TimeoutError:
        return answer or None
    except OSError:
        return answer
    return answer


def speaks_http(connection: socket.socket, timeout_s: float) -> bool:
    """Return whether a web server answers on a connection, and close the connection."""
    with connection:
        try:
            connection.settimeout(timeout_s)
            connection.sendall(_HTTP)
            return connection.recv(16).startswith(b"HTTP/")
        except OSError:
            return False


def not_a_broker(peer: Peer, protocol: str) -> StepFailedError:
    """Return the error that explains why a peer is not what `security.protocol` expects."""
    if peer is Peer.TLS:
        secured = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
        return StepFailedError(
            f"this port speaks TLS, and security.protocol is {protocol}",
            [
                f"client: security.protocol={secured} with ssl.truststore.location (librdkafka:"
                " ssl.ca.location), or the port of a listener without TLS"
            ],
        )
    if peer is Peer.KAFKA:
        plain = "SASL_PLAINTEXT" if protocol.startswith("SASL") else "PLAINTEXT"
        return StepFailedError(
            f"this port speaks Kafka in plain text, and security.protocol is {protocol}",
            [
                f"client: security.protocol={plain}, or the port of a listener with TLS",
                "broker: listener.security.protocol.map, if this listener is meant to have TLS",
            ],
        )
    if peer is Peer.HTTP:
        return StepFailedError(
            "an HTTP server answers on this port, no broker",
            [
                "client: bootstrap.servers, the port of a listener of the broker, not that of a"
                " REST proxy, a schema registry, Connect or a control server"
            ],
        )
    if peer is Peer.SILENT:
        return StepFailedError(
            "the connection is taken, and nothing answers",
            [
                "client: bootstrap.servers; is this a port of Kafka, or a tunnel or proxy that has"
                " lost its other end? A broker that answers nobody is stopped or hangs"
            ],
        )
    if peer is Peer.CLOSES:
        return StepFailedError(
            "the connection is taken and closed at once",
            [
                "broker: listeners; a published port whose container does not listen there, or only"
                " on its loopback, does this (listeners=PLAINTEXT://0.0.0.0:9092)",
                "client: bootstrap.servers, if it is no port of Kafka",
            ],
        )
    return StepFailedError(
        "what answers on this port is neither Kafka nor TLS nor HTTP",
        ["client: bootstrap.servers, the port of a listener of the broker"],
    )


def is_clients_own(host: str) -> bool:
    """Return whether clients usually resolve this host to their own machine."""
    return is_loopback(host) or host.lower() == "localhost.localdomain"


def change_of_advertised(bootstrap: Address, advertised: Address) -> list[str]:
    """Return the advice for a broker whose advertised address cannot be reached."""
    if is_clients_own(advertised.host) and not is_clients_own(bootstrap.host):
        why = (
            f"the broker tells its clients that it is at {advertised.host}, which is each client's"
            " own machine"
        )
    elif bootstrap.host == advertised.host or is_clients_own(advertised.host):
        why = (
            f"the broker tells its clients port {advertised.port}, which is not the one that is"
            f" published; {bootstrap.port} is reached"
        )
    else:
        why = (
            f"{advertised.host} is a name or address of the broker's own network (a container, a"
            " pod, a private subnet)"
        )
    return [
        f"broker: advertised.listeners; {why}. Give it a listener for clients from here, with"
        f" advertised.listeners=...,OUTSIDE://{shown(bootstrap)}, and keep the one for its own"
        " network beside it"
    ]
