"""Subscriptions by pattern: matching, resolution, and removal."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest

from coordinator_server.core.caller import MayDescribe
from coordinator_server.core.groups.consumer import subscriptions
from coordinator_server.core.groups.consumer.regex import resolve
from coordinator_server.core.groups.settings import TopicsView
from coordinator_server.steps import run_all
from protocol.consumer_group_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember
from tests.unit.core.groups.context import commit_answer

MINUTES_MS = 60_000


def reader(context: ConsumerContext, regex: str, *topics: str, name: str = "a") -> ConsumerMember:
    """Return a member that has joined with a pattern, and possibly names."""
    member = context.member(name, *topics, regex=regex)
    assert member.join().error is ErrorCode.NONE
    return member


def matched(context: ConsumerContext) -> dict[str, list[str]]:
    """Return the patterns of the group, and the topics that they match."""
    return {one: sorted(found.topics) for one, found in context.group.resolved.items()}


def test_an_expression_is_resolved_after_the_heartbeat() -> None:
    """A pattern is resolved after the join; the member gets its topics in the next heartbeat."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    assert (a.epoch, a.owned) == (1, {})
    assert context.written() == ["member a", "current a 1", "regex t.*", "epoch 2"]
    assert matched(context) == {"t.*": ["three", "two"]}
    context.reconcile(a)
    assert a.owned == {"three": [0, 1, 2], "two": [0, 1]}
    assert context.epochs == (2, 2)
    context.check()


def test_an_expression_matches_whole_names() -> None:
    """A pattern must match the whole topic name, as in Kafka."""
    context = ConsumerContext({"one": 1, "one-more": 1, "stone": 1})
    reader(context, "one|t.*")
    assert matched(context) == {"one|t.*": ["one"]}


def test_names_and_an_expression_together() -> None:
    """A member may have names and a pattern; a topic that both match is assigned once."""
    context = ConsumerContext()
    a = reader(context, "t.*", "one", "two")
    context.reconcile(a)
    assert a.owned.keys() == {"one", "two", "three"}
    assert context.epochs == (3, 3)
    context.check()


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing closing )"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("\\k", "invalid escape sequence"),
    ],
)
def test_an_expression_that_re2_does_not_accept(regex: str, reason: str) -> None:
    """An invalid pattern gets INVALID_REGULAR_EXPRESSION with Kafka's text; the join fails."""
    context = ConsumerContext()
    answer = context.member("a", regex=regex).join()
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.response.error_message == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
    )
    assert context.broker.any_group is None


def test_an_expression_of_the_log_that_re2_does_not_accept_matches_nothing() -> None:
    """An invalid pattern in the log matches nothing, and the group continues.

    Another broker may have accepted it.
    """
    context = ConsumerContext()
    (found,) = run_all(resolve(["("], context.broker.topics, 5)).values()
    assert found == (frozenset(), context.broker.topics.revision, 5)


def test_what_is_resolved_is_not_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolved pattern is resolved again only after topics have changed."""
    asked: list[set[str]] = []

    def watched(
        expressions: Set[str], topics: TopicsView, now_ms: int, may_describe: MayDescribe | None
    ) -> Any:
        asked.append(set(expressions))
        return resolve(expressions, topics, now_ms, may_describe)

    monkeypatch.setattr(subscriptions, "resolve", watched)
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.broker.advance(20_000)
    assert a.beat() is ErrorCode.NONE
    reader(context, "o.*", name="b")
    assert matched(context) == {"t.*": ["three", "two"], "o.*": ["one"]}
    context.broker.advance(20_000)
    context.change_topics(other=1)
    assert a.beat() is ErrorCode.NONE
    assert matched(context) == {"t.*": ["three", "two"], "o.*": ["one", "other"]}
    assert asked == [{"t.*"}, {"o.*"}, {"t.*", "o.*"}]
    context.check()


def test_very_many_topics() -> None:
    """Very many topics are matched in steps."""
    context = ConsumerContext({f"t{number}": 1 for number in range(1200)})
    steps = resolve(["t.*", "t1.*"], context.broker.topics, 5)
    assert sum(1 for _ in steps) == 4


def test_an_expression_matches_what_may_be_described() -> None:
    """A pattern matches only topics that the heartbeat's principal may describe.

    `tests/unit/security/checks` covers the authorizer.
    """
    context = ConsumerContext()
    topics = context.broker.topics
    (found,) = run_all(resolve(["t.*"], topics, 5, lambda name: name == "two")).values()
    assert found.topics == {"two"}


def test_an_expression_that_matches_nothing() -> None:
    """A pattern without matches is resolved, and the epoch stays."""
    context = ConsumerContext()
    a = reader(context, "x.*")
    assert matched(context) == {"x.*": []}
    assert a.own() is ErrorCode.NONE
    assert (context.state, context.epochs) == ("Stable", (1, 1))
    context.check()


def test_a_second_member_with_a_resolved_expression() -> None:
    """A second member with a resolved pattern raises the epoch without another resolution."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    context.written()
    b = reader(context, "t.*", name="b")
    assert context.written()[:2] == ["member b", "epoch 3"]
    context.reconcile(a, b)
    assert {a.count, b.count} == {2, 3}
    context.check()


