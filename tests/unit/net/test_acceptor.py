"""The acceptor takes connections in bulk, and waits when file descriptors are used up."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from coordinator_server.config.config import Config
from coordinator_server.net import acceptor
from coordinator_server.net.acceptor import ACCEPTS_PER_TURN, Acceptor
from coordinator_server.net.connection import Connection
from coordinator_server.net.connection_slots import ConnectionSlots, Slot
from coordinator_server.security.quotas.connection_rates import Admission
from tests.unit.net.fakes import FakeNetwork
from tests.unit.reports import Reports

BACKLOG = 1000


class Listening(socket.socket):
    """A listening socket that counts its calls, and fails with `error_number` if set."""

    accepted = 0
    failed = 0
    error_number: int | None = None

    def accept(self) -> tuple[socket.socket, object]:
        """Return an accepted connection, or raise the set error."""
        if self.error_number is not None:
            self.failed += 1
            raise OSError(self.error_number, "made up")
        accepted = super().accept()
        self.accepted += 1
        return accepted


@pytest.fixture
def listening() -> Iterator[Listening]:
    """Return a bound socket."""
    with Listening() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def connect(listening: Listening, count: int) -> list[socket.socket]:
    """Return clients whose connections wait in the backlog."""
    return [socket.create_connection(listening.getsockname()) for _ in range(count)]


def plain_protocol(_: object) -> asyncio.Protocol:
    """Return a protocol that does nothing."""
    return asyncio.Protocol()


def close(clients: list[socket.socket]) -> None:
    """Close the clients of `connect`."""
    for client in clients:
        client.close()


async def test_a_turn_of_the_loop_accepts_many(listening: Listening) -> None:
    """A turn of the loop accepts ACCEPTS_PER_TURN connections at most.

    Open connections are served between two turns.
    """
    made: list[asyncio.Protocol] = []

    def new_protocol(_: object) -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    accepting = Acceptor(listening, new_protocol)
    accepting.start(BACKLOG)
    clients = connect(listening, ACCEPTS_PER_TURN + 20)
    steps: list[int] = []
    while listening.accepted < len(clients):
        before = listening.accepted
        await asyncio.sleep(0)
        if listening.accepted != before:
            steps.append(listening.accepted - before)
    while len(made) < len(clients):
        await asyncio.sleep(0)
    accepting.close()
    close(clients)
    assert steps == [ACCEPTS_PER_TURN, 20]


@pytest.mark.parametrize("error_number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_without_file_descriptors_it_waits(
    listening: Listening, error_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without file descriptors the acceptor waits instead of spinning, and continues later."""
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.01)
    accepting = Acceptor(listening, plain_protocol)
    accepting.start(BACKLOG)
    listening.error_number = error_number
    clients = connect(listening, 2)
    async with asyncio.timeout(10):
        while accepting._retry is None:
            await asyncio.sleep(0)
    assert not asyncio.get_running_loop().remove_reader(listening.fileno()), "it still looks"
    listening.error_number = None
    async with asyncio.timeout(10):
        while listening.accepted < 2:
            await asyncio.sleep(0)
    accepting.close()
    close(clients)


