"""Loading, unloading, and the group's records."""

from coordinator_server.core.groups.classic.lifecycle import load_finished, unload
from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.offsets import CommittedOffset, CommittedOffsets
from protocol.errors import ErrorCode
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordedMember,
)
from tests.unit.core.groups.context import GroupContext, commit, leave, offsets

E = ErrorCode


def test_a_stable_group_goes_on_after_a_restart() -> None:
    """A Stable group survives a restart with its state, and heartbeats continue."""
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    b = context.member("B")
    context.stable(b, a)
    b.commit(("one", 0, 5, "m"))
    described = context.broker.describe()
    context.broker.crash()
    assert context.broker.describe() == described
    assert a.heartbeat() is b.heartbeat() is E.NONE
    assert a.sync().response.assignment == b"asg-A"
    assert offsets(context.broker) == {("one", 0): (5, "m")}
    assert b.join().parked  # member B is still the leader, so its join starts a rebalance
    assert a.join().response.generation_id == 2
    context.broker.check_replay_law()


def test_after_a_restart_everybody_has_a_whole_session() -> None:
    """After a restart every member has a whole session, and is removed at its end."""
    context = GroupContext()
    a, b = context.stable("A", "B")
    context.broker.advance(9_999)
    context.broker.crash()
    context.broker.advance(9_999)
    assert a.heartbeat() is E.NONE
    context.broker.advance(1)
    assert b.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert a.heartbeat() is E.REBALANCE_IN_PROGRESS


def test_a_rebalance_does_not_survive_a_restart() -> None:
    """A restart restores the last recorded generation, without parked requests and new members."""
    context = GroupContext()
    (a,), newcomer, parked = context.preparing("A")
    context.broker.crash()
    assert parked.lost
    assert a.heartbeat() is E.NONE
    assert newcomer.join().parked


def test_empty_groups_come_back() -> None:
    """Empty groups survive a restart with their generation and the time when they became empty."""
    context = GroupContext()
    context.empty()
    emptied_ms = context.broker.now_ms
    context.broker.advance(5_000)
    context.broker.crash()
    assert context.broker.group is not None
    assert context.broker.group.state_timestamp_ms == emptied_ms
    (b,) = context.completing("B")
    assert b.generation == 3


