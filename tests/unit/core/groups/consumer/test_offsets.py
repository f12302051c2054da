"""Committed offsets of consumer groups: who may commit and fetch, expiry, and deletion."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch
from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.transactional_commit import TransactionalCommit
from coordinator_server.core.groups.transactional_commit import commit as commit_in_transaction
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.consumer_group_records import ClassicMemberMetadata
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember
from tests.unit.core.groups.context import commit, offset_delete, offsets

E = ErrorCode
WEEK_MS = 7 * 24 * 3600 * 1000


def request(topic: str = "three", **fields: Any) -> OffsetCommitRequest:
    """Return a commit of partition 0."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id=GROUP, topics=topics, **fields)


def fetch_error(
    context: ConsumerContext, member_id: str | None, epoch: int, version: int = 9
) -> ErrorCode:
    """Fetch the offsets of all topics as a member; return the error."""
    group = OffsetFetchRequestGroup(
        group_id=GROUP, topics=None, member_id=member_id, member_epoch=epoch
    )
    response = context.broker.send(OffsetFetchRequest(groups=[group]), version).response
    return ErrorCode(response.groups[0].error_code)


def give_up(context: ConsumerContext) -> tuple[ConsumerMember, list[int], int]:
    """Return a member between epochs 2 and 3, with a kept and a revoked partition."""
    a = context.member("a", "three")
    context.joined(a)
    assert context.member("b", "three").join().error is E.NONE
    assert a.beat() is E.NONE
    kept = a.owned["three"]
    (given,) = {0, 1, 2} - {*kept}
    return a, kept, given


def as_classic(context: ConsumerContext, member_id: str) -> None:
    """Turn a member of the group into a classic member."""
    metadata = ClassicMemberMetadata(session_timeout_ms=6000)
    context.rewrite(member_id, classic_member_metadata=metadata)


def test_a_member_commits_with_its_epoch() -> None:
    """A commit with a higher epoch gets STALE_MEMBER_EPOCH, an unknown member UNKNOWN_MEMBER_ID."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert a.commit(("three", 0, 7)) == [E.NONE]
    assert a.commit(("three", 0, 8), generation_id_or_member_epoch=3) == [E.STALE_MEMBER_EPOCH]
    assert a.commit(("three", 0, 8), member_id="x") == [E.UNKNOWN_MEMBER_ID]
    assert commit(context.broker, ("three", 0, 8)) == [E.UNKNOWN_MEMBER_ID]
    assert offsets(context.broker) == {("three", 0): (7, "")}
    context.check()


def test_an_older_epoch_does_for_partitions_owned_since_then() -> None:
    """An older epoch is accepted for partitions owned since then, also while revoking (KIP-1251).

    Partitions that were assigned later, or that other members own, are refused.
    """
    context = ConsumerContext()
    a, kept, given = give_up(context)
    assert a.own() is E.NONE
    assert a.epoch == 3
    old: dict[str, Any] = {"generation_id_or_member_epoch": 2}
    assert a.commit(*(("three", one, 1) for one in kept), **old) == [E.NONE] * 2
    assert a.commit(("three", given, 1), **old) == [E.STALE_MEMBER_EPOCH]
    assert a.commit(("three", kept[0], 1), ("three", given, 1), **old) == [E.STALE_MEMBER_EPOCH] * 2
    unknown = request("nowhere", member_id="a", **old)
    assert context.group.check_commit(unknown, 9) is E.STALE_MEMBER_EPOCH
    assert a.commit(("three", kept[0], 1), generation_id_or_member_epoch=1) == [
        E.STALE_MEMBER_EPOCH
    ]


def test_long_metadata_is_refused_whatever_the_epoch_of_the_partition() -> None:
    """Too long metadata is refused first; only other partitions are checked for a stale epoch."""
    context = ConsumerContext()
    a, kept, given = give_up(context)
    assert a.own() is E.NONE
    own, long = ("three", kept[0], 1), ("three", given, 1, "x" * 5000)
    old: dict[str, Any] = {"generation_id_or_member_epoch": 2}
    assert a.commit(long, **old) == [E.OFFSET_METADATA_TOO_LARGE]
    assert a.commit(own, long, **old) == [E.NONE, E.OFFSET_METADATA_TOO_LARGE]
    assert a.commit((*own, "x" * 5000), ("three", given, 1), **old) == [E.STALE_MEMBER_EPOCH] * 2
    assert a.commit(long, generation_id_or_member_epoch=4) == [E.STALE_MEMBER_EPOCH]


def test_a_partition_that_is_being_given_up_may_be_committed() -> None:
    """A partition that is being revoked can be committed at the member's epoch."""
    context = ConsumerContext()
    a, _, given = give_up(context)
    assert a.beat() is E.NONE
    a.epoch = 2
    assert a.commit(("three", given, 1)) == [E.NONE]
    assert a.join().error is E.NONE
    assert a.commit(("three", given, 1), generation_id_or_member_epoch=2) == [E.STALE_MEMBER_EPOCH]