async def test_a_closed_acceptor_does_not_come_back(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a waiting acceptor ends its wait."""
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.01)
    accepting = Acceptor(listening, plain_protocol)
    accepting.start(BACKLOG)
    listening.error_number = errno.EMFILE
    clients = connect(listening, 1)
    while accepting._retry is None:
        await asyncio.sleep(0)
    accepting.close()
    close(clients)
    assert accepting._retry.cancelled()


async def test_closing_leaves_no_connection_half_set_up(listening: Listening) -> None:
    """A connection accepted in the turn of the close is closed, and no task is left over."""
    accepting = Acceptor(listening, plain_protocol)
    accepting.start(BACKLOG)
    (client,) = connect(listening, 1)
    before = asyncio.all_tasks()
    accepting._accept()
    (task,) = asyncio.all_tasks() - before
    accepting.close()
    async with asyncio.timeout(10):
        await asyncio.wait([task])
        client.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    close([client])


@pytest.fixture
def without_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the event loop unable to watch sockets, as on Windows."""

    def add_reader(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)


@pytest.mark.usefixtures("without_readers")
async def test_a_loop_that_watches_no_sockets_accepts_too(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without watched sockets the acceptor also accepts, and continues after errors.

    The errors are a disconnected client and a lack of descriptors.
    """
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.01)
    made: list[asyncio.Protocol] = []

    def new_protocol(_: object) -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    accepting = Acceptor(listening, new_protocol)
    accepting.start(BACKLOG)
    for error_number in (errno.ECONNABORTED, errno.EMFILE):
        failed_before, made_before = listening.failed, len(made)
        listening.error_number = error_number
        clients = connect(listening, 3)
        async with asyncio.timeout(10):
            while listening.failed == failed_before:
                await asyncio.sleep(0)
            listening.error_number = None
            while len(made) < made_before + 3:
                await asyncio.sleep(0)
        close(clients)
    accepting.close()
    assert accepting._accepting is not None
    await asyncio.wait([accepting._accepting])
    assert accepting._accepting.cancelled()


class Gate:
    """Admits connections when the test allows."""

    is_enabled = True

    def __init__(self, *admissions: Admission) -> None:
        self.admissions = list(admissions)
        self.asked: list[tuple[str, str]] = []

    def admit(self, listener: str, host: str) -> Admission:
        """Return the next decision."""
        self.asked.append((listener, host))
        return self.admissions.pop(0) if self.admissions else Admission(0, 0)


async def test_connections_wait_for_their_listener(listening: Listening) -> None:
    """A connection that waits for its listener delays all later connections in the backlog."""
    made: list[asyncio.Protocol] = []
    gate = Gate(Admission(0, 0), Admission(20, 0))

    def new_protocol(_: object) -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    accepting = Acceptor(listening, new_protocol, "PLAINTEXT", cast(Any, gate))
    accepting.start(BACKLOG)
    clients = connect(listening, 3)
    while not made:
        await asyncio.sleep(0)
    assert (listening.accepted, len(made)) == (2, 1)
    while len(made) < 3:
        await asyncio.sleep(0)
    assert gate.asked == [("PLAINTEXT", "127.0.0.1")] * 3
    accepting.close()
    close(clients)


async def test_a_connection_too_many_of_its_address_is_closed_later(listening: Listening) -> None:
    """A connection beyond its address's limit is closed later; other connections are accepted.

    Waiting connections are closed at the end.
    """
    made: list[asyncio.Protocol] = []
    gate = Gate(Admission(0, 20), Admission(0, 0), Admission(0, 60_000))

    def new_protocol(_: object) -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    accepting = Acceptor(listening, new_protocol, "PLAINTEXT", cast(Any, gate))
    accepting.start(BACKLOG)
    clients = connect(listening, 3)
    while not made:
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    clients[0].setblocking(False)
    assert await asyncio.wait_for(loop.sock_recv(clients[0], 1), 5) == b""
    assert len(made) == 1
    accepting.close()
    clients[2].settimeout(5)
    assert clients[2].recv(1) == b""
    close(clients)


async def turns(count: int = 50) -> None:
    """Run some turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def slots_of(limit: int) -> ConnectionSlots:
    """Return slots for this number of connections."""
    return ConnectionSlots(Config(overrides={"max.connections": str(limit)}))


class Served:
    """Connections that return their slots, as those of a broker do."""

    def __init__(self, slots: ConnectionSlots) -> None:
        self.slots = slots
        self.transports: list[asyncio.Transport] = []

    def new_protocol(self, slot: Slot | None) -> asyncio.Protocol:
        """Return the protocol of a new connection, which returns its slot when it is lost."""
        served = self

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                served.transports.append(cast(asyncio.Transport, transport))

            def connection_lost(self, exc: Exception | None) -> None:
                assert slot is not None
                slot.give_back()

        return Protocol()

    async def until(self, count: int) -> None:
        """Wait until this number of connections was served; check that no others are served."""
        async with asyncio.timeout(10):
            while len(self.transports) < count:
                await asyncio.sleep(0)
        await turns()
        assert len(self.transports) == count


async def _come_and_go(listening: Listening, reports: Reports) -> None:
    served = Served(slots_of(2))
    accepting = Acceptor(listening, served.new_protocol, "PLAINTEXT", None, served.slots)
    accepting.start(BACKLOG)
    clients = connect(listening, 5)
    await served.until(2)
    assert listening.accepted == 3, "one is accepted and waits, as in Kafka"
    served.transports[0].close()
    await served.until(3)
    served.transports[1].close()
    served.transports[2].close()
    await served.until(5)
    assert [event["reason"] for event in reports.events] == [
        "max.connections of the listener is 2"
    ] * 2
    clients += connect(listening, 1)
    async with asyncio.timeout(10):
        while listening.accepted < 6:
            await asyncio.sleep(0)
    await turns()  # the event loop's next turn processes the connection
    accepting.close()
    clients[5].settimeout(5)
    assert clients[5].recv(1) == b""
    for transport in served.transports:
        transport.close()
    await turns()
    assert len(served.transports) == 5, "nothing waits any more"
    close(clients)


async def test_a_full_listener_accepts_when_a_connection_ends(
    listening: Listening, reports: Reports
) -> None:
    """With a full listener connections wait in order, and each is logged when it is accepted."""
    await _come_and_go(listening, reports)


@pytest.mark.usefixtures("without_readers")
async def test_a_full_listener_of_a_loop_that_watches_no_sockets(
    listening: Listening, monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    """A full listener also makes connections wait on a loop that cannot watch sockets."""
    await _come_and_go(listening, reports)


async def test_who_waited_for_the_rate_waits_for_a_slot_too(listening: Listening) -> None:
    """A connection delayed by the rate limit also waits for a slot, and comes first."""
    served = Served(slots_of(1))
    gate = Gate(Admission(0, 0), Admission(20, 0))
    accepting = Acceptor(listening, served.new_protocol, "PLAINTEXT", cast(Any, gate), served.slots)
    accepting.start(BACKLOG)
    clients = connect(listening, 3)
    await served.until(1)
    async with asyncio.timeout(10):
        while listening.accepted < 2 or accepting._kept_waiting:
            await asyncio.sleep(0)
    await turns()
    assert (listening.accepted, len(served.transports)) == (2, 1)
    served.transports[0].close()
    await served.until(2)
    assert listening.accepted == 3
    accepting.close()
    close(clients)


class Listened:
    """A listener of a broker with max.connections=2, and its connections."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.connections = FakeNetwork({"max.connections": "2"}).connections
        self.slots = self.connections.slots
        self.acceptor = Acceptor(listening, self._connection, "PLAINTEXT", None, self.slots)
        self.acceptor.start(BACKLOG)

    def _connection(self, slot: Slot | None) -> Connection:
        return Connection(self.connections, "PLAINTEXT", slot=slot)

    def free(self) -> int:
        """Return how many connections the listener would accept now."""
        taken = []
        while self.slots.refusal("PLAINTEXT") is None:
            taken.append(self.slots.take("PLAINTEXT"))
        for slot in taken:
            slot.give_back()
        return len(taken)


async def test_a_connection_is_counted_once(listening: Listening, reports: Reports) -> None:
    """A connection is counted once from accept to end, so the last slot is always usable."""
    listened = Listened(listening)
    clients = connect(listening, 1)
    free = []
    for _ in range(50):
        free.append(listened.free())
        await asyncio.sleep(0)
    assert len(listened.connections) == 1
    assert sorted(set(free)) == [1, 2]
    clients += connect(listening, 1)
    await turns()
    assert (len(listened.connections), listened.free()) == (2, 0)
    assert reports.events == []
    listened.acceptor.close()
    close(clients)
    async with asyncio.timeout(10):
        while len(listened.connections):
            await asyncio.sleep(0)
    assert listened.free() == 2


@pytest.mark.parametrize("begun_turns", range(5))
async def test_a_connection_that_is_not_set_up_gives_its_slot_back(
    listening: Listening, begun_turns: int
) -> None:
    """A connection whose setup is interrupted returns its slot exactly once."""
    listened = Listened(listening)
    clients = connect(listening, 1)
    listened.acceptor._accept()
    assert listened.free() == 1
    await turns(begun_turns)
    listened.acceptor.close()
    close(clients)
    await turns()
    assert (len(listened.connections), listened.free()) == (0, 2)


async def test_a_connection_that_fails_gives_its_slot_back(
    listening: Listening, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose setup fails is closed, logged, and returns its slot."""

    async def fail(*_: object) -> None:
        raise OSError(errno.EINVAL, "made up")

    listened = Listened(listening)
    monkeypatch.setattr(listened.acceptor._loop, "connect_accepted_socket", fail)
    (client,) = connect(listening, 1)
    listened.acceptor._accept()
    assert listened.free() == 1
    await turns()
    assert listened.free() == 2
    assert [event["event"] for event in reports.events] == ["connection.failed"]
    client.settimeout(5)
    assert client.recv(1) == b""
    listened.acceptor.close()
    close([client])
