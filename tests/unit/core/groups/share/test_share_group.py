"""A share group's description and records, and its responses to other requests."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share.share_group import ShareGroup
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.list_groups import ListGroupsRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.harness.one_group import GROUP, durable_state, topic_id_of
from tests.unit.core.groups.context import commit, fetch, offset_delete
from tests.unit.core.groups.share.context import ShareContext


def test_describe() -> None:
    """The description has epochs, state, assignor, and the members' fields and assignments."""
    t = ShareContext()
    a = t.member("A", "two", "no-such")
    a.join(rack_id="r")
    a.beat()
    described = t.describe(include_authorized_operations=True)
    assert (described.error_code, described.error_message) == (0, None)
    assert (described.group_id, described.group_state, described.assignor_name) == (
        GROUP,
        "Stable",
        "simple",
    )
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.authorized_operations == 3400
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.rack_id) == ("A", 3, "r")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.subscribed_topic_names == ["no-such", "two"]
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (
        topic_id_of("two"),
        "two",
        [0, 1],
    )
    t.change_topics(two=0)
    assert t.describe().members[0].assignment.topic_partitions == []
    a.leave()
    described = t.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Empty",
        4,
        4,
    )
    assert (described.members, described.authorized_operations) == ([], -(2**31))


def test_groups_that_cannot_be_described() -> None:
    """ShareGroupDescribe refuses unknown, foreign and moved groups, and an empty group id."""
    t = ShareContext()
    missing = t.describe()
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (missing.group_id, missing.error_message) == (GROUP, f"Group {GROUP} not found.")
    t.classic("A").join()
    assert t.describe().error_message == f"Group {GROUP} is not a share group."
    nameless = t.describe("")
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert nameless.error_message is None
    t.broker.unload()
    moved = t.describe()
    assert moved.error_code == ErrorCode.NOT_COORDINATOR
    assert moved.error_message == "This is not the correct coordinator."


def test_many_members_are_described_in_steps() -> None:
    """A share group with many members is described in steps."""
    t = ShareContext(share_max_size=1000)
    for number in range(501):
        t.member(f"m{number}", "no-such").join()
    assert len(t.describe().members) == 501


def test_listing() -> None:
    """ListGroups shows share groups with their own type."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    request = ListGroupsRequest(types_filter=["Share"], states_filter=["stable"])
    (listed,) = t.broker.send(request, 5).response.groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "share",
        "Stable",
        "share",
    )
    group = t.group
    t.broker.unload()
    assert (group.listed().group_state, group.is_vacant, group.is_empty) == ("Dead", True, False)
    assert repr(group) == "<ShareGroup 'g' Dead epoch 3>"


def test_who_knows_the_classic_protocol() -> None:
    """For classic members the group does not exist, and they cannot join it."""
    t = ShareContext()
    t.joined(t.member("A", "one"))
    b = t.classic("B")
    joined = b.join().response
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined.member_id == ""
    b.id, b.generation = "B", 1
    assert b.sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    described = t.broker.describe(5)
    assert (described.group_state, described.error_code) == ("Dead", 0)
    assert t.broker.describe(6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_who_knows_consumer_groups() -> None:
    """A consumer heartbeat does not convert a share group, even an empty one."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    a.leave()
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="B",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["one"],
        topic_partitions=[],
    )
    answer = t.broker.send(request, 1)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.response.error_message == f"Group {GROUP} is not a consumer group."
    describe = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    described = t.broker.send(describe, 1).response.groups[0]
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == f"Group {GROUP} is not a consumer group."


