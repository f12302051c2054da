"""Offsets of open transactions: what they replace when these commit, and what supersedes them."""

from __future__ import annotations

from itertools import permutations

import pytest

from coordinator_server.core.groups.offsets import CommittedOffset, CommittedOffsets
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue

P, Q = 1, 2
KEY = OffsetCommitKey(group="g", topic="t", partition=0)


def value(offset: int) -> OffsetCommitValue:
    """A committed offset."""
    return OffsetCommitValue(offset=offset)


def stored(offsets: CommittedOffsets) -> int | None:
    """The offset of partition 0, None for none."""
    found = offsets.by_topic.get("t", {}).get(0)
    return None if found is None else found.offset


def play(events: str) -> CommittedOffsets:
    """Play records in the order of the log; the n-th commits offset n.

    `p`, `q` in the transaction of P or Q, `P`, `Q` commit it, `A`, `B` abort that of P or Q, `.` is
    a plain commit, `-` a tombstone.
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
        ("p.P", 1),  # a plain commit that came later beats the transaction's
        ("p.pP", 2),
        ("pqQP", 1),  # so does that of a transaction
        ("pqPQ", 1),
        ("qpPQ", 1),
        ("pqPB", 0),
        ("pqAQ", 1),
        ("pqpPQ", 2),
        ("p-P", None),  # a tombstone takes pending ones with it
        ("p-pP", 2),
        ("pq-.PQ", 3),
        ("P", None),  # a marker of a transaction without offsets here
    ],
)
def test_what_counts_in_the_end(events: str, offset: int | None) -> None:
    """Of all that was committed the record that lies last in the log."""
    offsets = play(events)
    assert stored(offsets) == offset


def test_the_last_committed_record_counts_in_every_order_of_events() -> None:
    """Two transactions and a plain commit in each order: as a plain walk over the log finds it."""
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
    """A partition with a pending offset, though it may be superseded already."""
    offsets = play(events)
    assert offsets.pending.has("t", 0) is is_pending
    assert bool(offsets.pending) is is_pending


def test_a_commit_to_another_partition_supersedes_nothing() -> None:
    """Each partition by itself."""
    offsets = play("p")
    elsewhere = OffsetCommitKey(group="g", topic="t", partition=1)
    offsets.replay(elsewhere, value(9))
    offsets.replay_end(P, commits=True)
    assert stored(offsets) == 0


def test_equal_means_the_same_order() -> None:
    """Offsets of two transactions in another order are another state: they may end otherwise."""
    assert play("pq").pending != play("qp").pending
    assert play("p") == play("p")
    assert play("p") != CommittedOffsets()
    assert play("p").pending != 1
