"""The consumer of the console tool with a fake broker where some partitions cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.client import Client, ClientSettings
from coordinator_server.client.fetcher import Fetched, FetchSettings
from coordinator_server.client.group_member import MemberSettings
from coordinator_server.kafka_tools.record_consumer import ConsumerSettings, RecordConsumer
from protocol.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.apis.heartbeat import HeartbeatResponse
from protocol.apis.join_group import JoinGroupResponse
from protocol.apis.leave_group import LeaveGroupResponse
from protocol.apis.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.apis.sync_group import SyncGroupResponse
from protocol.batch import Record, build_batch
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.e2e.fake_broker import FakeBroker, fake, metadata

RANGES = {
    1: (4, 12),
    2: (1, 7),
    3: (0, 12),
    9: (1, 8),
    10: (0, 4),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    18: (0, 4),
}
BROKER, ABSENT = 5, 6
OFFSET = 7


def topics(broker: FakeBroker) -> MetadataResponse:
    """Return metadata of t: one partition has a leader, one has none, one leader is unreachable."""
    cluster = metadata(broker)
    led = [
        MetadataResponsePartition(partition_index=index, leader_id=leader)
        for index, leader in enumerate((BROKER, -1, ABSENT))
    ]
    gone = MetadataResponseTopic(name="gone", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.topics = [MetadataResponseTopic(name="t", partitions=led), gone]
    return cluster


def assignment() -> bytes:
    """Return an assignment of all partitions of `topics`."""
    owned = [
        TopicPartition(topic="t", partitions=[0, 1, 2]),
        TopicPartition(topic="gone", partitions=[0]),
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=owned))


def answer_of_a_group(broker: FakeBroker, name: str, request: Any) -> Message:
    """Return a group coordinator's response for a group with one member."""
    host, port = broker.address
    if name == "FindCoordinator":
        found = Coordinator(key=request.coordinator_keys[0], node_id=BROKER, host=host, port=port)
        return FindCoordinatorResponse(coordinators=[found])
    if name == "OffsetFetch":
        groups = [OffsetFetchResponseGroup(group_id="g")]
        return OffsetFetchResponse(groups=groups)
    return {
        "JoinGroup": JoinGroupResponse(generation_id=1, leader="other", member_id="m"),
        "SyncGroup": SyncGroupResponse(assignment=assignment()),
        "Heartbeat": HeartbeatResponse(),
        "LeaveGroup": LeaveGroupResponse(),
    }[name]


class Leader:
    """Answers for the leader of one partition with a record; fails if asked for another partition.

    With `committed` the group's committed offset is out of range, and the first ListOffsets returns
    OFFSET_NOT_AVAILABLE.
    """

    def __init__(self, committed: int | None = None) -> None:
        self._committed = committed
        self._looked_up = 0
        self.fetched_at: list[int] = []
        self.broker: FakeBroker | None = None

    def answer(self, name: str, _: int, request: Any) -> Message:
        """Return the response to a request."""
        assert self.broker is not None
        if name == "Metadata":
            return topics(self.broker)
        if name == "ListOffsets":
            return self._list_offsets(request)
        if name == "Fetch":
            return self._fetch(request)
        if name == "OffsetFetch" and self._committed is not None:
            partition = OffsetFetchResponsePartitions(
                partition_index=0, committed_offset=self._committed
            )
            topic = OffsetFetchResponseTopics(name="t", partitions=[partition])
            groups = [OffsetFetchResponseGroup(group_id="g", topics=[topic])]
            return OffsetFetchResponse(groups=groups)
        return answer_of_a_group(self.broker, name, request)

    def _list_offsets(self, request: Any) -> Message:
        (topic,) = request.topics
        assert [(topic.name, part.partition_index) for part in topic.partitions] == [("t", 0)]
        self._looked_up += 1
        is_early = self._committed is not None and self._looked_up == 1
        code = ErrorCode.OFFSET_NOT_AVAILABLE if is_early else ErrorCode.NONE
        offset = ListOffsetsPartitionResponse(partition_index=0, offset=OFFSET, error_code=code)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[offset])])

    def _fetch(self, request: Any) -> Message:
        self.fetched_at.append(request.topics[0].partitions[0].fetch_offset)
        data = PartitionData(partition_index=0, high_watermark=OFFSET + 1)
        if self.fetched_at[-1] == OFFSET:
            data.records = build_batch([Record(OFFSET, 0, None, b"x")]).to_bytes()
        else:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def receive(leader: Leader, *subscribed: str) -> Fetched:
    """Return the first record that a consumer of the group receives."""
    with fake(RANGES, leader.answer) as broker:
        leader.broker = broker
        settings = ConsumerSettings(MemberSettings("g"), FetchSettings(), is_auto_commit=False)
        consumer = RecordConsumer(
            lambda: Client("{}:{}".format(*broker.address), ClientSettings()),
            settings,
            lambda *_: None,
        )
        consumer.subscribe(subscribed)
        fetched = consumer.receive(10.0)
        consumer.close()
    return fetched


@pytest.mark.parametrize("subscribed", [("t",), ("t", "gone")])
def test_what_cannot_be_read_holds_up_nothing_else(subscribed: tuple[str, ...]) -> None:
    """A missing topic or an unreachable leader does not block other partitions."""
    fetched = receive(Leader(), *subscribed)
    assert (fetched.partition, fetched.next_offset) == (("t", 0), OFFSET + 1)


def test_an_offset_out_of_range_is_reset_for_good() -> None:
    """While a reset is pending, the consumer does not fetch from the committed offset again."""
    leader = Leader(committed=3)
    assert receive(leader, "t").next_offset == OFFSET + 1
    assert leader.fetched_at == [3, OFFSET]
