"""Expiry of offsets and groups, and deleted topics."""

from typing import Any

import pytest

from coordinator_server.core.groups.classic.lifecycle import load_finished
from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.effects import Effects
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue
from tests.unit.core.groups.context import (
    GroupContext,
    Member,
    commit,
    offset_delete,
    offsets,
    subscription,
)

E = ErrorCode
RETENTION_MS = 60_000


def made(**settings: Any) -> GroupContext:
    """Return a broker with a short retention."""
    return GroupContext(offsets_retention_ms=RETENTION_MS, **settings)


def long_lived(context: GroupContext, *topics: str, protocol_type: str = "consumer") -> Member:
    """Return the only member of a Stable group that subscribes to `topics`."""
    member = context.member(
        "A",
        session_ms=1_000_000,
        protocol_type=protocol_type,
        protocols=[("range", subscription(*topics))],
    )
    context.stable(member)
    return member


def test_a_standalone_group_expires_with_its_last_offset() -> None:
    """Retention is counted from each commit; the last offset and the group end in one batch."""
    context = made()
    broker = context.broker
    commit(broker, ("one", 0, 1))
    broker.advance(1_000)
    commit(broker, ("three", 0, 1))
    broker.advance(RETENTION_MS - 1_001)
    broker.expire_offsets()
    assert len(offsets(broker)) == 2
    broker.advance(1)
    broker.expire_offsets()
    assert offsets(broker) == {("three", 0): (1, "")}
    broker.advance(1_000)
    broker.expire_offsets()
    assert context.state == GroupState.DEAD
    assert broker.batches[-1] == 2
    assert broker.replayed().is_blank
    assert broker.event_names()[-2:] == ["offsets.expired", "group.expired"]


def test_an_empty_group_expires_by_the_time_it_became_empty() -> None:
    """Retention of an empty group is counted from the time when the group became empty."""
    context = made()
    member = long_lived(context, "one")
    member.commit(("one", 0, 1))
    context.broker.advance(RETENTION_MS * 3)
    member.leave()
    context.broker.advance(RETENTION_MS - 1)
    context.broker.expire_offsets()
    assert context.state == GroupState.EMPTY
    context.broker.advance(1)
    context.broker.expire_offsets()
    assert context.state == GroupState.DEAD


def test_an_old_record_does_not_say_since_when_it_is_empty() -> None:
    """Without the timestamp of v2+ group records, retention is counted from the commit."""
    context = made()
    broker = context.broker
    commit(broker, ("one", 0, 1))
    group = broker.group
    assert group is not None
    value = GroupMetadataValue(protocol_type="consumer", generation=3)
    group.replay((GroupMetadataKey(group="g"), value))
    load_finished(group, broker.now_ms, Effects())
    assert group.state_timestamp_ms is None
    broker.advance(RETENTION_MS)
    broker.expire_offsets()
    assert context.state == GroupState.DEAD


def test_an_empty_group_without_offsets_goes_at_once() -> None:
    """An empty group without offsets ends at the first check, even with a pending id."""
    context = made()
    member = context.member("A", version=5)
    member.join()
    context.broker.expire_offsets()
    assert context.state == GroupState.DEAD
    assert member.join().error is E.UNKNOWN_MEMBER_ID


def test_members_keep_what_they_read() -> None:
    """In a Stable consumer group only offsets of unsubscribed topics expire."""
    context = made()
    member = long_lived(context, "one")
    member.commit(("one", 0, 1), ("three", 0, 2))
    context.broker.advance(RETENTION_MS)
    context.broker.expire_offsets()
    assert offsets(context.broker) == {("one", 0): (1, "")}
    assert context.state == GroupState.STABLE
    context.broker.check_replay_law()


@pytest.mark.parametrize("case", ["preparing", "connect", "unreadable"])
def test_groups_with_members_that_keep_everything(case: str) -> None:
    """No offset expires in a group with members that is not Stable.

    The same holds in Stable for another protocol type, and for an unreadable subscription.
    """
    context = made()
    if case == "unreadable":
        member = context.member("A", session_ms=1_000_000, protocols=[("range", b"\x7f")])
        context.stable(member)
    else:
        member = long_lived(context, protocol_type="consumer" if case == "preparing" else case)
    member.commit(("three", 0, 2))
    if case == "preparing":
        member.rebalance_ms = 1_000_000
        context.member("N").join()
    context.broker.advance(29_000)
    member.heartbeat()
    context.broker.clock.time_ms += RETENTION_MS
    context.broker.expire_offsets()
    assert len(offsets(context.broker)) == 1


def test_an_offset_with_a_time_of_its_own() -> None:
    """A commit of v2 to v4 with a retention expires by that retention, not by the broker's."""
    context = made()
    member = long_lived(context, "one")
    changes = {"version": 3, "retention_time_ms": 500}
    assert member.commit(("three", 0, 1), **changes) == [E.NONE]
    context.broker.advance(499)
    context.broker.expire_offsets()
    assert len(offsets(context.broker)) == 1
    context.broker.advance(1)
    context.broker.expire_offsets()
    assert offsets(context.broker) == {}


def test_an_expiry_that_cannot_be_written_is_tried_again() -> None:
    """An expiry that cannot be written is retried at the next check."""
    context = made()
    commit(context.broker, ("one", 0, 1))
    context.broker.advance(RETENTION_MS)
    context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
    context.broker.expire_offsets()
    assert len(offsets(context.broker)) == 1
    context.broker.append_error = lambda: E.NONE
    context.broker.expire_offsets()
    assert context.state == GroupState.DEAD


def test_nothing_to_expire_writes_nothing() -> None:
    """A check without expired offsets writes nothing, also right after the group has ended."""
    context = made()
    commit(context.broker, ("one", 0, 1))
    before = len(context.broker.log)
    context.broker.expire_offsets()
    assert len(context.broker.log) == before
    context.broker.advance(RETENTION_MS)
    with context.broker.one_drain():
        context.broker.expire_offsets()
        context.broker.expire_offsets()
        context.broker.delete_topics("one")
    assert len(context.broker.log) == before + 2
    context.broker.expire_offsets()
    context.broker.delete_topics("one")


def test_offsets_of_a_deleted_topic_go_at_once() -> None:
    """Offsets of a deleted topic are removed at once, subscribed or not; the group stays."""
    context = made()
    member = long_lived(context, "one")
    member.commit(("one", 0, 1), ("three", 0, 2), ("three", 1, 2))
    context.broker.delete_topics("three", "nope")
    assert offsets(context.broker) == {("one", 0): (1, "")}
    context.broker.delete_topics("nope")
    context.broker.check_replay_law()


def test_a_deleted_topic_without_offsets_writes_nothing() -> None:
    """A deleted topic without stored offsets writes nothing."""
    context = made()
    commit(context.broker, ("one", 0, 1))
    before = len(context.broker.log)
    with context.broker.one_drain():
        offset_delete(context.broker, ("one", 0))
        context.broker.delete_topics("one")
    assert len(context.broker.log) == before + 1
