"""Offsets of streams groups: who may commit, fetch and delete them, and expiry."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.context import commit, offset_delete, offsets
from tests.unit.core.groups.streams.context import StreamsContext, StreamsMember

NONE, STALE, UNKNOWN = (
    ErrorCode.NONE,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


def in_transaction(context: StreamsContext, **fields: Any) -> ErrorCode:
    """Return the error of a transactional commit of partition 0 of topic `three`."""
    partition = OffsetCommitRequestPartition(partition_index=fields.pop("partition", 0))
    topic = OffsetCommitRequestTopic(name="three", partitions=[partition])
    return context.group.check_transactional_commit(
        OffsetCommitRequest(group_id=GROUP, topics=[topic], **fields)
    )


@pytest.fixture(name="shared")
def make_shared() -> tuple[StreamsContext, StreamsMember]:
    """Return a group at epoch 3: a has tasks 0 and 1 since epoch 2, b has task 2 since epoch 3."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    second.join()
    context.reconcile(first, second)
    assert (first.epoch, first.active) == (3, {"0": [0, 1]})
    return context, first


def test_a_member_commits_with_its_epoch(shared: tuple[StreamsContext, StreamsMember]) -> None:
    """Members commit any topic at their epoch, but only older tasks at older epochs (KIP-1251)."""
    context, member = shared
    assert member.commit(("three", 0, 1), ("one", 0, 2)) == [NONE, NONE]
    for epoch, partition, topic, error in (
        (4, 0, "three", STALE),
        (2, 0, "three", NONE),
        (1, 0, "three", STALE),
        (2, 2, "three", STALE),
        (2, 0, "one", STALE),
    ):
        committed = member.commit((topic, partition, 3), generation_id_or_member_epoch=epoch)
        assert committed == [error], (epoch, partition, topic)
    assert offsets(context.broker)["three", 0] == (3, "")
    old = {"generation_id_or_member_epoch": 2}
    long = ("three", 2, 4, "x" * 5000)
    refused = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert member.commit(("three", 0, 3), long, **old) == [NONE, refused]
    assert member.commit(("one", 0, 3), long, **old) == [STALE, STALE]
    assert member.commit(("three", 0, 9), version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    assert member.commit(("three", 0, 9), member_id="z") == [UNKNOWN]
    assert commit(context.broker, ("three", 0, 9)) == [UNKNOWN]
    context.check()


def test_tasks_that_are_being_given_up_are_committed() -> None:
    """Tasks that are being closed can be committed."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    second.join()
    first.own()
    assert first.commit(("three", 2, 1)) == [NONE]
    assert first.commit(("three", 2, 1), generation_id_or_member_epoch=1) == [STALE]


def test_an_empty_group_takes_commits_of_anybody() -> None:
    """An empty group accepts commits of any client, as for a reset of an application."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    member.leave()
    assert commit(context.broker, ("three", 0, 1)) == [NONE]
    assert in_transaction(context, generation_id_or_member_epoch=-1) is NONE
    assert member.commit(("three", 0, 2), generation_id_or_member_epoch=2) == [UNKNOWN]
    context.check()


def test_commits_in_transactions(shared: tuple[StreamsContext, StreamsMember]) -> None:
    """A transactional commit without a member is accepted; a member needs its epoch."""
    context, _ = shared
    assert in_transaction(context, generation_id_or_member_epoch=-1) is NONE
    for member_id, epoch, partition, error in (
        ("a", 3, 2, NONE),
        ("a", 2, 0, NONE),
        ("a", 2, 2, STALE),
        ("a", 4, 0, STALE),
        ("a", -1, 0, STALE),
        ("z", 3, 0, UNKNOWN),
    ):
        fields: dict[str, Any] = {"member_id": member_id, "partition": partition}
        checked = in_transaction(context, generation_id_or_member_epoch=epoch, **fields)
        assert checked is error, (member_id, epoch, partition)


def test_fetching_offsets(shared: tuple[StreamsContext, StreamsMember]) -> None:
    """Members fetch with their epoch; other clients fetch without an epoch."""
    context, member = shared
    member.commit(("three", 0, 7))
    for member_id, epoch, error in (
        ("a", 3, NONE),
        ("a", 2, STALE),
        ("z", 3, UNKNOWN),
        (None, -1, NONE),
        (None, 3, UNKNOWN),
    ):
        asked = OffsetFetchRequestGroup(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name="three", partition_indexes=[0])],
        )
        (group,) = context.broker.send(OffsetFetchRequest(groups=[asked]), 9).response.groups
        assert group.error_code == error, (member_id, epoch)


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    """Offsets of subscribed topics cannot be deleted and do not expire while members exist."""
    context = StreamsContext(offsets_retention_ms=1000)
    member = context.member("m")
    context.joined(member)
    member.commit(("three", 0, 1), ("one", 0, 1))
    results = offset_delete(context.broker, ("three", 0)).topics[0].partitions
    assert results[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    context.broker.advance(1000)
    context.broker.expire_offsets()
    assert offsets(context.broker) == {("three", 0): (1, "")}
    member.leave()
    context.broker.expire_offsets()
    assert offsets(context.broker) == {}
    assert context.broker.any_group is None
    assert context.broker.replayed().is_blank


def test_deleting_a_group() -> None:
    """Only an Empty group can be deleted; all its records get tombstones.

    The pending first assignment is dropped.
    """
    context = StreamsContext(streams_initial_rebalance_delay_ms=3000)
    member = context.member("m")
    member.join()
    assert context.broker.delete().error is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    group = context.group
    assert not group.is_blank
    with pytest.raises(AssertionError):
        group.end(None, 0, None)  # type: ignore[arg-type]  # arguments are ignored
    assert context.broker.delete().error is NONE
    assert context.broker.any_group is None
    assert context.broker.replayed().is_blank
    context.broker.advance(3000)
    assert context.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
