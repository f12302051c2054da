"""Sessions and rebalance timeouts, and their restart when a group is loaded."""

from __future__ import annotations

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.leaving import fence
from coordinator_server.core.groups.consumer.timers import (
    SESSION_TIMEOUT,
    ConsumerSession,
    has_synced,
)
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.settings import GroupEnvironment, GroupSettings
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember

SESSION_MS = 45_000


def events(context: ConsumerContext, name: str) -> list[dict[str, object]]:
    """Return the fields of the events with this name."""
    return [fields for event, fields in context.broker.events if event == name]


def revoking(context: ConsumerContext, rebalance_ms: int = 30_000) -> ConsumerMember:
    """Return a member that must revoke a partition for a waiting member."""
    a = context.member("a", "three", rebalance_ms=rebalance_ms)
    context.joined(a)
    assert context.member("b", "three").join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert context.group.current("a").revoking
    return a


def test_a_silent_member_is_fenced_when_its_session_ends() -> None:
    """A silent member is fenced at its session timeout and is then unknown.

    Its partitions are free, and the group epoch rises.
    """
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.written()
    context.broker.advance(SESSION_MS - 1)
    assert context.group.member_count == 1
    context.broker.advance(1)
    assert context.written() == [
        "-current a",
        "-target a",
        "-member a",
        "epoch 3",
        "target epoch 3",
    ]
    assert context.state == "Empty"
    (event,) = events(context, "member.expired")
    assert event == {"group": "g", "member": "a", "session_timeout_ms": SESSION_MS}
    assert a.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    context.check()


def test_any_heartbeat_renews_the_session() -> None:
    """Accepted heartbeats renew the session; refused heartbeats do not."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.broker.advance(SESSION_MS - 1)
    assert a.beat() is ErrorCode.NONE
    context.broker.advance(SESSION_MS - 1)
    assert a.beat(member_epoch=9) is ErrorCode.FENCED_MEMBER_EPOCH
    context.broker.advance(1)
    assert context.state == "Empty"


def test_commits_renew_no_session() -> None:
    """Commits do not renew the session."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.broker.advance(SESSION_MS - 1)
    assert a.commit(("three", 0, 1)) == [ErrorCode.NONE]
    context.broker.advance(1)
    assert context.state == "Empty"


def test_members_that_expire_together_raise_an_epoch_each() -> None:
    """Each of several members that expire together raises the epoch."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    assert a.join().error is ErrorCode.NONE
    assert b.join().error is ErrorCode.NONE
    context.written()
    context.broker.advance(SESSION_MS)
    assert [one for one in context.written() if one.startswith("epoch")] == ["epoch 4", "epoch 5"]
    assert (context.state, context.epochs) == ("Empty", (5, 5))
    context.check()


def test_the_group_may_have_a_session_timeout_of_its_own() -> None:
    """Session timeout and heartbeat interval can be set per group and are sent to members."""
    context = ConsumerContext()
    context.broker.configs |= {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }
    answer = context.member("a", "three").join()
    assert answer.response.heartbeat_interval_ms == 7000
    context.broker.advance(49_999)
    assert context.state == "Stable"
    context.broker.advance(1)
    assert context.state == "Empty"


def test_a_static_member_that_is_away_has_the_rest_of_its_session() -> None:
    """The session of a static member continues while the member is away."""
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i")
    context.joined(a)
    context.broker.advance(SESSION_MS - 1)
    assert a.leave(-2) is ErrorCode.NONE
    context.broker.advance(1)
    assert context.state == "Empty"
    context.check()


def test_a_static_member_that_is_away_need_not_give_up_in_time() -> None:
    """A static member that leaves temporarily has no rebalance timeout any more.

    A broker that loads the group starts a new timeout.
    """
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i", rebalance_ms=30_000)
    context.joined(a)
    assert context.member("b", "three").join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert context.group.current("a").revoking
    assert a.leave(-2) is ErrorCode.NONE
    context.broker.advance(30_000)
    assert context.group.members.keys() == {"a", "b"}
    context.broker.crash()
    context.broker.advance(29_999)
    assert context.group.members.keys() == {"a", "b"}
    context.broker.advance(1)
    assert context.group.members.keys() == {"b"}
    context.check()


def test_a_member_that_does_not_give_up_is_fenced() -> None:
    """A member that does not revoke is fenced at its rebalance timeout despite heartbeats."""
    context = ConsumerContext()
    a = revoking(context, rebalance_ms=20_000)
    context.broker.advance(19_999)
    assert a.beat() is ErrorCode.NONE
    context.broker.advance(1)
    assert "a" not in context.group.members
    (event,) = events(context, "revocation.expired")
    assert event == {"group": "g", "member": "a", "rebalance_timeout_ms": 20_000}
    context.check()


def test_a_member_that_gives_up_in_time_is_not_fenced() -> None:
    """A revocation in time cancels the rebalance timeout."""
    context = ConsumerContext()
    a = revoking(context)
    context.broker.advance(20_000)
    assert a.own() is ErrorCode.NONE
    assert not context.group.current("a").revoking
    context.broker.advance(20_000)
    assert "a" in context.group.members


def test_a_static_member_that_is_away_has_nothing_to_give_up_any_more() -> None:
    """An absent static member is not fenced at its rebalance timeout, as its epoch has changed."""
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i", rebalance_ms=20_000)
    context.joined(a)
    assert context.member("b", "three").join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert a.leave(-2) is ErrorCode.NONE
    context.broker.advance(20_000)
    assert "a" in context.group.members
    assert not events(context, "revocation.expired")


def test_a_member_that_leaves_takes_its_timers_with_it() -> None:
    """A leaving member's timers are cancelled."""
    context = ConsumerContext()
    a = revoking(context)
    assert a.leave() is ErrorCode.NONE
    context.broker.advance(40_000)
    assert not events(context, "revocation.expired")
    assert "a" not in context.group.sessions


