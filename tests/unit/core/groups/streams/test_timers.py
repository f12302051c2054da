"""Timers of streams groups: the first assignment, sessions, revocations, intervals."""

from __future__ import annotations

from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.kinds import unload
from coordinator_server.core.groups.streams.records import target_epoch_record
from coordinator_server.core.groups.streams.status import StatusCode
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.streams.context import StreamsContext, statuses

DELAYED = StatusCode.ASSIGNMENT_DELAYED
BY_DELAY = "Assignment delayed due to the configured initial rebalance delay."
BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


def test_the_first_assignment_waits_for_more_members() -> None:
    """Members that join in the initial delay get epoch 1 without tasks, and tasks afterwards."""
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    first, second = context.member("a"), context.member("b")
    answer = first.join()
    assert (first.epoch, first.active, statuses(answer)) == (1, {}, {DELAYED: BY_DELAY})
    assert context.epochs == (2, 1)
    context.broker.advance(2000)
    assert statuses(second.join()) == {DELAYED: BY_DELAY}
    context.broker.advance(999)
    assert statuses(first.own()) == {DELAYED: BY_DELAY}
    assert context.state == "Assigning"
    context.broker.advance(1)
    assert context.epochs == (3, 3)
    assert (statuses(first.own()), statuses(second.own())) == ({}, {})
    assert (first.count, second.count) == (2, 1)
    context.check()


def test_a_new_group_waits_for_a_heartbeat_too() -> None:
    """The first target is computed by the first heartbeat after the delay, as in Kafka.

    The timer cannot compute the target, because a new group has not stored its configured topology.
    """
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    member = context.member("m")
    member.join()
    context.broker.advance(3000)
    assert context.epochs == (2, 1)
    assert statuses(member.own()) == {}
    assert context.epochs == (2, 2)
    assert member.count == 3


def test_nobody_is_left_after_the_delay() -> None:
    """If the last member leaves in the initial delay, no target is computed.

    The next member starts a new delay.
    """
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    member = context.member("m")
    member.join()
    member.own()
    context.broker.advance(1000)
    member.leave()
    context.broker.advance(1000)
    assert DELAYED in statuses(member.join())
    member.leave()
    context.broker.advance(1000)
    assert context.epochs == (5, 5)
    assert DELAYED in statuses(member.join())
    assert context.broker.delete().error is ErrorCode.NON_EMPTY_GROUP


def test_the_delay_is_a_config_of_the_group() -> None:
    """The initial delay is a config of the group and ends with the group."""
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    context.broker.configs["streams.initial.rebalance.delay.ms"] = "0"
    member = context.member("m")
    assert statuses(member.join()) == {}
    assert member.count == 3


def test_assignments_keep_an_interval() -> None:
    """Within the assignment interval the group keeps its last target assignment."""
    context = StreamsContext(streams_assignment_interval_ms=1000)
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    answer = second.join()
    assert (second.epoch, statuses(answer)) == (2, {DELAYED: BY_INTERVAL})
    assert context.epochs == (3, 2)
    context.broker.advance(999)
    assert statuses(first.own()) == {DELAYED: BY_INTERVAL}
    context.broker.advance(1)
    assert statuses(first.own()) == {}
    assert context.epochs == (3, 3)
    context.check()


def test_an_interval_does_not_outlast_a_clock_that_was_set_back() -> None:
    """If the clock is set back, the assignment interval ends."""
    context = StreamsContext(streams_assignment_interval_ms=1000)
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    context.broker.clock.time_ms -= 5000
    assert statuses(second.join()) == {}
    assert context.epochs == (3, 3)


def test_the_first_member_after_the_last_waits_for_the_delay_alone() -> None:
    """The first member of an empty group waits only for the initial delay.

    The assignment interval does not apply.
    """
    context = StreamsContext(
        streams_initial_rebalance_delay_ms=100, streams_assignment_interval_ms=1000
    )
    member = context.member("m")
    member.join()
    member.own()
    context.broker.advance(100)
    assert context.epochs == (2, 2)
    member.leave()
    assert context.epochs == (3, 3)
    member.join()
    assert context.epochs == (4, 3)
    context.broker.advance(100)
    assert context.epochs == (4, 4)
    assert statuses(member.own()) == {}


def test_an_empty_group_of_an_older_log_keeps_the_interval() -> None:
    """A group that Kafka before 4.4 left empty keeps the assignment interval.

    These versions keep the timestamp of the last assignment.
    """
    context = StreamsContext(
        streams_initial_rebalance_delay_ms=100, streams_assignment_interval_ms=1000
    )
    member = context.member("m")
    member.join()
    member.own()
    context.broker.advance(100)
    member.leave()
    context.group.replay(target_epoch_record(GROUP, 2, context.broker.clock.time_ms))
    member.join()
    context.broker.advance(100)
    assert context.epochs == (4, 2)
    assert statuses(member.own()) == {DELAYED: BY_INTERVAL}