def test_what_is_given_up_keeps_its_epoch() -> None:
    """A partition that is being revoked can be committed at the epoch of its assignment."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = context.member("a", "three", "one")
    context.joined(a)
    context.change_topics(one=2)
    context.broker.advance(1000)
    context.reconcile(a)
    assert a.epoch == 3
    assert a.beat(subscribed_topic_names=["one"]) is E.NONE
    assert context.group.current("a").revoking
    assert a.commit(("three", 0, 1), generation_id_or_member_epoch=2) == [E.NONE]


def test_members_commit_by_version_9_at_least() -> None:
    """Members need OffsetCommit version 9; older versions get UNSUPPORTED_VERSION."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert a.commit(("three", 0, 1), version=8) == [E.UNSUPPORTED_VERSION]


def test_an_empty_group_takes_commits_of_nobody() -> None:
    """An empty group accepts commits without a member and epoch, as administrators send them."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert a.leave() is E.NONE
    assert commit(context.broker, ("three", 0, 7)) == [E.NONE]
    assert a.commit(("three", 0, 8), generation_id_or_member_epoch=2) == [E.UNKNOWN_MEMBER_ID]
    context.check()


def test_a_member_of_the_classic_protocol_commits_with_a_generation() -> None:
    """A classic member commits with its generation at any version.

    Another generation gets ILLEGAL_GENERATION.
    """
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    as_classic(context, "a")
    assert a.commit(("three", 0, 7), version=7) == [E.NONE]
    for epoch in (1, 3):
        errors = a.commit(("three", 0, 8), generation_id_or_member_epoch=epoch)
        assert errors == [E.ILLEGAL_GENERATION]
    assert fetch_error(context, "a", 3) is E.ILLEGAL_GENERATION


def test_commits_in_transactions() -> None:
    """A transactional commit without a member is accepted; a member needs its epoch."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    group = context.group
    member: dict[str, Any] = {"member_id": "a", "generation_id_or_member_epoch": 2}
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({}, E.NONE),
        (member, E.NONE),
        (member | {"generation_id_or_member_epoch": 3}, E.STALE_MEMBER_EPOCH),
        (member | {"member_id": "x"}, E.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
    ]
    for fields, error in cases:
        assert group.check_transactional_commit(request(**fields)) is error
    as_classic(context, "a")
    stale = request(**member | {"generation_id_or_member_epoch": 1})
    assert context.group.check_transactional_commit(stale) is E.ILLEGAL_GENERATION
    assert a.leave() is E.NONE
    assert context.group.check_transactional_commit(request(member_id="x")) is E.NONE


