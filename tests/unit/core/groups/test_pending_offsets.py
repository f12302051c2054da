"""Pending offsets: what they replace at the commit, and what supersedes them."""

from __future__ import annotations

from itertools import permutations

import pytest

from coordinator_server.core.groups.offsets import CommittedOffset, CommittedOffsets
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue

P, Q = 1, 2
KEY = OffsetCommitKey(group="g", topic="t", partition=0)


def value(offset: int) -> OffsetCommitValue:
    """Return a committed offset."""
    return OffsetCommitValue(offset=offset)


def stored(offsets: CommittedOffsets) -> int | None:
    """Return the offset of partition 0, or None."""
    found = offsets.by_topic.get("t", {}).get(0)
    return None if found is None else found.offset


def play(events: str) -> CommittedOffsets:
    """Play records in the order of the log and return the offsets; event n commits offset n.

    `p` and `q` are in the transactions of P and Q; `P` and `Q` commit, `A` and `B` abort them; `.`
    is a plain commit, `-` a tombstone.
    """
    offsets = CommittedOffsets()
    for number, event in enumerate(events):
        if event in "pq":
            offset = CommittedOffset.of(value(number))
            offsets.replay_pending(KEY.topic, KEY.partition, offset, P if event == "p" else Q)
        elif event in "PQ":
            offsets.replay_end(P if event == "P" else Q, commits=True)
        elif event in "AB":
            offsets.replay_end(P if event == "A" else Q, commits=False)
        else:
            offsets.replay(KEY, value(number) if event == "." else None)
    return offsets


@pytest.mark.parametrize(
    ("events", "offset"),
    [
        ("p", None),
        ("pP", 0),
        ("pA", None),
        (".p", 0),
        (".pP", 1),
        (".pA", 0),
        ("ppP", 1),
        ("p.P", 1),  # a later plain commit takes precedence over a pending commit
        ("p.pP", 2),
        ("pqQP", 1),  # a later transactional commit takes precedence too
        ("pqPQ", 1),
        ("qpPQ", 1),
        ("pqPB", 0),
        ("pqAQ", 1),
        ("pqpPQ", 2),
        ("p-P", None),  # a tombstone also removes pending offsets
        ("p-pP", 2),
        ("pq-.PQ", 3),
        ("P", None),  # the marker ends a transaction without offsets in this group
    ],
)
def test_what_counts_in_the_end(events: str, offset: int | None) -> None:
    """The committed offset is that of the last committed record in the log."""
    offsets = play(events)
    assert stored(offsets) == offset


def test_the_last_committed_record_counts_in_every_order_of_events() -> None:
    """In every order of two transactions and a plain commit the last committed record wins."""
    for order in set(permutations("pPqQ.")) | set(permutations("pAqQ.")):
        events = "".join(order)
        if events.index("p") > max(events.find("P"), events.find("A")):
            continue
        if events.index("q") > events.index("Q"):
            continue
        committed = [events.index("q"), events.index(".")]
        if "P" in events:
            committed.append(events.index("p"))
        offsets = play(events)
        assert stored(offsets) == max(committed), events
        assert not offsets.pending, events


@pytest.mark.parametrize(
    ("events", "is_pending"), [("p", True), ("p.", True), ("pP", False), ("p-", False)]
)
def test_what_is_unstable(events: str, is_pending: bool) -> None:
    """A partition with a pending offset is unstable, even if that offset is superseded."""
    offsets = play(events)
    assert offsets.pending.has("t", 0) is is_pending
    assert bool(offsets.pending) is is_pending


def test_a_commit_to_another_partition_supersedes_nothing() -> None:
    """A commit supersedes only pending offsets of the same partition."""
    offsets = play("p")
    elsewhere = OffsetCommitKey(group="g", topic="t", partition=1)
    offsets.replay(elsewhere, value(9))
    offsets.replay_end(P, commits=True)
    assert stored(offsets) == 0


def test_equal_means_the_same_order() -> None:
    """States with pending offsets in another order are unequal, as they may end differently."""
    assert play("pq").pending != play("qp").pending
    assert play("p") == play("p")
    assert play("p") != CommittedOffsets()
    assert play("p").pending != 1
