"""All cells, and how they are played."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from coordinator_server.security.acl import Acl
from tests.conformance.access import (
    cluster_cases,
    group_cases,
    share_cases,
    token_cases,
    topic_cases,
    transaction_cases,
)
from tests.conformance.access.case import Case, Cell
from tests.conformance.access.connection import Connection
from tests.conformance.access.grants import acls_of, grants_of
from tests.conformance.access.normal import Normal
from tests.conformance.access.world import World

CASES: Sequence[Case] = (
    *topic_cases.CASES,
    *group_cases.CASES,
    *share_cases.CASES,
    *transaction_cases.CASES,
    *cluster_cases.CASES,
    *token_cases.CASES,
)

Key = tuple[str, int, str]


def cells_of(cases: Iterable[Case]) -> list[Cell]:
    """Return all cells of these cases."""
    return [
        Cell(case, version, grant)
        for case in cases
        for grant in grants_of(case)
        for version in case.served_versions
    ]


def all_users() -> list[str]:
    """Return all users that send requests."""
    return sorted({cell.user for cell in cells_of(CASES)} | {"admin", "nobody"})


class Matrix:
    """Cells prepared on a broker."""

    def __init__(self, world: World, cells: Sequence[Cell]) -> None:
        self._world = world
        self.cells = cells

    def prepare(self) -> None:
        """Create the resources of the cells, and all ACLs."""
        self._world.make_shared()
        for case, cells in groupby(self.cells, lambda cell: cell.case):
            ours = list(cells)
            for prepare in case.prepare:
                prepare(self._world, ours)
        acls: dict[Acl, None] = {}
        for cell in self.cells:
            acls |= dict.fromkeys(acls_of(cell))
        self._world.create_acls(list(acls))

    def answers(self, order: Sequence[Cell]) -> dict[Key, Any]:
        """Play the cells one after the other and return the answers."""
        normal = Normal(self._world)
        answers = {}
        for cell, answer in self._answers(order):
            answers[cell.key] = normal.answer(cell, answer)
        return answers

    def _answers(self, order: Sequence[Cell]) -> Iterator[tuple[Cell, Any]]:
        connections: dict[tuple[str, str], Connection] = {}
        for cell in order:
            who = (cell.user, cell.host)
            connection = connections.get(who)
            if connection is None or not connection.is_open:
                connection = connections[who] = Connection(self._world.address, *who)
            fields = cell.case.request(cell, self._world)
            yield cell, connection.ask(cell.case.api, cell.version, fields)
        for connection in connections.values():
            connection.close()


def play(
    address: tuple[str, int], cells: Sequence[Cell], seed: int | None = None
) -> dict[Key, Any]:
    """Return a broker's answers to the cells, played in order or shuffled by `seed`."""
    world = World(address)
    matrix = Matrix(world, cells)
    matrix.prepare()
    order = list(cells)
    if seed is not None:
        random.Random(seed).shuffle(order)
    answers = matrix.answers(order)
    world.close()
    return answers
