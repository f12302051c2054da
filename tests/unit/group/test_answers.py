"""Answers that need no group: requests refused before, errors, older versions."""

from coordinator_server.group.admission import creates_group
from coordinator_server.group.offset_fetch import fetch_groups, fetch_response
from coordinator_server.group.responses import commit_error, fetch_error
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.errors import ErrorCode

E = ErrorCode


def test_who_makes_a_group() -> None:
    """A join without id, and a commit without generation."""
    assert creates_group(JoinGroupRequest())
    assert not creates_group(JoinGroupRequest(member_id="m"))
    assert creates_group(OffsetCommitRequest())
    assert not creates_group(OffsetCommitRequest(generation_id_or_member_epoch=0))


def test_a_commit_refused_as_a_whole() -> None:
    """Every partition has the error."""
    partitions = [OffsetCommitRequestPartition(partition_index=index) for index in (0, 3)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    response = commit_error(OffsetCommitRequest(topics=topics), E.NOT_COORDINATOR)
    (topic,) = response.topics
    assert topic.name == "t"
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, E.NOT_COORDINATOR),
        (3, E.NOT_COORDINATOR),
    ]


def test_a_fetch_refused_as_a_whole() -> None:
    """v1 puts the error on each partition, v2..7 at the top, v8+ on the group."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 3])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    assert [one.group_id for one in fetch_groups(request, 7)] == ["g"]
    refused = [fetch_error("g", E.NOT_COORDINATOR)]
    partitions = fetch_response(request, refused, 1).topics[0].partitions
    assert [(one.partition_index, one.committed_offset, one.error_code) for one in partitions] == [
        (0, -1, E.NOT_COORDINATOR),
        (3, -1, E.NOT_COORDINATOR),
    ]
    assert fetch_response(request, refused, 2).error_code == E.NOT_COORDINATOR
    assert fetch_response(request, refused, 8).groups == refused
    nothing = OffsetFetchRequest(group_id="g", topics=None)
    assert fetch_response(nothing, refused, 1).topics == []
