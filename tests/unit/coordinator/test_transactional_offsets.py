"""Transactional offset commits, from the request to the group and its log."""

from __future__ import annotations

import pytest

from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import DEAD
from protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.errors import ErrorCode as E
from tests.harness.transactions import V1, V2, Producer, TransactionBroker

GROUP = "g"
UNSTABLE = "unstable"


def add_offsets(broker: TransactionBroker, producer: Producer, group: str = GROUP) -> E:
    """Send AddOffsetsToTxn; return the error."""
    request = AddOffsetsToTxnRequest(
        transactional_id="id",
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )
    return E(broker.ask(request, 3).error_code)


def commit_request(
    producer: Producer, *offsets: int, group: str = GROUP, member: str = "", generation: int = -1
) -> TxnOffsetCommitRequest:
    """Return a TxnOffsetCommit of the first partitions of "t"."""
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in enumerate(offsets)
    ]
    return TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )


def commit(broker: TransactionBroker, request: TxnOffsetCommitRequest, version: int = 3) -> E:
    """Return the error of the first partition."""
    answer = broker.ask(request, version)
    return E(answer.topics[0].partitions[0].error_code)


def pending(broker: TransactionBroker, *offsets: int) -> Producer:
    """Return a producer with these offsets in its open transaction."""
    producer = broker.init()
    assert add_offsets(broker, producer) is E.NONE
    assert commit(broker, commit_request(producer, *offsets)) is E.NONE
    return producer


def fetched(
    broker: TransactionBroker, *, stable: bool = True, group: str = GROUP
) -> list[int | str]:
    """Return the offsets of partitions 0 and 1, or the error of an unstable offset."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
    )
    answer = broker.ask(request, 8)
    return [
        UNSTABLE if one.error_code == E.UNSTABLE_OFFSET_COMMIT else one.committed_offset
        for one in answer.groups[0].topics[0].partitions
    ]


def restarted(broker: TransactionBroker, *, clean: bool = False) -> TransactionBroker:
    """Return the broker after a kill, or after a clean stop with its snapshots."""
    if clean:
        broker.transactions.stop()
        broker.groups.stop()
        broker.topics.close()
    broker.disk.processes_died()
    again = TransactionBroker(broker.disk)
    again.turn()
    return again


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_with_the_commit(version: int, commits: bool) -> None:
    """Pending offsets are visible after the commit; until then require_stable gets an error."""
    broker = TransactionBroker()
    broker.commit(GROUP, 5)
    producer = pending(broker, 10)
    assert fetched(broker, stable=False) == [5, -1]
    assert fetched(broker) == [UNSTABLE, -1]
    broker.end(producer, commits=commits, version=version)
    assert fetched(broker) == [10 if commits else 5, -1]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("commits", [True, False])
def test_pending_offsets_survive_a_restart(clean: bool, commits: bool) -> None:
    """Pending offsets survive a restart, from log or snapshot, and end with their transaction."""
    broker = TransactionBroker()
    broker.commit(GROUP, 5)
    producer = pending(broker, 10, 20)
    broker.commit(GROUP, 6)  # this plain commit replaces the first pending offset
    before = broker.groups.tasks[GROUP].group.offsets
    broker = restarted(broker, clean=clean)
    assert broker.groups.tasks[GROUP].group.offsets == before
    assert fetched(broker) == [UNSTABLE, UNSTABLE]
    broker.end(producer, commits=commits)
    assert fetched(broker) == [6, 20 if commits else -1]
    after = broker.groups.tasks[GROUP].group.offsets
    assert (restarted(broker)).groups.tasks[GROUP].group.offsets == after


def test_a_group_of_pending_offsets_alone_survives_a_restart() -> None:
    """A group with only pending offsets survives a restart, is listed, and can end."""
    broker = TransactionBroker()
    producer = pending(broker, 10)
    for clean in (False, True):
        broker = restarted(broker, clean=clean)
        assert fetched(broker) == [UNSTABLE, -1]
    broker.end(producer)
    assert fetched(broker) == [10, -1]


def test_version_5_adds_the_group_by_itself() -> None:
    """TxnOffsetCommit 5 needs no AddOffsetsToTxn (KIP-890)."""
    broker = TransactionBroker()
    producer = broker.init()
    assert commit(broker, commit_request(producer, 10), 5) is E.NONE
    broker.end(producer, version=V2)
    assert fetched(broker) == [10, -1]


@pytest.mark.parametrize(("version", "error"), [(3, E.INVALID_TXN_STATE), (4, 120)])
def test_a_group_that_was_not_added_is_refused(version: int, error: int) -> None:
    """Offsets of a group that was not added are refused: they would stay pending for ever."""
    broker = TransactionBroker()
    producer = broker.init()
    broker.add(producer, 0)
    assert commit(broker, commit_request(producer, 10), version) == error
    assert fetched(broker) == [-1, -1]


def test_a_group_that_cannot_be_served_at_first_gets_nothing_unverified() -> None:
    """If the offsets topic cannot be created, a commit is refused and no offset is pending."""
    broker = TransactionBroker()
    producer = broker.init()
    broker.disk.fail_at(0)
    error = commit(broker, commit_request(producer, 10), 5)
    assert error is E.COORDINATOR_NOT_AVAILABLE
    assert fetched(broker) == [-1, -1]
    assert commit(broker, commit_request(producer, 10), 5) is E.NONE


def test_an_end_that_comes_right_behind_a_commit_takes_it_with_it() -> None:
    """A commit in the group's mailbox is written before an EndTxn that follows it."""
    broker = TransactionBroker()
    producer = broker.init()
    add_offsets(broker, producer)
    answer = broker.send(commit_request(producer, 10), 3)
    assert not answer.replies
    assert broker.end(producer).error_code == E.NONE
    assert answer.replies
    assert fetched(broker) == [10, -1]


