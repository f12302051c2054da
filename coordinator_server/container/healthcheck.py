"""Asks the broker of this container for its API versions: exit code 0 if it answers as it should.

    python -m coordinator_server.container.healthcheck [HOST:PORT]

It runs every few seconds, so it imports as little as can be: no asyncio, no message classes, of the
broker only the tables of settings, which say where it listens. It can be run by path with
`python -I -S`, which leaves out the search for installed packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if __name__ == "__main__":  # run by its path: our packages are above
    _package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _packages = os.path.join(_package, "_packages")
    sys.path[:0] = [*([_packages] if os.path.isdir(_packages) else []), os.path.dirname(_package)]

import _socket  # the module socket takes as long to import as all the rest here

from coordinator_server.config.config import Config, ConfigError, format_address, parse_address
from coordinator_server.container.entrypoint import prepare

if TYPE_CHECKING:
    import ssl

_TIMEOUT_SECONDS = 2.0
_CORRELATION_ID = 0x48454C54
_API_VERSIONS_KEY = 18
_CLIENT_ID = b"healthcheck"

Connection: TypeAlias = "_socket.socket | ssl.SSLSocket"


def ask(
    host: str, port: int, timeout_seconds: float = _TIMEOUT_SECONDS, *, uses_tls: bool = False
) -> int:
    """One ApiVersions round trip (version 0); the number of APIs that the broker serves.

    Raises OSError if there is no answer, ValueError if it is not that of a healthy broker.
    """
    connection: Connection = _connect(host, port, timeout_seconds)
    if uses_tls:
        connection = _with_tls(connection)
    try:
        body = (
            _int(_API_VERSIONS_KEY, 2)
            + _int(0, 2)
            + _int(_CORRELATION_ID, 4)
            + _int(len(_CLIENT_ID), 2)
            + _CLIENT_ID
        )
        connection.send(_int(len(body), 4) + body)
        length = int.from_bytes(_exactly(connection, 4), "big")
        if not 10 <= length <= 65536:
            raise ValueError(f"an answer of {length} bytes")
        answer = _exactly(connection, length)
    finally:
        connection.close()
    correlation_id, error, count = (
        int.from_bytes(answer[start:end], "big") for start, end in ((0, 4), (4, 6), (6, 10))
    )
    if correlation_id != _CORRELATION_ID or error or not count or length != 10 + 6 * count:
        raise ValueError(f"not an answer to ApiVersions: {answer[:16].hex()}...")
    return count


def main(arguments: Sequence[str]) -> int:
    """Ask the broker at HOST:PORT, or at a listener of this container's settings."""
    uses_tls = False
    try:
        if arguments:
            host, port = parse_address(arguments[0])
        else:
            host, port, uses_tls = _address(prepare(os.environ, reads_secrets=False).config)
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        count = ask(host, port, uses_tls=uses_tls)
    except (OSError, ValueError, ConfigError) as error:
        print(f"healthcheck: {error}", file=sys.stderr)
        return 1
    print(f"{format_address(host, port)} serves {count} APIs")
    return 0


def _address(config: Config) -> tuple[str, int, bool]:
    """Host and port of the first listener, one without TLS if there is any; whether it has TLS."""
    listeners = [
        (config.security_protocol(listener.name).uses_tls, listener)
        for listener in config.listeners()
    ]
    uses_tls, (_, host, port) = min(listeners, key=lambda one: one[0])
    return host, port, uses_tls


def _with_tls(connection: _socket.socket) -> Connection:
    """The connection with TLS. Whose certificate it is does not matter to who asks itself.

    A listener that wants a certificate of its clients closes this one, and is not well for it:
    such a container needs a check of its own, or a listener without TLS.
    """
    import socket
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    whole = socket.socket(fileno=connection.detach())
    whole.settimeout(_TIMEOUT_SECONDS)
    return context.wrap_socket(whole)


def _connect(host: str, port: int, timeout_seconds: float) -> _socket.socket:
    """A connection to the first address of the host that accepts one."""
    failure = OSError(f"{host} has no address")
    addresses = _socket.getaddrinfo(host, port, _socket.AF_UNSPEC, _socket.SOCK_STREAM)
    for family, kind, protocol, _, address in addresses:
        try:
            connection = _socket.socket(family, kind, protocol)
            connection.settimeout(timeout_seconds)
            connection.connect(address)
        except OSError as error:  # localhost may have an IPv6 address where IPv6 is off
            failure = error
            continue
        return connection
    raise failure


def _int(number: int, size_bytes: int) -> bytes:
    return number.to_bytes(size_bytes, "big")


def _exactly(connection: Connection, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        part = connection.recv(size_bytes - len(received))
        if not part:
            raise OSError(f"the connection was closed after {len(received)} bytes")
        received += part
    return received


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