def test_a_second_member_before_the_expression_is_resolved() -> None:
    """A second member that joins before the resolution also starts without topics."""
    context = ConsumerContext()
    appends = iter((ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS))
    context.broker.append_error = lambda: next(appends, ErrorCode.NONE)
    a, b = reader(context, "t.*"), reader(context, "t.*", name="b")
    assert (a.epoch, b.epoch) == (1, 1)
    context.reconcile(a, b)
    assert a.count + b.count == 5
    context.check()


def test_the_last_member_takes_its_expression_with_it() -> None:
    """A pattern is dropped when its last member leaves or changes its subscription."""
    context = ConsumerContext()
    a, b = reader(context, "t.*"), reader(context, "t.*", name="b")
    assert a.leave() is ErrorCode.NONE
    assert matched(context) == {"t.*": ["three", "two"]}
    context.written()
    assert b.beat(subscribed_topic_regex="") is ErrorCode.NONE
    assert context.written()[:3] == ["member b", "-regex t.*", "epoch 5"]
    assert matched(context) == {}
    assert context.group.metadata_hash == 0
    assert b.beat(subscribed_topic_regex="o.*") is ErrorCode.NONE
    context.reconcile(b)
    context.written()
    assert b.leave() is ErrorCode.NONE
    assert context.written()[:4] == ["-current b", "-target b", "-member b", "-regex o.*"]
    context.check()


def test_an_expression_for_another() -> None:
    """A replaced pattern is dropped at once; the next heartbeat resolves the new pattern."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    assert a.beat(subscribed_topic_regex="o.*") is ErrorCode.NONE
    assert (a.owned, matched(context)) == ({}, {})
    assert a.own() is ErrorCode.NONE
    assert matched(context) == {"o.*": ["one"]}
    context.reconcile(a)
    assert a.owned == {"one": [0]}
    context.check()


def test_a_new_expression_waits_for_10_seconds_if_others_are_there() -> None:
    """If the group has other patterns, a new pattern waits for up to 10 s.

    All patterns of a group are resolved together, at most every 10 s.
    """
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    b = reader(context, "o.*", name="b")
    assert b.epoch == 2
    context.broker.advance(10_000)
    assert b.own() is ErrorCode.NONE
    assert "o.*" not in context.group.resolved
    context.broker.advance(1)
    assert a.own() is ErrorCode.NONE
    assert matched(context) == {"o.*": ["one"], "t.*": ["three", "two"]}
    context.reconcile(a, b)
    assert b.owned == {"one": [0]}
    context.check()


def test_new_topics_are_found_after_10_seconds() -> None:
    """New topics are found after 10 s by any heartbeat; a match raises the group epoch."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    context.change_topics(ten=1, nine=1)
    context.broker.advance(10_000)
    assert a.own() is ErrorCode.NONE
    context.broker.advance(1)
    context.written()
    assert a.own() is ErrorCode.NONE
    assert context.written() == ["regex t.*", "epoch 3"]
    context.reconcile(a)
    assert a.owned["ten"] == [0]
    context.broker.advance(20_000)
    context.written()
    assert a.own() is ErrorCode.NONE
    assert context.written() == []
    context.check()


