"""The initialized partitions of a share group, and failures of the initialization."""

from __future__ import annotations

from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.share.context import ShareContext

RETRY_MS = 30_000


def test_only_what_is_new_is_initialized() -> None:
    """Only new partitions are initialized; other partitions keep their state and state epoch."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    a.beat(subscribed_topic_names=["one", "two"])
    assert t.states == ({}, {"one": [0], "two": [0, 1]}, [])
    assert t.kept == {("one", 0): (2, -1), ("two", 0): (4, -1), ("two", 1): (4, -1)}
    t.change_topics(two=3)
    a.beat()
    assert t.kept["two", 2] == (5, 0)
    t.check()


def test_while_the_share_coordinator_thinks() -> None:
    """While the share coordinator is busy, partitions are initializing and not assigned.

    No call is repeated.
    """
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "two")
    assert a.join().error is ErrorCode.NONE
    assert t.states == ({"two": [0, 1]}, {}, [])
    length = len(t.broker.log)
    a.beat()
    assert len(t.broker.log) == length
    t.let_go()
    assert t.states == ({}, {"two": [0, 1]}, [])
    a.beat()
    assert a.assigned == {"two": [0, 1]}
    t.check()


def test_what_is_not_answered_is_asked_again() -> None:
    """An unanswered initialization is repeated after the retry interval.

    A late response has no effect.
    """
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "one")
    a.join()
    t.broker.advance(RETRY_MS - 1)
    a.beat()
    assert len(t.share_state.waiting or ()) == 1
    t.broker.advance(1)
    a.beat()
    assert len(t.share_state.waiting or ()) == 2
    assert t.states == ({"one": [0]}, {}, [])
    t.let_go()
    assert t.states == ({}, {"one": [0]}, [])
    a.beat()
    assert a.assigned == {"one": [0]}
    t.check()


def test_a_broker_that_takes_over_asks_again() -> None:
    """A loaded group repeats the initialization after a new interval."""
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "one")
    a.join()
    t.broker.crash()
    t.share_state.waiting = None
    t.broker.advance(RETRY_MS - 1)
    a.beat()
    assert t.states == ({"one": [0]}, {}, [])
    t.broker.advance(1)
    a.beat()
    assert t.states == ({}, {"one": [0]}, [])
    t.check()


def test_a_topic_that_grows_while_the_share_coordinator_thinks() -> None:
    """A response counts only for the partitions of its call, also if the topic has grown."""
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "two")
    a.join()
    first, t.share_state.waiting = t.share_state.waiting or [], []
    t.change_topics(two=3)
    a.beat()
    assert t.states == ({"two": [0, 1, 2]}, {}, [])
    for answer in first:
        answer()
    t.broker.settle()
    assert t.states == ({"two": [2]}, {"two": [0, 1]}, [])
    t.let_go()
    assert t.states == ({}, {"two": [0, 1, 2]}, [])
    t.check()


def test_an_error_for_one_partition() -> None:
    """An error for one partition fails the whole call; the next heartbeat repeats it."""
    t = ShareContext()
    t.refusing("two", ErrorCode.FENCED_STATE_EPOCH)
    a = t.member("A", "one", "two")
    a.join()
    assert t.states == ({}, {}, [])
    refused = {"group": GROUP, "error": "FENCED_STATE_EPOCH"}
    assert ("share_state.refused", refused) in t.broker.events
    t.refusing("two", None)
    a.beat()
    assert t.states == ({}, {"one": [0], "two": [0, 1]}, [])
    a.beat()
    assert a.assigned == {"one": [0], "two": [0, 1]}
    t.check()


def test_an_error_after_more_was_asked() -> None:
    """An error affects neither the partitions of later calls nor initialized partitions."""
    t = ShareContext()
    t.refusing("one", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    t.share_state.hold()
    a = t.member("A", "one")
    a.join()
    first, t.share_state.waiting = t.share_state.waiting or [], []
    a.beat(subscribed_topic_names=["one", "two"])
    assert t.states == ({"one": [0], "two": [0, 1]}, {}, [])
    first[0]()
    t.broker.settle()
    assert t.states == ({"two": [0, 1]}, {}, [])
    t.let_go()
    assert t.states == ({}, {"two": [0, 1]}, [])
    first[0] = lambda: None
    length = len(t.broker.log)
    t.share_state.hold()
    a.beat()
    (answer,) = t.share_state.waiting or []
    t.share_state.waiting = None
    t.refusing("one", None)
    t.broker.advance(RETRY_MS)
    a.beat()
    assert t.states == ({}, {"one": [0], "two": [0, 1]}, [])
    answer()
    t.broker.settle()
    assert len(t.broker.log) > length
    assert t.states == ({}, {"one": [0], "two": [0, 1]}, [])
    t.check()


def test_an_answer_for_a_group_that_is_gone() -> None:
    """A response that arrives after the group was moved or deleted is ignored."""
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "one")
    a.join()
    t.broker.unload()
    t.let_go()
    t.broker.load()
    assert t.states == ({"one": [0]}, {}, [])
    t.share_state.hold()
    t.broker.advance(RETRY_MS)
    a.beat()
    a.leave()
    answers, t.share_state.waiting = t.share_state.waiting or [], None
    assert t.broker.delete().error is ErrorCode.NONE
    for answer in answers:
        answer()
    t.broker.settle()
    assert t.broker.any_group is None


def test_an_answer_after_the_states_are_gone() -> None:
    """A response is recorded even if the group's state record is gone."""
    t = ShareContext()
    t.share_state.hold()
    t.member("A", "one").join()
    t.group.states = None
    t.let_go()
    assert t.states == ({}, {"one": [0]}, [])


def test_an_answer_for_a_topic_that_is_gone() -> None:
    """Partitions of a deleted topic are recorded without a name, as in Kafka."""
    t = ShareContext()
    t.share_state.hold()
    a = t.member("A", "one", "two")
    a.join()
    t.change_topics(one=0)
    t.let_go()
    assert t.states == ({}, {"<UNKNOWN>": [0], "two": [0, 1]}, [])
    t.check()


def test_topics_that_are_deleted() -> None:
    """A deleted topic is removed from the record, in any state."""
    t = ShareContext()
    a = t.member("A", "one", "two", "three")
    t.joined(a)
    a.leave()
    t.refusing("one", ErrorCode.NOT_COORDINATOR)
    t.delete_offsets("one")
    t.refusing("one", None)
    t.share_state.hold()
    b = t.member("B", "three", "two")
    t.change_topics(three=4)
    b.join()
    assert t.states == ({"three": [3]}, {"two": [0, 1], "three": [0, 1, 2]}, ["one"])
    t.broker.delete_topics("none-of-its")
    length = len(t.broker.log)
    t.broker.delete_topics("one", "three")
    assert t.states == ({}, {"two": [0, 1]}, [])
    assert len(t.broker.log) == length + 1
    t.broker.delete_topics("one", "three")
    assert len(t.broker.log) == length + 1
    t.check()


def test_a_topic_that_is_deleted_before_there_is_any_state() -> None:
    """A group that subscribes only to nonexistent topics has no record of share partitions."""
    t = ShareContext()
    t.member("A", "no-such").join()
    assert t.group.states is None
    t.broker.delete_topics("one")
    assert t.group.forgetting_topics([t.key("one", 0).topic_id]) == []
    t.check()