def test_sessions_end() -> None:
    """A silent member is fenced at the session timeout, which heartbeats renew."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first, second)
    context.broker.advance(44_000)
    assert first.own().error is ErrorCode.NONE
    context.broker.advance(1_000)
    assert list(context.group.members) == ["a"]
    assert "member.expired" in context.broker.event_names()
    assert second.own().error is ErrorCode.UNKNOWN_MEMBER_ID
    first.own()
    assert first.count == 3
    context.broker.advance(45_000)
    assert context.state == "Empty"
    context.check()


def test_a_fence_that_cannot_be_written_is_tried_again() -> None:
    """A fence that cannot be written is retried after 500 ms, for both kinds of timers."""
    context = StreamsContext()
    first, second = context.member("a", rebalance_ms=1000), context.member("b")
    context.joined(first)
    second.join()
    assert first.beat() is ErrorCode.NONE
    assert first.id in context.group.revocations
    context.broker.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    context.broker.advance(1000)
    assert list(context.group.members) == ["a", "b"]
    context.broker.append_error = lambda: ErrorCode.NONE
    context.broker.advance(500)
    assert list(context.group.members) == ["b"]
    context.broker.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    context.broker.advance(45_000)
    assert list(context.group.members) == ["b"]
    context.broker.append_error = lambda: ErrorCode.NONE
    context.broker.advance(500)
    assert context.state == "Empty"
    context.check()


def test_the_session_timeout_is_a_config_of_the_group() -> None:
    """Session timeout and heartbeat interval are configs of the group."""
    context = StreamsContext()
    context.broker.configs |= {
        "streams.session.timeout.ms": "50000",
        "streams.heartbeat.interval.ms": "7000",
    }
    member = context.member("m")
    assert member.join().response.heartbeat_interval_ms == 7000
    context.broker.advance(49_999)
    assert context.state == "Stable"
    context.broker.advance(1)
    assert context.state == "Empty"


def test_tasks_have_to_be_given_up_in_time() -> None:
    """Tasks must be revoked within the member's rebalance timeout, despite its heartbeats."""
    context = StreamsContext()
    first, second = context.member("a", rebalance_ms=20_000), context.member("b")
    context.joined(first)
    second.join()
    held = dict(first.active)
    first.own()
    for _ in range(3):
        context.broker.advance(5_000)
        assert first.own(held).error is ErrorCode.NONE
    context.broker.advance(5_000)
    assert list(context.group.members) == ["b"]
    assert "revocation.expired" in context.broker.event_names()
    assert first.own(held).error is ErrorCode.UNKNOWN_MEMBER_ID
    second.own()
    assert second.count == 3
    context.check()


def test_who_gives_up_in_time_stays() -> None:
    """A revocation in time cancels the rebalance timeout."""
    context = StreamsContext()
    first, second = context.member("a", rebalance_ms=20_000), context.member("b")
    context.joined(first)
    second.join()
    first.own()
    context.broker.advance(10_000)
    first.own()
    context.broker.advance(20_000)
    assert sorted(context.group.members) == ["a", "b"]


def test_more_to_give_up_has_its_own_time() -> None:
    """A further revocation has a full timeout, which starts after the previous revocation."""
    context = StreamsContext()
    first = context.member("a", rebalance_ms=20_000)
    context.joined(first)
    others = context.member("b"), context.member("c")
    others[0].join()
    first.own()
    others[1].join()
    context.broker.advance(19_000)
    first.own({"0": [0, 1]})
    assert (first.epoch, first.active) == (3, {"0": [0]})
    for other in others:
        other.own()
    context.broker.advance(19_000)
    assert "a" in context.group.members
    context.broker.advance(1_000)
    assert "a" not in context.group.members


def test_timers_wait_for_writes() -> None:
    """Timers run after pending writes, and so see the written records."""
    context = StreamsContext()
    context.joined(context.member("m"))
    group, later_ms = context.group, context.broker.now_ms + 45_000
    effects = Effects()
    group.expire_timers(context.broker.now_ms, effects)
    assert not effects.writes
    effects.write([])
    group.purgatory.has_new_deadline = False
    group.expire_timers(later_ms, effects)
    assert len(effects.writes) == 1
    assert group.purgatory.has_new_deadline


def test_a_group_is_unloaded_once() -> None:
    """Unloading a group a second time has no effect."""
    context = StreamsContext()
    context.joined(context.member("m"))
    group, effects = context.group, Effects()
    for _ in range(2):
        unload(group, 0, effects)
    assert len(effects.events) == 1


def test_after_a_crash_members_have_a_whole_session() -> None:
    """After a crash members have a whole session and a whole rebalance timeout."""
    context = StreamsContext()
    first, second = context.member("a", rebalance_ms=20_000), context.member("b")
    context.joined(first)
    second.join()
    first.own()
    context.broker.advance(15_000)
    context.broker.crash()
    assert context.state == "Reconciling"
    context.broker.advance(19_000)
    second.own()
    assert sorted(context.group.members) == ["a", "b"]
    context.broker.advance(1_000)
    assert list(context.group.members) == ["b"]
    context.broker.crash()
    context.broker.advance(44_999)
    assert list(context.group.members) == ["b"]
    context.broker.advance(1)
    assert context.state == "Empty"
    context.check()


def test_two_sessions_end_at_once() -> None:
    """If two sessions end together, each removal raises the epoch."""
    context = StreamsContext()
    context.joined(context.member("a"), context.member("b"))
    epoch = context.group.epoch
    context.broker.advance(60_000)
    assert context.state == "Empty"
    assert context.group.epoch == epoch + 2
    context.check()