def test_no_offsets_are_committed() -> None:
    """Offsets of a share group cannot be committed or deleted, also not in transactions.

    No offset of a share group expires.
    """
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    assert t.group.is_subscribed("one")
    a.leave()
    assert not t.group.is_subscribed("one")
    assert commit(t.broker, ("one", 0, 5)) == [ErrorCode.GROUP_ID_NOT_FOUND]
    request: Any = t.broker.answers[-1].request
    assert t.group.check_transactional_commit(request) is ErrorCode.GROUP_ID_NOT_FOUND
    assert offset_delete(t.broker, ("one", 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    fetched = fetch(t.broker, "one", 0)
    assert (fetched.error_code, fetched.topics[0].partitions[0].committed_offset) == (0, -1)
    t.group.committed_by("A", t.broker.now_ms)
    t.broker.expire_offsets()
    assert t.group.state == "Empty"


def test_offsets_that_are_in_the_log_all_the_same() -> None:
    """Offset commit records in the log are loaded; their expiry is counted from the commit."""
    t = ShareContext()
    t.joined(t.member("A", "no-such"))
    value = OffsetCommitValue(offset=5, commit_timestamp=7)
    t.group.replay((OffsetCommitKey(group=GROUP, topic="one", partition=0), value))
    stored = t.group.offsets.by_topic["one"][0]
    assert (stored.offset, t.group.expiry_starts_ms(stored)) == (5, 7)


def test_it_never_ends_by_itself() -> None:
    """A share group never expires; its tombstones make it a classic group, which ends."""
    t = ShareContext()
    t.joined(t.member("A", "one"))
    assert not t.group.is_blank
    assert t.group.tombstones()
    with pytest.raises(AssertionError):
        t.group.end(Trigger.GROUP_DELETED, 0, Effects())


def test_tombstones_make_no_group() -> None:
    """Tombstones left by compaction create no group."""
    t = ShareContext()
    a = t.member("A", "one")
    t.joined(a)
    a.leave()
    t.broker.delete()
    group: Group = t.broker.groups.new_group(GROUP)
    for key, value in t.broker.records():
        if value is None:
            group = group.replay((key, value))
    assert isinstance(group, GroupMetadata)
    assert group.is_blank


def test_records_of_another_kind() -> None:
    """Records of other kinds of groups are ignored."""
    t = ShareContext()
    t.joined(t.member("A", "one"))
    before = durable_state(t.group)
    assert t.group.replay((GroupMetadataKey(group=GROUP), None)) is t.group
    assert durable_state(t.group) == before


def test_a_log_that_was_compacted() -> None:
    """The last record of each key gives the same group, in any order."""
    t = ShareContext()
    a, b = t.member("A", "one"), t.member("B", "two")
    t.joined(a, b)
    last = dict(t.broker.log)
    t.broker.log = list(reversed(last.items()))
    replayed = t.broker.replayed()
    assert isinstance(replayed, ShareGroup)
    assert (replayed.epoch, replayed.assignment_epoch) == t.epochs
    assert replayed.members == t.group.members
    assert replayed.currents == t.group.currents
    assert replayed.targets == t.group.targets
    assert replayed.states == t.group.states
    assert replayed.metadata_hash == t.group.metadata_hash


def test_snapshots() -> None:
    """A group is restored exactly from a snapshot."""
    t = ShareContext()
    a, b = t.member("A", "one"), t.member("B", "two")
    t.joined(a, b)
    t.refusing("one", ErrorCode.NOT_COORDINATOR)
    decoding = Decoding(encode_groups([t.group]), t.broker.groups.new_group)
    for _ in decoding.steps():
        pass
    restored = decoding.groups[GROUP]
    assert restored.kind is GroupKind.SHARE
    assert durable_state(restored) == durable_state(t.group)
    blank = t.alter({}, group_id="other")
    assert blank.error is ErrorCode.NONE


def test_the_state_is_written_at_the_end_of_a_sync() -> None:
    """With a sync of every record a heartbeat waits for the sync; an initialization does not."""
    t = ShareContext()
    t.broker.flushes = True
    a = t.member("A", "one")
    answer = a.join()
    assert answer.parked
    assert t.kept
    t.broker.flush()
    assert answer.response.member_epoch == 2
