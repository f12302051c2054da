"""Servers on loopback that are no broker, or one with a fault: what `doctor` has to recognise."""

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
    """A server that does this with each connection, and closes it then."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    ends = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                talk(connection)
            except OSError:
                return  # the client has what it wanted

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
    """Close at once, without an answer: a published port with nobody behind."""
    connection.recv(1)


def stay_silent(connection: socket.socket) -> None:
    """Read whatever comes, until the client has had enough."""
    while connection.recv(4096):
        pass


def speak_http(connection: socket.socket) -> None:
    """A web server: it waits for a whole line, and has nothing for Kafka's clients."""
    received = b""
    while b"\r\n" not in received:
        part = connection.recv(4096)
        if not part:
            return
        received += part
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def greet(connection: socket.socket) -> None:
    """Another protocol, one whose servers speak first."""
    connection.sendall(b"220 mail.example ESMTP\r\n")
    connection.recv(4096)


def encrypted(context: ssl.SSLContext, talk: Talk = stay_silent) -> Talk:
    """A server with TLS."""

    def shake_hands(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            talk(secured)

    return shake_hands