def test_a_standalone_group_comes_back() -> None:
    """A standalone group is restored from its offsets alone, without a type."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    context.broker.crash()
    assert context.broker.describe().protocol_type == ""
    assert commit(context.broker, ("one", 0, 2)) == [E.NONE]


def test_a_group_above_its_size_is_rebalanced() -> None:
    """In a loaded group above group.max.size, the first members to rejoin stay."""
    context = GroupContext()
    a, b, c = context.stable("A", "B", "C")
    context.broker.settings = context.broker.settings._replace(max_size=2)
    context.broker.crash()
    assert a.heartbeat() is E.REBALANCE_IN_PROGRESS
    a.join()
    b.join()
    assert c.join().error is E.GROUP_MAX_SIZE_REACHED
    assert dict(context.broker.events)["group.rebalancing"]["trigger"] == (
        "over capacity after load"
    )


def test_a_record_of_version_0() -> None:
    """A record of version 0 uses the session timeout as rebalance timeout.

    Such a record may lack a leader.
    """
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    group = context.broker.group
    assert group is not None
    recorded = RecordedMember(member_id="m", session_timeout=7_000)
    value = GroupMetadataValue(protocol_type="consumer", members=[recorded], leader="gone")
    group.replay((GroupMetadataKey(group="g"), value))
    load_finished(group, context.broker.now_ms, Effects())
    assert group.membership.rebalance_timeout_ms == 7_000
    assert group.membership.leader_id == "m"
    assert group.state is GroupState.STABLE


def test_a_group_that_has_ended_is_unloaded_like_any_other() -> None:
    """Unloading a Dead group changes nothing."""
    context = GroupContext()
    context.stable("A")
    group = context.broker.group
    assert group is not None
    effects = Effects(debug=True)
    for _ in range(2):
        unload(group, 0, effects)
    assert group.state is GroupState.DEAD
    assert [name for name, _ in effects.events] == ["group.unloaded"]


def test_unloading_answers_what_is_parked() -> None:
    """Unloading answers parked joins and syncs with NOT_COORDINATOR and cancels all timers.

    The group is Dead.
    """
    context = GroupContext()
    a, b = context.completing("A", "B")
    sync = b.sync()
    group = context.broker.group
    context.broker.unload()
    assert sync.error is E.NOT_COORDINATOR
    assert group is not None
    assert group.next_look_ms() is None
    assert group.state is GroupState.DEAD

    context = GroupContext()
    (a,), _, newcomer = context.preparing("A")
    rejoined = context.member("M").join()
    context.broker.unload()
    assert newcomer.error is rejoined.error is E.NOT_COORDINATOR
    assert a.heartbeat() is E.NOT_COORDINATOR
    assert repr(group) == "<GroupMetadata 'g' Dead generation 1>"


def test_requests_after_unloading() -> None:
    """After unloading every request gets NOT_COORDINATOR, even one that would create a group."""
    context = GroupContext()
    (a,) = context.stable("A")
    with context.broker.one_drain():
        context.broker.unload()
        joins = [a.join(), context.member("N").join()]
        assert [(join.error, join.response.member_id) for join in joins] == [
            (E.NOT_COORDINATOR, a.id),
            (E.NOT_COORDINATOR, ""),
        ]
        assert a.sync().error is E.NOT_COORDINATOR
        assert leave(context.broker, (a.id, None)).error is E.NOT_COORDINATOR
    assert context.broker.group is None


def test_unloading_with_writes_under_way() -> None:
    """A request whose write completes after the group has ended is answered exactly once."""
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    b = context.member("B", instance_id="i2")
    context.completing(a, b)
    with context.broker.one_drain():
        parked = [b.sync(), a.sync({a.id: b"a"})]
        context.broker.unload()
    assert [answer.error for answer in parked] == [E.NOT_COORDINATOR] * 2


def test_durable_state_is_what_the_records_say() -> None:
    """Later records replace earlier records, and tombstones remove them.

    Offset records of old formats are applied; records of other types are skipped.
    """
    group = GroupContext().broker.replayed()
    assert group.is_blank
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=1)
    value = LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=9)
    group.replay((key, value))
    stored = CommittedOffset(offset=4, metadata="m", commit_timestamp=9)
    assert group.offsets.by_topic["t"][1] == stored
    group.replay((LegacyOffsetCommitKey(group="g", topic="t", partition=2), value))
    group.replay((key, None))
    assert list(group.offsets.by_topic["t"]) == [2]
    group.replay((LegacyOffsetCommitKey(group="g", topic="t", partition=2), None))
    group.replay((LegacyOffsetCommitKey(group="g", topic="u", partition=2), None))
    group.replay((value, None))  # no group type has records of the value's type
    assert group.is_blank
    assert group.offsets == CommittedOffsets()
    assert group.offsets != "something else"


def test_many_offsets_at_once_are_like_so_many_records() -> None:
    """Offsets from a snapshot have the same effect as their records, and existing offsets stay."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1), ("one", 1, 1))
    group = context.broker.group
    assert group is not None
    for topic in ("one", "two"):
        group.restore(topic, {1: CommittedOffset(5), 2: CommittedOffset(6)})
    by_records = context.broker.replayed()
    for topic in ("one", "two"):
        for partition, offset in ((1, 5), (2, 6)):
            key = OffsetCommitKey(group="g", topic=topic, partition=partition)
            by_records.replay((key, OffsetCommitValue(offset=offset)))
    assert group.offsets == by_records.offsets
    assert sorted(group.offsets.by_topic["one"]) == [0, 1, 2]


def test_a_group_that_is_made_of_a_snapshot_is_not_new() -> None:
    """A group restored from a snapshot is not new: its offsets show that it was recorded."""
    untouched, from_records, from_snapshot = (GroupContext().broker.replayed() for _ in range(3))
    value = OffsetCommitValue(offset=5)
    from_records.replay((OffsetCommitKey(group="g", topic="one", partition=1), value))
    from_snapshot.restore("one", {1: CommittedOffset.of(value)})
    made = (untouched, from_records, from_snapshot)
    assert [group.is_new for group in made] == [True, False, False]
