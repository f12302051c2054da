"""Responses without a group: unknown groups, errors, older versions."""

import pytest

from coordinator_server.core.groups.classic import join_group
from coordinator_server.core.groups.offset_commit import creates_group
from coordinator_server.core.groups.settings import GroupKind
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import OneGroupBroker
from tests.unit.core.groups.consumer.context import ConsumerContext
from tests.unit.core.groups.context import GroupContext, commit, leave
from tests.unit.core.groups.streams.context import StreamsContext

E = ErrorCode


def test_which_requests_make_a_group() -> None:
    """A join without a member id and a commit without a generation create a group."""
    assert join_group.creates_group(JoinGroupRequest())
    assert not join_group.creates_group(JoinGroupRequest(member_id="m"))
    assert creates_group(OffsetCommitRequest())
    assert not creates_group(OffsetCommitRequest(generation_id_or_member_epoch=0))


def unloaded() -> OneGroupBroker:
    """Return a broker that does not coordinate the group."""
    broker = OneGroupBroker()
    broker.unload()
    return broker


def test_a_commit_refused_as_a_whole() -> None:
    """A refused commit has the error on every existing partition; other partitions are unknown."""
    partitions = [OffsetCommitRequestPartition(partition_index=index) for index in (0, 2, 3)]
    topics = [OffsetCommitRequestTopic(name="three", partitions=partitions)]
    request = OffsetCommitRequest(group_id="g", topics=topics)
    (topic,) = unloaded().send(request, 8).response.topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (3, E.UNKNOWN_TOPIC_OR_PARTITION),
        (0, E.NOT_COORDINATOR),
        (2, E.NOT_COORDINATOR),
    ]


def test_a_fetch_refused_as_a_whole() -> None:
    """A refused fetch has the error per partition (v1), at the top (v2-7), or per group (v8+)."""
    broker = unloaded()
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 3])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    (refused,) = broker.send(request, 1).response.topics
    assert [
        (one.partition_index, one.committed_offset, one.error_code) for one in refused.partitions
    ] == [(0, -1, E.NOT_COORDINATOR), (3, -1, E.NOT_COORDINATOR)]
    response = broker.send(request, 2).response
    assert (response.error_code, response.topics) == (E.NOT_COORDINATOR, [])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[])])
    (group,) = broker.send(request, 8).response.groups
    assert (group.group_id, group.error_code, group.topics) == ("g", E.NOT_COORDINATOR, [])
    nothing = OffsetFetchRequest(group_id="g", topics=None)
    assert broker.send(nothing, 1).response.topics == []


@pytest.mark.parametrize("is_there", [False, True])
def test_the_empty_group_id(is_there: bool) -> None:
    """The empty group id accepts only commits; members are refused even if the group exists."""
    context = GroupContext()
    if is_there:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
        topics = [OffsetCommitRequestTopic(name="one", partitions=partitions)]
        request = OffsetCommitRequest(group_id="", topics=topics)
        (topic,) = context.broker.send(request, 8).response.topics
        assert topic.partitions[0].error_code == E.NONE
        assert "" in context.broker.groups.tasks
    member = context.member("A")
    assert member.heartbeat(group_id="") is E.INVALID_GROUP_ID
    left = leave(context.broker, (member.id, None), group_id="").response
    assert (left.error_code, left.members) == (E.INVALID_GROUP_ID, [])
    assert member.join(group_id="").error is E.INVALID_GROUP_ID
    assert member.sync(group_id="").error is E.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [5, 6])
def test_groups_that_another_broker_coordinates(version: int) -> None:
    """DescribeGroups and DeleteGroups return NOT_COORDINATOR per group."""
    broker = unloaded()
    assert broker.describe(version).error_code == E.NOT_COORDINATOR
    assert broker.delete().error is E.NOT_COORDINATOR


def test_a_commit_of_nothing_that_exists_makes_no_group() -> None:
    """A commit of only nonexistent partitions does not reach the coordinator, as in Kafka."""
    broker = OneGroupBroker()
    assert commit(broker, ("nowhere", 0, 1)) == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert not broker.groups.tasks


def test_requests_of_a_protocol_that_is_off() -> None:
    """Requests of a disabled protocol are refused before any other check.

    group.coordinator.rebalance.protocols is `classic` here.
    """
    only_classic = frozenset({GroupKind.CLASSIC})
    consumers = ConsumerContext(protocols=only_classic)
    answer = consumers.member("a", "one").join(rebalance_timeout_ms=-1).response
    assert (answer.error_code, answer.error_message) == (E.UNSUPPORTED_VERSION, None)
    assert consumers.describe().error_code == E.UNSUPPORTED_VERSION
    streams = StreamsContext(protocols=only_classic)
    answer = streams.member("a").join(rebalance_timeout_ms=-1).response
    assert (answer.error_code, answer.error_message) == (E.UNSUPPORTED_VERSION, None)
    assert streams.describe().error_code == E.UNSUPPORTED_VERSION
