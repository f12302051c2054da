"""Requests the API versions of this container's broker; exit code 0 if the broker is healthy.

    python -m coordinator_server.container.healthcheck [HOST:PORT]

The check runs every few seconds, so it imports as little as possible: no asyncio, no message
classes, and of the broker only the tables of settings, which have the listeners. The check can be
run by path with `python -I -S`, which skips the search for installed packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if __name__ == "__main__":  # this file is run by path: the packages are in the parent directory
    _package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _packages = os.path.join(_package, "_packages")
    sys.path[:0] = [*([_packages] if os.path.isdir(_packages) else []), os.path.dirname(_package)]

import _socket  # importing `socket` takes as long as all other imports here

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
    """Do one ApiVersions round trip (version 0) and return the number of APIs.

    Raises OSError if there is no response, ValueError if the response is not that of a healthy
    broker.
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
    """Check the broker at HOST:PORT, or at a listener from this container's settings."""
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
    """Return host and port of the first listener, and whether it uses TLS.

    Listeners without TLS are preferred.
    """
    listeners = [
        (config.security_protocol(listener.name).uses_tls, listener)
        for listener in config.listeners()
    ]
    uses_tls, (_, host, port) = min(listeners, key=lambda entry: entry[0])
    return host, port, uses_tls


def _with_tls(connection: _socket.socket) -> Connection:
    """Return the connection after a TLS handshake that does not verify the certificate.

    A listener that requires client certificates closes this connection, so the check fails. Such a
    container needs its own check or a listener without TLS.
    """
    import socket
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    whole = socket.socket(fileno=connection.detach())
    whole.settimeout(_TIMEOUT_SECONDS)
    return context.wrap_socket(whole)


def _connect(host: str, port: int, timeout_seconds: float) -> _socket.socket:
    """Return a connection to the first address of the host that accepts one."""
    failure = OSError(f"{host} has no address")
    addresses = _socket.getaddrinfo(host, port, _socket.AF_UNSPEC, _socket.SOCK_STREAM)
    for family, kind, protocol, _, address in addresses:
        try:
            connection = _socket.socket(family, kind, protocol)
            connection.settimeout(timeout_seconds)
            connection.connect(address)
        except OSError as error:  # localhost may resolve to ::1 where IPv6 is disabled
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
