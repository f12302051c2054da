"""Subscriptions by regular expression: matches, time of resolution, and triggers.

The broker resolves a regular expression asynchronously, so the first answer is without its topics.
"""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    look,
    look_closely,
    members,
    settle,
    silently,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_regex", "d")

RESOLVED_SECONDS = 0.4
UNTIL_REFRESHED_SECONDS = 15.0


def resolved(t: Stage) -> None:
    """Wait, unrecorded, long enough for a regular expression to be resolved."""
    t.nap(RESOLVED_SECONDS)


def topics(t: Stage, *suffixes: str) -> None:
    """Create topics for this scenario, and wait until the coordinator knows them."""
    for suffix in suffixes:
        t.topic(1, suffix)
    t.coordinator_learns()


PATTERNS = {
    "whole names": [".*", "a.*", "a", ".*b", ".*-.*", "^aa$", "(?m)^aa$", "z+"],
    "alternation": ["aa|b", "a|b", "(a|b)+", "(?:aa|AA)", "(?i)aa", "(?i:a)a"],
    "sets": ["[ab]+", "[^A-Z]+", "[[:lower:]]+", r"\w+", r".*\d", r"\pL+", "[a-b]{2}"],
    "repetition": [".", "..", "a{2}", "a{1,2}", "aa?b?", "a+?", "a*b*"],
    "quoting": [r"a\.b", "a.b", r"\Qa.b\E", "a[.]b", r"a\-b", r"\x61\x61"],
}


@AREA.each(of=list(PATTERNS))
def matches(t: Stage, of: str) -> None:
    """Which of the topics aa, ab, b, AA, a.b, a-b, a1 do these expressions match: {of}?"""
    topics(t, "aa", "ab", "b", "AA", "a.b", "a-b", "a1")
    asked = {
        pattern: ConsumerMember(
            t, "A", regex=rf"\Q{t.g}-\E(?:{pattern})", group=t.group(str(number))
        )
        for number, pattern in enumerate(PATTERNS[of])
    }
    for member in asked.values():
        silently(t, member.join)
    resolved(t)
    for pattern, member in asked.items():
        settle(t, member)
        t.rec(pattern, sorted(t.sub(topic) for topic in member.owned))


@AREA.scenario
def step_by_step(t: Stage) -> None:
    """Member A joins with a regular expression that matches two topics."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    a.join()
    resolved(t)
    look(t, "before A beats")
    a.beat()
    look(t)
    look_closely(t)
    a.ack()
    look(t)


@AREA.scenario
def matches_nothing(t: Stage) -> None:
    """A member's regular expression matches nothing."""
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    a.join()
    resolved(t)
    look(t, "before A beats")
    a.beat()
    look(t)


@AREA.each(names=["none", "one that is matched too", "another", "an unknown one"])
def names_and_regex(t: Stage, names: str) -> None:
    """A member has a regular expression that matches one topic, and topic names: {names}."""
    topics(t, "one")
    named = {
        "none": [],
        "one that is matched too": [f"{t.g}-one"],
        "another": [t.t1],
        "an unknown one": ["no-such"],
    }[names]
    a = ConsumerMember(t, "A", named, regex=f"{t.g}-.*")
    a.join()
    resolved(t)
    a.beat()
    a.ack()
    look(t)
    look_closely(t)


@AREA.scenario
def same_regex_of_two_members(t: Stage) -> None:
    """Member B has the regular expression of member A, which is already resolved."""
    topics(t, "one", "two")
    a, b = members(t, "AB", regex=f"{t.g}-.*")
    a.join()
    resolved(t)
    a.beat()
    a.ack()
    b.join()
    look(t)
    a.beat()
    a.ack()
    b.beat()
    look(t)


@AREA.scenario
def same_regex_before_it_is_resolved(t: Stage) -> None:
    """Members A and B join with the same regular expression before it is resolved."""
    topics(t, "one", "two")
    a, b = members(t, "AB", regex=f"{t.g}-.*")
    silently(t, a.join)
    silently(t, b.join)
    resolved(t)
    settle(t, a, b)
    t.rec("partitions", [a.owned != {}, b.owned != {}, a.count + b.count])


