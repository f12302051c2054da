"""Expiry of offsets and of Empty consumer groups, checked twice a second here.

Only versions 2 to 4 of OffsetCommit have a retention time, and members cannot send them. So offsets
that expire soon are committed while the group is Empty or does not exist yet.
"""

from __future__ import annotations

from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    silently,
    stable,
    statics,
)
from tests.conformance.consumer_offsets import commit_of
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_expiry", "h")

CLEANED_SECONDS = 1.2


def commit_for_a_while(t: Stage, retention_ms: int, *topics: str) -> None:
    """Commit offsets of each topic's first partition without a member, unrecorded."""
    offsets = [(topic, 0, 7) for topic in topics]
    silently(t, t.commit, offsets, 3, retention_time_ms=t.ms(retention_ms))


@AREA.scenario
def empty_group_without_offsets(t: Stage) -> None:
    """An Empty group without offsets is deleted, and its epochs start again."""
    a = ConsumerMember(t, "A").joined()
    a.leave()
    t.nap(CLEANED_SECONDS)
    listed(t)
    look(t)
    a.join("joins again")
    look(t)


@AREA.scenario
def empty_group_with_offsets(t: Stage) -> None:
    """An Empty group with unexpired offsets stays."""
    a = ConsumerMember(t, "A").joined()
    commit_of(t, a, "A commits")
    a.leave()
    t.nap(CLEANED_SECONDS)
    look(t)
    t.offs()


@AREA.scenario
def empty_group_whose_offsets_expire(t: Stage) -> None:
    """An Empty group is deleted when its last offset expires."""
    a = ConsumerMember(t, "A").joined()
    a.leave()
    commit_for_a_while(t, 1, t.t3)
    t.nap(CLEANED_SECONDS)
    listed(t)
    t.offs()


@AREA.scenario
def offsets_of_subscribed_topics_stay(t: Stage) -> None:
    """Of two expired offsets, only the offset of a subscribed topic stays."""
    commit_for_a_while(t, 1500, t.t3, t.t1)
    a = ConsumerMember(t, "A").joined()
    t.offs()
    t.sleep(1.6)
    a.beat()
    t.nap(CLEANED_SECONDS)
    a.beat()
    t.offs()
    a.leave()
    t.nap(CLEANED_SECONDS)
    listed(t)
    t.offs()


@AREA.scenario
def offsets_of_topics_given_up_expire(t: Stage) -> None:
    """An expired offset is deleted when the last member unsubscribes from its topic."""
    commit_for_a_while(t, 800, t.t3, t.t1)
    a = ConsumerMember(t, "A", [t.t3, t.t1]).joined()
    t.sleep(0.9)
    a.beat()
    t.nap(CLEANED_SECONDS)
    t.offs()
    a.subscribe(t.t1)
    t.nap(CLEANED_SECONDS)
    t.offs()
    look(t)


@AREA.scenario
def offsets_of_a_matched_topic_stay(t: Stage) -> None:
    """An expired offset stays if a regular expression matches its topic."""
    topic = t.topic(1, "one")
    t.coordinator_learns()
    commit_for_a_while(t, 1500, topic, t.t1)
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    t.sleep(1.6)
    a.beat()
    t.nap(CLEANED_SECONDS)
    a.beat()
    t.offs()


@AREA.scenario
def group_with_members_stays(t: Stage) -> None:
    """A group with members and without offsets stays: stable, waiting, or away."""
    a, b = statics(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.leave_for_a_while()
    t.nap(CLEANED_SECONDS)
    look(t)
    b.leave()
    t.nap(CLEANED_SECONDS)
    look(t)
    a.leave()
    t.nap(CLEANED_SECONDS)
    listed(t)


@AREA.each(protocol=["classic", "mixed"])
def group_that_was_converted(t: Stage, protocol: str) -> None:
    """An Empty group that was {protocol} before is deleted as well."""
    a = ConsumerMember(t, "A").joined()
    m = ClassicMember(t, "M", member_id="member-m")
    m.join_now()
    if protocol == "classic":
        a.leave()
        m.leave()
    else:
        m.leave()
        a.leave()
    t.nap(CLEANED_SECONDS)
    listed(t)