@pytest.mark.parametrize(
    ("version", "error"), [(5, E.ILLEGAL_GENERATION), (6, E.STALE_MEMBER_EPOCH)]
)
def test_stale_epochs_in_transactions(version: int, error: ErrorCode) -> None:
    """Before version 6 of TxnOffsetCommit a stale epoch gets ILLEGAL_GENERATION."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    stale = request(member_id="a", generation_id_or_member_epoch=7)
    answers: list[Any] = []
    effects = SimpleNamespace(reply=lambda _, answer: answers.append(answer))
    reply = SimpleNamespace(caller=SimpleNamespace(api_version=version))
    asked = TransactionalCommit("g", ProducerIdAndEpoch(1, 0), stale)
    commit_in_transaction(context.group, asked, cast(Any, reply), 0, cast(Any, effects))
    assert [one.error_code for one in answers[0].topics[0].partitions] == [error]


def test_who_may_fetch() -> None:
    """Members fetch with their epoch, other clients without member and epoch."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert fetch_error(context, None, -1) is E.NONE
    assert fetch_error(context, "a", 2) is E.NONE
    assert fetch_error(context, "a", 1) is E.STALE_MEMBER_EPOCH
    assert fetch_error(context, "x", 2) is E.UNKNOWN_MEMBER_ID
    assert fetch_error(context, "", 2) is E.UNKNOWN_MEMBER_ID
    assert fetch_error(context, None, 2) is E.UNKNOWN_SERVER_ERROR


def test_offsets_of_topics_that_members_read_do_not_expire() -> None:
    """Offsets of topics subscribed by name or pattern do not expire; all other offsets do."""
    context = ConsumerContext(consumer_session_timeout_ms=2 * WEEK_MS)
    a = context.member("a", "three", regex="o.*")
    context.joined(a)
    context.reconcile(a)
    assert a.commit(("three", 0, 1), ("one", 0, 2), ("two", 0, 3)) == [E.NONE] * 3
    context.broker.advance(WEEK_MS - 1)
    context.broker.expire_offsets()
    assert len(offsets(context.broker)) == 3
    context.broker.advance(1)
    context.broker.expire_offsets()
    assert offsets(context.broker) == {("three", 0): (1, ""), ("one", 0): (2, "")}
    assert context.state == "Stable"
    context.check()


def test_an_empty_group_ends_with_its_last_offset() -> None:
    """An empty group ends with its last offset, with tombstones for all its records."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert a.commit(("three", 0, 1)) == [E.NONE]
    assert a.leave() is E.NONE
    context.broker.advance(WEEK_MS)
    context.written()
    context.broker.expire_offsets()
    written = context.written()
    assert written[:2] == ["-offset", "-target epoch"]
    assert written[-1] == "-epoch"
    assert context.broker.any_group is None
    assert context.broker.event_names()[-2:] == ["offsets.expired", "group.expired"]


def test_offsets_of_topics_that_a_member_reads_are_not_deleted() -> None:
    """Offsets of a subscribed topic get GROUP_SUBSCRIBED_TO_TOPIC for each partition."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert a.commit(("three", 0, 1), ("one", 0, 2)) == [E.NONE] * 2
    response = offset_delete(context.broker, ("three", 0), ("one", 0))
    assert response.error_code == E.NONE
    errors = [one.error_code for topic in response.topics for one in topic.partitions]
    assert errors == [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE]
    assert offsets(context.broker) == {("three", 0): (1, "")}
    context.check()


def test_a_group_is_deleted_without_members_only() -> None:
    """Only a group without members can be deleted; all its records get tombstones.

    A later group with the same name starts without state.
    """
    context = ConsumerContext()
    a = context.member("a", "three", regex="o.*")
    context.joined(a)
    context.reconcile(a)
    assert a.commit(("three", 0, 1)) == [E.NONE]
    assert context.broker.delete().error is E.NON_EMPTY_GROUP
    assert a.leave() is E.NONE
    assert context.broker.delete().error is E.NONE
    assert context.broker.any_group is None
    assert context.broker.replayed().is_blank
    assert a.join().error is E.NONE
    assert context.epochs == (3, 2)
    context.check()


def test_a_group_with_records_cannot_end() -> None:
    """A group ends in two steps: its tombstones make it a classic group, which then ends."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    with pytest.raises(AssertionError):
        context.group.end(Trigger.GROUP_DELETED, 0, Effects())