def test_the_later_of_two_transactions_counts() -> None:
    """If two transactions wrote an offset, the later record wins, in either order of commits."""
    broker = TransactionBroker()
    first = pending(broker, 10)
    other = broker.init("other")
    request = commit_request(other, 20)
    request.transactional_id = "other"
    assert commit(broker, request, 5) is E.NONE
    broker.end(other, transactional_id="other", version=V2)
    assert fetched(broker) == [UNSTABLE, -1]
    assert fetched(broker, stable=False) == [20, -1]
    broker.end(first)
    assert fetched(broker) == [20, -1]


def test_members_of_the_generation_may_commit() -> None:
    """A transactional commit with a wrong generation or unknown member is refused.

    Without a member id any commit succeeds.
    """
    broker = TransactionBroker()
    member = broker.join(GROUP)
    producer = broker.init()
    add_offsets(broker, producer)
    for name, generation, error in (
        (member, 1, E.NONE),
        (member, 2, E.ILLEGAL_GENERATION),
        ("ghost", 1, E.UNKNOWN_MEMBER_ID),
        ("", 1, E.UNKNOWN_MEMBER_ID),
        (member, -1, E.ILLEGAL_GENERATION),
        ("", -1, E.NONE),
    ):
        request = commit_request(producer, 10, member=name, generation=generation)
        assert commit(broker, request) is error, (name, generation)


def test_a_group_that_has_ended_takes_nothing() -> None:
    """A Dead group refuses every transactional commit with COORDINATOR_NOT_AVAILABLE."""
    broker = TransactionBroker()
    broker.commit(GROUP, 5)
    group = broker.classic(GROUP)
    group.transition_to(DEAD, 0)
    request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1)
    assert group.check_transactional_commit(request) is E.COORDINATOR_NOT_AVAILABLE


def test_a_group_that_does_not_exist() -> None:
    """A commit without a generation creates the group; a commit with a generation is refused.

    An empty group id is invalid.
    """
    broker = TransactionBroker()
    producer = broker.init()
    add_offsets(broker, producer)
    illegal = commit_request(producer, 10, member="m", generation=1)
    assert commit(broker, illegal) is E.ILLEGAL_GENERATION
    assert commit(broker, by_id(broker, illegal), 6) is E.GROUP_ID_NOT_FOUND
    assert commit(broker, commit_request(producer, 10, group="")) is E.INVALID_GROUP_ID
    assert commit(broker, commit_request(producer, 10)) is E.NONE


def by_id(broker: TransactionBroker, request: TxnOffsetCommitRequest) -> TxnOffsetCommitRequest:
    """Replace the topic names of the request by ids, and return the request."""
    for topic in request.topics:
        known = broker.topics.topic(topic.name)
        assert known is not None
        topic.name, topic.topic_id = "", known.topic_id
    return request