@AREA.scenario
def other_regex_of_a_second_member(t: Stage) -> None:
    """Member B sends an expression soon after A's was resolved, and must wait several seconds."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", regex=f"{t.g}-one")
    b = ConsumerMember(t, "B", regex=f"{t.g}-t.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    b.join()
    resolved(t)
    b.beat()
    a.beat()
    look(t)


@AREA.scenario
def other_regex_of_a_second_member_in_the_end(t: Stage) -> None:
    """B's expression is resolved ten seconds after A's, by a heartbeat of either member."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", regex=f"{t.g}-one")
    b = ConsumerMember(t, "B", regex=f"{t.g}-t.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    silently(t, b.join)
    b.until(lambda: b.count > 0, UNTIL_REFRESHED_SECONDS, a)
    settle(t, a, b)
    look(t)


@AREA.scenario
def regex_is_replaced(t: Stage) -> None:
    """A lone member changes its expression soon after its first expression was resolved."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", regex=f"{t.g}-one")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    look(t)
    a.beat("brings another", subscribed_topic_regex=f"{t.g}-two")
    look(t)
    a.ack()
    resolved(t)
    a.ack()
    look(t)


@AREA.scenario
def regex_is_replaced_by_the_others(t: Stage) -> None:
    """Member A takes over B's resolved expression, and the epoch rises at once."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", [], regex="")
    b = ConsumerMember(t, "B", regex=f"{t.g}-.*")
    silently(t, a.join)
    silently(t, b.join)
    resolved(t)
    settle(t, a, b)
    look(t)
    a.beat("brings B's", subscribed_topic_regex=f"{t.g}-.*")
    look(t)
    settle(t, a, b)
    look(t)


@AREA.each(names=["kept", "none", "brought"])
def regex_is_given_up(t: Stage, names: str) -> None:
    """Member A replaces its expression by an empty one; topic names: {names}."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", [t.t1] if names == "kept" else None, regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    look(t)
    if names == "brought":
        a.beat("wants a name", subscribed_topic_regex="", subscribed_topic_names=[t.t1])
    else:
        a.beat("wants none", subscribed_topic_regex="")
    look(t)
    a.ack()
    a.ack()
    look(t)
    look_closely(t)


@AREA.scenario
def names_are_given_up_for_a_regex(t: Stage) -> None:
    """Member A replaces a topic name by a regular expression."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", [t.t1])
    silently(t, a.join)
    look(t)
    a.beat("wants to match", subscribed_topic_names=[], subscribed_topic_regex=f"{t.g}-.*")
    resolved(t)
    look(t, "before A beats")
    a.beat()
    look(t)
    a.ack()
    a.ack()
    look(t)


@AREA.scenario
def a_null_regex_keeps_it(t: Stage) -> None:
    """A later heartbeat without an expression, or with the same one, changes nothing."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    a.beat("without")
    a.beat("with null", subscribed_topic_regex=None)
    a.beat("with the same", subscribed_topic_regex=f"{t.g}-.*")
    a.beat("with an invalid one", subscribed_topic_regex="[", adopt=False)
    a.full()
    look(t)
    look_closely(t)


@AREA.scenario
def last_one_with_a_regex_leaves(t: Stage) -> None:
    """Member B, alone with its expression, leaves, and another member uses the expression again."""
    topics(t, "one")
    a = ConsumerMember(t, "A", [t.t1])
    b = ConsumerMember(t, "B", regex=f"{t.g}-.*")
    silently(t, a.join)
    silently(t, b.join)
    resolved(t)
    settle(t, a, b)
    b.leave()
    look(t)
    a.ack()
    look(t)
    c = ConsumerMember(t, "C", regex=f"{t.g}-.*")
    c.join()
    resolved(t)
    c.beat()
    a.beat()
    c.beat()
    look(t)


@AREA.scenario
def matched_topic_is_deleted(t: Stage) -> None:
    """One of two matched topics is deleted, and the next heartbeat removes its partitions."""
    topics(t, "one", "two")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    t.delete_topic(f"{t.g}-one")
    t.coordinator_learns()
    a.beat()
    look(t)
    a.ack()
    a.ack()
    look(t)


@AREA.scenario
def matched_topic_grows(t: Stage) -> None:
    """A matched topic gets more partitions."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    t.grow_topic(f"{t.g}-one", 3)
    a.beat()
    look(t)


@AREA.scenario
def created_after_it_was_resolved(t: Stage) -> None:
    """A topic created soon after the resolution is ignored for ten seconds."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    topics(t, "two")
    a.beat()
    resolved(t)
    a.beat()
    look(t)


@AREA.scenario
def created_and_matched_in_the_end(t: Stage) -> None:
    """A topic created later is matched ten seconds after the expression was resolved."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    look(t)
    topics(t, "two")
    a.until(lambda: a.count > 1, UNTIL_REFRESHED_SECONDS)
    look(t)


@AREA.scenario
def matched_later_than_nothing(t: Stage) -> None:
    """An expression that matched nothing is matched again only after ten seconds."""
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    topics(t, "one")
    a.beat()
    resolved(t)
    a.beat()
    look(t, "soon")
    a.until(lambda: a.count > 0, UNTIL_REFRESHED_SECONDS)
    look(t)


@AREA.scenario
def offsets_topic_is_matched(t: Stage) -> None:
    """How many partitions of __consumer_offsets does a matching expression assign?"""
    a = ConsumerMember(t, "A", regex="__consumer_offset.")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    t.rec("partitions", a.count)


@AREA.scenario
def static_member_with_a_regex(t: Stage) -> None:
    """A static member with an expression goes away and returns with another expression."""
    topics(t, "one", "two")
    (a,) = statics(t, "A", regex=f"{t.g}-one")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    a.leave_for_a_while()
    same = a.again("X")
    same.join("comes back")
    look(t)
    same.leave_for_a_while()
    other = a.again("Y", regex=f"{t.g}-two")
    other.join("comes back with another")
    look(t)
    look_closely(t)


@AREA.scenario
def member_joins_again_with_a_regex(t: Stage) -> None:
    """Member A joins again with epoch 0 and its expression, then with an empty expression."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    a.join("joins again")
    look(t)
    a.join("joins without it", subscribed_topic_regex="")
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def regex_of_a_v0_member(t: Stage) -> None:
    """A member that switches to version 0 keeps its expression, which v0 cannot send."""
    topics(t, "one")
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    resolved(t)
    settle(t, a)
    a.beat(version=0)
    first = {**a.joining, "topic_partitions": [], "member_epoch": 0, "subscribed_topic_names": []}
    first.pop("subscribed_topic_regex")
    a.beat("joins again", version=0, **first)
    look(t)
    look_closely(t)
