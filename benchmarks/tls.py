"""CPU cost of TLS compared with Kafka, and the effect of a flood of handshakes on other clients.

    python -m benchmarks.tls [--alone] [ROUNDS]

The figures are CPU time of the broker per heartbeat, plain and over TLS 1.3, and per full handshake
with an ECDSA or RSA key, with and without a client certificate. Rounds alternate; the table shows
medians. Then one member sends heartbeats over a plain connection while 200 clients repeatedly start
handshakes at once, and its latencies are shown. `--alone` measures without Kafka, which needs Java,
and Maven for its jars.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks import load
from protocol.apis.find_coordinator import FindCoordinatorRequest
from tests.certificates import Authority
from tests.oracle.kafka_process import Kafka
from tests.support import Serve, cpu_seconds, free_port

LISTENERS = {"PLAIN": "PLAINTEXT", "ECDSA": "SSL", "RSA": "SSL"}
CONNECTIONS = 10
WINDOW_SECONDS, WARM_UP_SECONDS = 1.0, 6.0
HANDSHAKES = 100
FLOOD, FLOOD_SECONDS = 200, 5.0


class Side:
    """A broker under measurement and its listeners."""

    def __init__(self, name: str, addresses: Mapping[str, tuple[str, int]], pid: int) -> None:
        self.name, self.addresses, self.pid = name, addresses, pid
        self.address = addresses["PLAIN"]
        with load.client_of(self) as client:
            # Kafka creates __consumer_offsets on the first FindCoordinator.
            client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))
            end = time.monotonic() + 60
            while True:
                try:
                    self.member = load.only_member(client, "group")
                    break
                except AssertionError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the broker has used."""
        return cpu_seconds(self.pid)


@contextmanager
def brokers(directory: Path, *, alone: bool) -> Iterator[list[Side]]:
    """Start the brokers, with the same certificates."""
    authority = Authority()
    authority.write(directory / "ca.pem")
    authority.issue("client").write(directory / "client.pem")
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "requested",
        "group.initial.rebalance.delay.ms": "0",
    }
    for kind in ("ecdsa", "rsa"):
        path = authority.issue("broker", is_rsa=kind == "rsa").write(directory / f"{kind}.pem")
        settings[f"listener.name.{kind}.ssl.keystore.location"] = str(path)
    addresses = {name: ("127.0.0.1", free_port()) for name in LISTENERS}
    places = [f"{name}://{host}:{port}" for name, (host, port) in addresses.items()]
    ours_settings = settings | {
        "listeners": ",".join(places),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
    }
    arguments = [f"--set={name}={value}" for name, value in ours_settings.items()]
    arguments += ["--log-level", "error", "--data-dir", str(directory / "ours")]
    kafka = Kafka(directory, settings, ("-XX:+UseG1GC",), LISTENERS)
    with Serve(*arguments, listener=None) as ours:
        try:
            sides = [Side("ours", addresses, ours.pid)]
            if not alone:
                kafka.start()
                sides.append(Side("Kafka", kafka.addresses, kafka.pid))
            yield sides
        finally:
            kafka.end()


def context(directory: Path, *, certificate: bool = False) -> ssl.SSLContext:
    """Return a client's TLS context."""
    made = ssl.create_default_context(cafile=directory / "ca.pem")
    if certificate:
        made.load_cert_chain(directory / "client.pem")
    return made


async def heartbeats(side: Side, listener: str, client: ssl.SSLContext | None, s: float) -> float:
    """Return the CPU per heartbeat in microseconds."""
    frame = load.heartbeat(side.member)
    expected = load.asked(side, frame)
    loops = [load.ClosedLoop([frame], expected) for _ in range(CONNECTIONS)]
    for one in loops:
        await asyncio.get_running_loop().create_connection(
            one.itself,
            *side.addresses[listener],
            ssl=client,
            server_hostname="localhost" if client else None,
        )
    count, cpu = await load.window(side, loops, s)
    for one in loops:
        one.close()
    await asyncio.sleep(0.1)
    return cpu / count * 1e6


def handshakes(side: Side, listener: str, client: ssl.SSLContext, count: int) -> float:
    """Return the CPU per connection with its handshake in microseconds."""
    before = side.cpu_seconds()
    for _ in range(count):
        with (
            socket.create_connection(side.addresses[listener]) as raw,
            client.wrap_socket(raw, server_hostname="localhost"),
        ):
            pass
    time.sleep(0.3)
    return (side.cpu_seconds() - before) / count * 1e6


