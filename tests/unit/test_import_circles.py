"""Which modules import each other in a circle; the order of the packages is import-linter's."""

from __future__ import annotations

from collections import defaultdict

import grimp

MOST_IN_A_CIRCLE = 3


def circles() -> list[set[str]]:
    """The sets of modules each of which imports all others of its set, directly or not."""
    graph = grimp.build_graph("coordinator_server", "protocol", "storage", "pipeline")
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    reached = {one: _reachable(one, imported) for one in imported}
    by_members: dict[frozenset[str], set[str]] = defaultdict(set)
    for one, others in reached.items():
        members = frozenset(other for other in others if one in reached[other])
        if members:
            by_members[members].add(one)
    return [set(members) for members in by_members if len(members) > 1]


def _reachable(start: str, imported: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for other in imported[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached


def test_circles_are_small_and_stay_in_a_package() -> None:
    """At most three modules of one package import each other."""
    found = circles()
    assert all(len(members) <= MOST_IN_A_CIRCLE for members in found), found
    assert all(len({one.rpartition(".")[0] for one in members}) == 1 for members in found), found
