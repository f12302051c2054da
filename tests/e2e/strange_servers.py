"""Servers on loopback that `doctor` must recognise: not a broker, or a faulty one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coordinator_server.client import Address

Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk) -> Iterator[Address]:
    """Run a server that calls `talk` with each connection and then closes it."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    ends = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                talk(connection)
            except OSError:
                return  # the client closed the connection

    def accept() -> None:
        while not ends.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(connection,))
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield Address(*listening.getsockname())
    finally:
        ends.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for thread in (acceptor, *threads):
            thread.join(20)
            assert not thread.is_alive()


def close(connection: socket.socket) -> None:
    """Close the connection without a response, like a published port with no process behind it."""
    connection.recv(1)


def stay_silent(connection: socket.socket) -> None:
    """Read until the client closes the connection."""
    while connection.recv(4096):
        pass


def speak_http(connection: socket.socket) -> None:
    """Act as a web server: wait for a whole line, then refuse the request."""
    received = b""
    while b"\r\n" not in received:
        part = connection.recv(4096)
        if not part:
            return
        received += part
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def greet(connection: socket.socket) -> None:
    """Act as a server of a protocol in which the server speaks first."""
    connection.sendall(b"220 mail.example ESMTP\r\n")
    connection.recv(4096)


def encrypted(context: ssl.SSLContext, talk: Talk = stay_silent) -> Talk:
    """Return a TLS server that calls `talk` after the handshake."""

    def shake_hands(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            talk(secured)

    return shake_hands
