"""Partitions in a snapshot of a group: names and order."""

from __future__ import annotations

from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.modern.snapshot import by_name
from coordinator_server.core.groups.settings import GroupEnvironment, GroupSettings


def test_partitions_by_name() -> None:
    """`by_name` sorts topics and partitions, and omits topics without partitions.

    A topic without a name is listed by its id in hexadecimal.
    """
    environment = GroupEnvironment(GroupSettings(), str, str, in_place_of)
    assigned, revoking = {"b": [2], "c": [], "a": [1, 0]}, {"b": [1]}
    named = by_name(environment, assigned, revoking)
    assert list(named.items()) == [("a", [0, 1]), ("b", [1, 2])]
    gone = bytes(16)
    assert by_name(environment, {gone: [0]}) == {gone.hex(): [0]}
