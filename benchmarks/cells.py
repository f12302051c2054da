"""The measured cases: each cell is one kind of request at one size, in a closed loop.

`make bench`, the profiler and the table of stages all use these cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from benchmarks import load
from benchmarks.load import ClosedLoop, Member, Server
from tests.faults.client import Client

_GROUP_NUMBERS = count()
"""Numbers for group names, so that no two cells of a run share a group."""

_COMMITTED_OFFSETS = 8
"""The number of different offsets that are committed in turn."""


class Cell(NamedTuple):
    """Requests of one kind over several connections.

    `frames(client, members)` prepares the broker and returns the frames of each connection; each
    member has its own group. An operation is one request.
    """

    name: str
    connections: int
    frames: Callable[[Client, Sequence[Member]], list[list[bytes]]]
    in_flight: int = 1
    varies: bool = False
    """Whether responses differ from each other (Produce: the base offset)."""

    def prepare(self, broker: Server) -> list[list[bytes]]:
        """Prepare the broker and return the frames of each connection."""
        with load.client_of(broker) as client:
            members = [
                load.only_member(client, f"group-{next(_GROUP_NUMBERS)}")
                for _ in range(self.connections)
            ]
            return self.frames(client, members)

    def loops(self, frames: Sequence[list[bytes]], answer: bytes) -> list[ClosedLoop]:
        """Return the connections, which expect the response `answer`."""
        return [
            ClosedLoop(one, answer, in_flight=self.in_flight, varies=self.varies) for one in frames
        ]


def _heartbeats(_: Client, members: Sequence[Member]) -> list[list[bytes]]:
    return [[load.heartbeat(member)] for member in members]


def _commits(partitions: int) -> Callable[[Client, Sequence[Member]], list[list[bytes]]]:
    def frames(client: Client, members: Sequence[Member]) -> list[list[bytes]]:
        load.ensure_topic(client)
        return [
            [load.commit(member, partitions, 1000 + offset) for offset in range(_COMMITTED_OFFSETS)]
            for member in members
        ]

    return frames


def _offset_fetches(partitions: int) -> Callable[[Client, Sequence[Member]], list[list[bytes]]]:
    def frames(client: Client, members: Sequence[Member]) -> list[list[bytes]]:
        load.ensure_topic(client)
        for member in members:
            client.ask_frame(load.commit(member, load.PARTITIONS, 1000))
        return [[load.offset_fetch(member, partitions)] for member in members]

    return frames


def _produces(client: Client, members: Sequence[Member]) -> list[list[bytes]]:
    load.ensure_topic(client)
    return [[load.produce(number)] for number, _ in enumerate(members)]


def _fetches(client: Client, members: Sequence[Member]) -> list[list[bytes]]:
    load.ensure_topic(client)
    for number, _ in enumerate(members):
        batch = load.produce(number)
        for _ in range(2 * load.FETCH_BYTES // len(batch)):
            client.ask_frame(batch)
    return [[load.fetch(number)] for number, _ in enumerate(members)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


CELLS = (
    *(
        Cell(f"heartbeat, {_counted(number, 'connection')}", number, _heartbeats)
        for number in (1, 10, 100, 1000)
    ),
    *(
        Cell(f"commit of {_counted(number, 'partition')}", 10, _commits(number))
        for number in (1, 100)
    ),
    *(
        Cell(f"offset fetch of {_counted(number, 'partition')}", 10, _offset_fetches(number))
        for number in (1, 100)
    ),
    Cell("produce of 16 KB", 1, _produces, in_flight=5, varies=True),
    Cell("fetch of 1 MB", 1, _fetches, in_flight=5),
)
CELL_BY_NAME = {cell.name: cell for cell in CELLS}


class Rebalances:
    """One group whose members rebalance together repeatedly.

    The broker needs load.FORMING_SETTINGS, so that a new group waits for all of its members.
    """

    def __init__(self, broker: Server, size: int) -> None:
        self._clients = [load.connect(broker) for _ in range(size)]
        self._group = f"group-{next(_GROUP_NUMBERS)}"
        self._member_ids = [""] * size
        self._numbers = count()
        self.size = size
        self.cycle()

    def cycle(self) -> None:
        """Let every member join with changed metadata, and sync.

        The first join starts the rebalance, the last one ends it.
        """
        metadata = next(self._numbers).to_bytes(8, "big")
        for client, member_id in zip(self._clients, self._member_ids, strict=True):
            client.send(load.join_request(self._group, member_id, metadata), load.JOIN_VERSION)
        joined = [client.receive() for client in self._clients]
        self._member_ids = [one.member_id for one in joined]
        assert len({one.generation_id for one in joined}) == 1, "the group has not formed at once"
        for client, answer in zip(self._clients, joined, strict=True):
            assert not answer.error_code, answer
            member = Member(self._group, answer.member_id, answer.generation_id)
            assigned = [one.member_id for one in answer.members]
            client.send(load.sync_request(member, assigned), load.SYNC_VERSION)
        for client in self._clients:
            synced = client.receive()
            assert not synced.error_code, synced

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()