def cells(directory: Path) -> Iterator[tuple[str, str, ssl.SSLContext | None]]:
    """Yield the measured cases: title, listener, client context."""
    yield "heartbeat, plain", "PLAIN", None
    yield "heartbeat, TLS 1.3", "ECDSA", context(directory)
    for listener in ("ECDSA", "RSA"):
        yield f"handshake, {listener}", listener, context(directory)
        yield f"handshake, {listener}, client too", listener, context(directory, certificate=True)


def measured(side: Side, title: str, listener: str, client: ssl.SSLContext | None) -> float:
    """Measure one case; return the broker's CPU per heartbeat or connection in microseconds."""
    if title.startswith("heartbeat"):
        return uvloop.run(heartbeats(side, listener, client, WINDOW_SECONDS))
    assert client is not None
    return handshakes(side, listener, client, HANDSHAKES)


def warm_up(side: Side, directory: Path) -> None:
    """Let a JVM compile the measured code."""
    for _, listener, client in [*cells(directory)][:2]:
        uvloop.run(heartbeats(side, listener, client, WARM_UP_SECONDS))
    for listener in ("ECDSA", "RSA"):
        handshakes(side, listener, context(directory, certificate=True), 5 * HANDSHAKES)


# --- neighbours -----------------------------------------------------------------------------------


def flood(directory: Path, host: str, port: int, seconds: float) -> None:
    """Start FLOOD handshakes at once, wait for them, and repeat."""
    end = time.monotonic() + seconds
    client, count = context(directory), 0
    while time.monotonic() < end:
        sockets, hellos = [], []
        for _ in range(FLOOD):
            outgoing = ssl.MemoryBIO()
            session = client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                hellos.append(outgoing.read())
            sockets.append(socket.create_connection((host, port)))
        for one, hello in zip(sockets, hellos, strict=True):
            one.sendall(hello)
        for one in sockets:
            count += bool(one.recv(5))
            one.close()
    print(count)


def latencies_ms(side: Side, seconds: float) -> list[float]:
    """Return the latencies of heartbeats that are sent every two milliseconds."""
    frame, taken = load.heartbeat(side.member), []
    with load.client_of(side) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            client.ask_frame(frame)
            taken.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.002)
    return sorted(taken)


def neighbours(side: Side, directory: Path, listener: str) -> str:
    """Flood a listener with handshakes; return the table row with the latencies of heartbeats."""
    host, port = side.addresses[listener]
    command = [sys.executable, "-m", "benchmarks.tls", "--flood", str(directory), host, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flooding:
        time.sleep(1.0)
        taken = latencies_ms(side, FLOOD_SECONDS)
        count = int(flooding.communicate()[0])
    p99, most = taken[int(len(taken) * 0.99)], taken[-1]
    return (
        f"| {listener} | {side.name} | {count / (FLOOD_SECONDS + 2):.0f} "
        f"| {statistics.median(taken):.2f} | {p99:.2f} | {most:.2f} |"
    )


def main() -> None:
    """Print the tables."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--flood"]:
        flood(Path(arguments[1]), arguments[2], int(arguments[3]), FLOOD_SECONDS + 2)
        return
    alone = "--alone" in arguments
    rounds = int(arguments[-1]) if arguments and arguments[-1].isdigit() else 3
    with tempfile.TemporaryDirectory() as name, brokers(Path(name), alone=alone) as sides:
        directory = Path(name)
        if not alone:
            warm_up(sides[1], directory)
        print("| CPU us | " + " | ".join(side.name for side in sides) + " |")
        print("|---|" + "---|" * len(sides))
        for cell in cells(directory):
            taken: dict[str, list[float]] = {side.name: [] for side in sides}
            for _ in range(rounds):
                for side in sides:
                    taken[side.name].append(measured(side, *cell))
            medians = " | ".join(f"{statistics.median(one):.3g}" for one in taken.values())
            print(f"| {cell[0]} | {medians} |", flush=True)
        print("\n| flood | broker | handshakes/s | median ms | p99 ms | most ms |")
        print("|---|---|---|---|---|---|")
        for listener in ("ECDSA", "RSA"):
            for side in sides:
                print(neighbours(side, directory, listener), flush=True)


if __name__ == "__main__":
    main()