def test_a_new_topic_that_does_not_match_raises_no_epoch() -> None:
    """A new topic without a match raises no epoch; the unchanged matches are recorded again."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    context.change_topics(nine=1)
    context.broker.advance(10_001)
    context.written()
    assert a.own() is ErrorCode.NONE
    assert context.written() == ["regex t.*"]
    context.check()


def test_deleted_topics_alone_are_no_reason_to_resolve() -> None:
    """Deleted topics cause no resolution, because the metadata hash shows the change."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    context.change_topics(two=0)
    context.broker.advance(10_001)
    context.reconcile(a)
    assert context.group.epoch == 3
    assert matched(context) == {"t.*": ["three", "two"]}
    assert a.owned.keys() == {"three"}
    context.check()


def test_an_expression_is_resolved_anew_from_time_to_time() -> None:
    """Patterns are refreshed every group.consumer.regex.refresh.interval.ms, as in Kafka.

    Authorization may have changed.
    """
    context = ConsumerContext(consumer_session_timeout_ms=60 * MINUTES_MS)
    a = reader(context, "t.*")
    context.reconcile(a)
    context.broker.advance(10 * MINUTES_MS)
    context.written()
    assert a.own() is ErrorCode.NONE
    assert context.written() == []
    context.broker.advance(1)
    assert a.own() is ErrorCode.NONE
    assert context.written() == ["regex t.*"]
    context.check()


def test_an_expression_that_matches_a_name_of_the_member_raises_the_epoch() -> None:
    """A pattern that matches only a subscribed name raises the epoch, despite the same hash."""
    context = ConsumerContext()
    reader(context, "o.*", "one")
    assert context.epochs == (3, 2)
    context.check()


def test_nobody_may_be_left_when_expressions_are_resolved() -> None:
    """A member that leaves in the turn of its resolution leaves no pattern behind."""
    context = ConsumerContext()
    a, b = context.member("a", regex="t.*"), context.member("b", "one")
    context.joined(b)
    with context.broker.one_drain():
        commit_answer(context.broker, ("one", 0, 1))
        a.join()
        a.send(member_epoch=-1)
    assert (list(context.group.members), matched(context)) == (["b"], {})
    context.check()


def test_an_expression_that_is_dropped_after_a_while() -> None:
    """A dropped pattern needs no resolution, and its replacement is resolved at once.

    The same holds after the refresh interval.
    """
    context = ConsumerContext()
    a, b = reader(context, "t.*"), reader(context, "t.*", name="b")
    context.reconcile(a, b)
    context.broker.advance(10_001)
    assert a.own(subscribed_topic_regex="o.*") is ErrorCode.NONE
    assert matched(context) == {"o.*": ["one"], "t.*": ["three", "two"]}
    context.broker.advance(10_001)
    assert b.own(subscribed_topic_regex="") is ErrorCode.NONE
    assert matched(context) == {"o.*": ["one"]}
    assert a.own(subscribed_topic_regex="") is ErrorCode.NONE
    assert matched(context) == {}
    context.reconcile(a, b)
    context.check()


def test_expressions_are_resolved_again_when_that_could_not_be_written() -> None:
    """If resolved patterns could not be written, the next heartbeat resolves them again."""
    context = ConsumerContext()
    a = context.member("a", regex="t.*")
    appends = iter((ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS))
    context.broker.append_error = lambda: next(appends, ErrorCode.NONE)
    assert a.join().error is ErrorCode.NONE
    assert (matched(context), context.group.resolved_revision) == ({}, -1)
    assert a.own() is ErrorCode.NONE
    assert matched(context) == {"t.*": ["three", "two"]}
    context.check()


def test_a_loaded_group_resolves_its_expressions_once_more() -> None:
    """A loaded group resolves its patterns again, for any topic revision of the previous broker."""
    context = ConsumerContext()
    a = reader(context, "t.*")
    context.reconcile(a)
    key = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="t.*")
    found = ConsumerGroupRegularExpressionValue(
        topics=["three", "two"], version=99, timestamp=context.broker.now_ms
    )
    context.replay((key, found))
    context.broker.advance(10_001)
    context.written()
    assert a.own() is ErrorCode.NONE
    assert context.written() == ["regex t.*"]
    assert context.group.resolved["t.*"].version == context.broker.topics.revision


def test_a_member_of_the_log_may_have_no_expression_at_all() -> None:
    """A null pattern in a member record means no pattern; an empty pattern is a change."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.rewrite("a", subscribed_topic_regex=None)
    before = context.group.members["a"]
    assert a.beat(subscribed_topic_regex="") is ErrorCode.NONE
    after = context.group.members["a"]
    assert (before.regex, after.regex) == (None, "")
    assert context.epochs == (2, 2)
