"""OffsetCommit and OffsetFetch of version 10 (topics by id): records and state.

`tests/conformance/scenarios/topic_ids.py` has Kafka's responses.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.offsets import CommittedOffset
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
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.schema import ZERO_UUID
from tests.harness.groups import GroupBroker

UNKNOWN = bytes([7]) * 16


def id_of(broker: GroupBroker) -> bytes:
    """Return the id of topic `t`."""
    topic = broker.topics.topic("t")
    assert topic is not None
    return topic.topic_id


def commit(topic: OffsetCommitRequestTopic, **fields: Any) -> OffsetCommitRequest:
    """Return a standalone commit of offset 5 for partition 0 of a topic."""
    topic.partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    return OffsetCommitRequest(group_id="g", topics=[topic], **fields)


def fetched(
    broker: GroupBroker, version: int, topics: list[OffsetFetchRequestTopics] | None
) -> list[tuple[str | bytes, int]]:
    """Return the name (since version 10: the id) and the only offset of each topic."""
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer = broker.ask(OffsetFetchRequest(groups=[group]), version)
    topics_found = []
    for one in answer.groups[0].topics:
        (partition,) = one.partitions
        assert partition.error_code == ErrorCode.NONE
        topics_found.append((one.name or one.topic_id, partition.committed_offset))
    return topics_found


def stored(broker: GroupBroker) -> CommittedOffset:
    """Return the stored offset of group `g` for partition 0 of `t`."""
    group = broker.groups.tasks["g"].group
    return group.offsets.by_topic["t"][0]


@pytest.mark.parametrize("version", [8, 10])
def test_a_committed_offset_keeps_the_id_of_its_topic(version: int) -> None:
    """Records carry the topic id whether the request has a name or an id, as in Kafka 4.3."""
    broker = GroupBroker()
    named = OffsetCommitRequestTopic(name="t")
    by_id = OffsetCommitRequestTopic(topic_id=id_of(broker))
    broker.ask(commit(by_id if version == 10 else named), version)
    assert stored(broker).topic_id == id_of(broker)


def test_an_offset_that_expires_has_no_topic_id() -> None:
    """An offset with an expiry time is written as version 1, without a topic id.

    The state in memory matches the log.
    """
    broker = GroupBroker()
    request = commit(OffsetCommitRequestTopic(name="t"), retention_time_ms=1000)
    broker.ask(request, 4)
    assert stored(broker).topic_id == ZERO_UUID


def test_offsets_of_another_topic_of_that_name_are_not_those_of_the_id() -> None:
    """An offset committed for another topic id is not found by id, only by name."""
    broker = GroupBroker()
    broker.commit("g", 5)
    other = OffsetCommitValue(offset=9, topic_id=UNKNOWN)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    broker.groups.tasks["g"].group.replay((key, other))
    topic_id = id_of(broker)
    by_id = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
    by_name = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    assert fetched(broker, 10, [by_id]) == [(topic_id, -1)]
    assert fetched(broker, 9, [by_name]) == [("t", 9)]
    assert fetched(broker, 10, None) == [(topic_id, 9)]


def test_offsets_written_without_an_id_are_those_of_any() -> None:
    """Offsets that older brokers wrote without an id match every id."""
    broker = GroupBroker()
    broker.commit("g", 5)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    broker.groups.tasks["g"].group.replay((key, OffsetCommitValue(offset=9)))
    by_id = OffsetFetchRequestTopics(topic_id=id_of(broker), partition_indexes=[0])
    assert fetched(broker, 10, [by_id]) == [(id_of(broker), 9)]


def test_offsets_of_a_topic_that_does_not_exist_have_no_id() -> None:
    """Version 10 omits offsets of nonexistent topics if all topics are requested.

    Older versions return them.
    """
    broker = GroupBroker()
    broker.commit("g", 5)
    key = OffsetCommitKey(group="g", topic="gone", partition=0)
    broker.groups.tasks["g"].group.replay((key, OffsetCommitValue(offset=9, topic_id=UNKNOWN)))
    assert fetched(broker, 10, None) == [(id_of(broker), 5)]
    assert dict(fetched(broker, 9, None)) == {"gone": 9, "t": 5}


def test_a_refused_group_keeps_the_ids_of_a_commit() -> None:
    """A NOT_COORDINATOR response keeps the ids of a commit, and has no topics for a fetch."""
    broker = GroupBroker()
    broker.groups.stop()
    topic = OffsetCommitRequestTopic(topic_id=id_of(broker))
    answer = broker.ask(commit(topic), 10)
    (answered,) = answer.topics
    assert answered.topic_id == id_of(broker)
    assert answered.partitions[0].error_code != ErrorCode.NONE
    unknown = OffsetFetchRequestTopics(topic_id=UNKNOWN, partition_indexes=[0])
    assert fetched(broker, 10, [unknown]) == []
