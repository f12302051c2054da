"""OffsetFetch: committed offsets, by every version and by group."""

import pytest

from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.errors import ErrorCode
from protocol.schema import dispose
from tests.unit.core.groups.context import (
    GroupContext,
    commit,
    commit_answer,
    fetch,
    offset_delete,
)

E = ErrorCode


@pytest.mark.parametrize("version", range(1, 8))
def test_fetch_named_partitions(version: int) -> None:
    """OffsetFetch without a commit returns -1 and no error, also for unknown topics and groups."""
    context = GroupContext()
    for expected in (-1, 7):
        response = fetch(context.broker, "three", 0, 2, -1, version=version)
        (topic,) = response.topics
        assert [one.committed_offset for one in topic.partitions] == [expected, -1, -1]
        assert {one.error_code for one in topic.partitions} == {E.NONE}
        assert {one.committed_leader_epoch for one in topic.partitions} == {-1}
        commit(context.broker, ("three", 0, 7))
    assert fetch(context.broker, "nope", 0, version=version).topics[0].name == "nope"


def test_fetch_by_group() -> None:
    """Since v8 the response is per group; an empty list does not mean all topics."""
    context = GroupContext()
    commit(context.broker, ("three", 1, 7, "m"))
    wanted = OffsetFetchRequestTopics(name="three", partition_indexes=[1])
    for topics, found in (([wanted], 1), ([], 0), (None, 1)):
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        response = context.broker.send(OffsetFetchRequest(groups=[group]), 9).response
        assert (response.groups[0].group_id, len(response.groups[0].topics)) == ("g", found)


def test_commit_and_fetch_in_one_drain() -> None:
    """A fetch returns the offsets in the log, not the offsets of pending writes."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    with context.broker.one_drain():
        commit_answer(context.broker, ("one", 0, 2))
        request = OffsetFetchRequest(group_id="g", topics=None)
        answer = context.broker.send(request, 7)
    assert answer.response.topics[0].partitions[0].committed_offset == 1


def test_an_answer_is_kept_until_an_offset_changes() -> None:
    """Equal fetches share a response until a commit or a deletion changes an offset."""
    context = GroupContext()
    broker = context.broker

    def answer(*indexes: int) -> OffsetFetchResponse:
        topic = OffsetFetchRequestTopics(name="three", partition_indexes=list(indexes))
        group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
        response = broker.send(OffsetFetchRequest(groups=[group]), 9).response
        assert isinstance(response, OffsetFetchResponse)
        return response

    def fetched(*indexes: int) -> list[int]:
        (topic,) = answer(*indexes).groups[0].topics
        return [partition.committed_offset for partition in topic.partitions]

    commit(broker, ("three", 0, 7))
    assert fetched(0, 1) == [7, -1]
    assert answer(0, 1) is answer(0, 1)
    assert answer(0, 1) is not answer(1, 0)
    assert fetched(1, 0) == [-1, 7]
    commit(broker, ("three", 1, 8))
    assert fetched(0, 1) == [7, 8]
    offset_delete(broker, ("three", 0))
    assert fetched(0, 1) == [-1, 8]


def test_a_kept_answer_is_whole_after_its_request_is_disposed() -> None:
    """A cached response stays complete after its request is disposed: no list is shared."""
    context = GroupContext()
    commit(context.broker, ("three", 1, 8))
    answers = []
    for _ in range(2):
        topic = OffsetFetchRequestTopics(name="three", partition_indexes=[0, 1])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
        answers.append(context.broker.send(request, 9).response)
        for _ in dispose(request):
            pass
    assert answers[0] is answers[1]
    partitions = answers[1].groups[0].topics[0].partitions
    assert [(one.partition_index, one.committed_offset) for one in partitions] == [(0, -1), (1, 8)]


def test_offsets_with_metadata_are_answered_as_others() -> None:
    """One response can have offsets with and without metadata; a missing offset has no metadata."""
    context = GroupContext()
    commit(context.broker, ("three", 0, 7, "seven"), ("three", 1, 8, ""))
    topic = OffsetFetchRequestTopics(name="three", partition_indexes=[0, 1, 2])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    response = context.broker.send(OffsetFetchRequest(groups=[group]), 9).response
    partitions = response.groups[0].topics[0].partitions
    assert [(one.committed_offset, one.metadata) for one in partitions] == [
        (7, "seven"),
        (8, ""),
        (-1, ""),
    ]
