"""Our broker answers the matrix of `tests/conformance/access` like Kafka."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

from protocol.registry import SPECS
from tests.conformance.access.brokers import our_broker
from tests.conformance.access.case import Cell
from tests.conformance.access.explained import EXPLAINED
from tests.conformance.access.matrix import CASES, Key, cells_of, play
from tests.conformance.access.record import differences, digest, read, recorded_digests

WITHOUT_CELLS: dict[str, str] = {}
"""APIs outside of the matrix, with the reasons."""

LEAST = 2_000


def test_every_api_has_cells() -> None:
    """Each supported API has a case in the matrix, or a reason for having none."""
    asked = {case.api for case in CASES}
    assert {spec.name for spec in SPECS} - asked == WITHOUT_CELLS.keys()


def test_every_cell_is_recorded() -> None:
    """Each cell has a recorded answer of Kafka for its current ACLs."""
    assert read().keys() == {cell.key for cell in cells_of(CASES)}
    assert recorded_digests() == {case.name: digest(case) for case in CASES}
    assert len(read()) > LEAST


@pytest.mark.real_time
def test_the_answers_are_those_of_kafka(tmp_path: Path) -> None:
    """At the oldest and newest version of each case, only explained answers differ."""
    compare(tmp_path, [cell for cell in cells_of(CASES) if is_outer(cell)])


@pytest.mark.nightly
@pytest.mark.real_time
def test_the_answers_at_all_versions_are_those_of_kafka(tmp_path: Path) -> None:
    """At every version only explained answers differ from Kafka's."""
    compare(tmp_path, cells_of(CASES))


def is_outer(cell: Cell) -> bool:
    """Return whether the cell's version is the lowest or highest of its case."""
    versions = cell.case.served_versions
    return cell.version in (versions[0], versions[-1])


def compare(directory: Path, cells: Sequence[Cell]) -> None:
    """Play cells, and check that only and all explained cells differ from Kafka's answers."""
    with our_broker(directory) as address:
        answers = play(address, cells)
    differing = differences(read(), answers)
    explained = {key for key in answers if is_explained(key)}
    odd = [
        f"{key}\n  Kafka {json.dumps(expected, sort_keys=True)}"
        f"\n  ours  {json.dumps(actual, sort_keys=True)}"
        for key, (expected, actual) in differing.items()
        if key not in explained
    ]
    assert not odd, f"{len(odd)} differ:\n" + "\n".join(odd[:20])
    same = sorted(explained - differing.keys())
    assert not same, f"these do not differ any more: {same}"


def is_explained(key: Key) -> bool:
    """Return whether a cell may differ."""
    return any(fnmatch(" ".join(map(str, key)), pattern) for pattern in EXPLAINED)