def test_loaded_members_have_a_whole_session() -> None:
    """Members of a loaded group have a whole session and a whole rebalance timeout."""
    context = ConsumerContext()
    a = revoking(context, rebalance_ms=20_000)
    context.broker.advance(15_000)
    context.broker.crash()
    assert context.group.epoch == 3
    context.broker.advance(19_999)
    assert a.beat() is ErrorCode.NONE
    context.broker.advance(1)
    assert "a" not in context.group.members
    context.broker.advance(SESSION_MS - 20_000)
    assert context.state == "Empty"
    context.check()


def test_a_group_that_moves_away_is_dead() -> None:
    """A group that moves away is dead and has no timers; the next coordinator loads it."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    group = context.group
    assert "Stable" in repr(group)
    context.broker.unload()
    assert a.beat() is ErrorCode.NOT_COORDINATOR
    assert (group.state.value, group.is_dead, group.is_vacant) == ("Dead", True, True)
    assert not group.is_empty
    context.broker.advance(SESSION_MS)
    context.broker.load()
    assert a.beat() is ErrorCode.NONE
    assert context.group is not group
    context.check()


def test_who_is_gone_cannot_be_fenced() -> None:
    """Fencing a removed member writes nothing."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    effects = Effects()
    timer, now_ms = ConsumerSession("x"), context.broker.now_ms
    steps = fence(context.group, "x", timer, Trigger.MEMBER_EXPIRED, SESSION_MS, now_ms, effects)
    assert list(steps) == []
    assert effects.writes == []


def test_a_leave_that_cannot_be_written_keeps_the_member() -> None:
    """If a leave cannot be written, the member stays until its session ends."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    assert a.leave() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    context.broker.append_error = lambda: ErrorCode.NONE
    context.broker.advance(SESSION_MS)
    assert context.state == "Empty"


def test_a_fence_that_cannot_be_written_is_tried_again() -> None:
    """A fence that cannot be written is retried after 500 ms, as in Kafka."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    context.broker.advance(SESSION_MS + 400)
    assert context.group.member_count == 1
    context.broker.append_error = lambda: ErrorCode.NONE
    context.broker.advance(99)
    assert context.group.member_count == 1
    context.broker.advance(1)
    assert context.state == "Empty"
    context.check()


def test_a_group_without_configs_has_the_settings_of_the_broker() -> None:
    """Without group configs, as in a log tool, the broker's settings apply."""
    group = ConsumerGroup(GROUP, GroupEnvironment(GroupSettings(), str, str, in_place_of))
    assert config(group, SESSION_TIMEOUT) == SESSION_MS


def test_a_member_that_nobody_waits_for_may_sync() -> None:
    """A sync of a member without a sync timer changes nothing."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    has_synced(context.group, "a")
    assert context.group.syncs == {}