def test_topics_by_id() -> None:
    """Since version 6 topics have ids; an unknown id or partition has its own error."""
    broker = TransactionBroker()
    producer = broker.init()
    request = by_id(broker, commit_request(producer, 10, 20))
    topic_id, unknown_id = request.topics[0].topic_id, b"?" * 16
    partitions = request.topics[0].partitions
    absent = TxnOffsetCommitRequestPartition(partition_index=99)
    request.topics = [
        TxnOffsetCommitRequestTopic(topic_id=unknown_id, partitions=partitions[:1]),
        TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=[*partitions, absent]),
    ]
    answer = broker.ask(request, 6)
    errors = {
        topic.topic_id: {one.partition_index: E(one.error_code) for one in topic.partitions}
        for topic in answer.topics
    }
    assert errors == {
        unknown_id: {0: E.UNKNOWN_TOPIC_ID},
        topic_id: {0: E.NONE, 1: E.NONE, 99: E.UNKNOWN_TOPIC_OR_PARTITION},
    }
    broker.end(producer, commits=True, version=V2)
    assert fetched(broker) == [10, 20]


def test_expiry_leaves_pending_offsets_and_their_group_alone() -> None:
    """Pending offsets and their group expire only after their transaction has ended."""
    broker = TransactionBroker(offsets_retention_minutes="1")
    broker.commit(GROUP, 5)
    producer = pending(broker, 10)
    broker.clock.time_ms += 50_000  # 50 s are shorter than the transaction's timeout
    for _ in range(2):
        broker.clock.time_ms += 20_000
        broker.groups.expire_offsets()
        broker.turn()
        assert GROUP in broker.groups.tasks
    assert fetched(broker, stable=False) == [5, -1]
    broker.end(producer, commits=False)
    broker.groups.expire_offsets()
    broker.turn()
    assert GROUP not in broker.groups.tasks


def test_deleted_offsets_take_pending_ones_with_them() -> None:
    """OffsetDelete and DeleteGroups also remove pending offsets; a commit does not restore them."""
    for api in ("OffsetDelete", "DeleteGroups"):
        broker = TransactionBroker()
        producer = pending(broker, 10)
        if api == "OffsetDelete":
            partition = OffsetDeleteRequestPartition(partition_index=0)
            topic = OffsetDeleteRequestTopic(name="t", partitions=[partition])
            answer = broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=[topic]), 0)
            assert answer.error_code == E.NONE
        else:
            broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
            assert GROUP not in broker.groups.tasks
        broker.end(producer)
        assert fetched(broker) == [-1, -1]
        assert fetched(restarted(broker)) == [-1, -1]


def test_a_deleted_topic_takes_pending_offsets_with_it() -> None:
    """Deleting a topic removes its stored and pending offsets."""
    broker = TransactionBroker()
    producer = pending(broker, 10, 20)
    topic = broker.topics.topic("t")
    assert topic is not None
    for _ in broker.topics.delete([topic]):
        pass
    broker.turn()
    broker.end(producer)
    assert fetched(broker) == [-1, -1]


def test_the_marker_waits_for_a_group_that_is_busy() -> None:
    """A group in a long operation delays the marker of its partition; the marker is retried."""
    broker = TransactionBroker()
    producer = pending(broker, 10)
    task = broker.groups.tasks[GROUP]
    task._large = object()  # type: ignore[assignment]  # a fake large operation
    assert broker.end(producer) is None
    task._large = None
    broker.advance(200)
    assert fetched(broker) == [10, -1]


def test_a_snapshot_holds_what_is_pending() -> None:
    """A snapshot has pending offsets in log order, with metadata and epoch.

    The snapshot includes superseded offsets.
    """
    broker = TransactionBroker()
    pending(broker, 10, 20)
    broker.commit(GROUP, 6)
    group = broker.groups.tasks[GROUP].group
    decoding = Decoding(encode_groups([group]), lambda name: GroupMetadata(name, group.environment))
    for _ in decoding.steps():
        pass
    assert decoding.groups[GROUP].offsets == group.offsets
    assert not decoding.groups[GROUP].is_new
