"""Requests that meet faults: errors, waits, dropped connections, and the parts still served."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.metadata import MetadataRequest
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
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch_header import crc_is_valid, iterate_batches
from protocol.errors import ErrorCode
from tests.harness.client import Client
from tests.harness.groups import GroupBroker, join_request
from tests.harness.records import batch

TWO_PARTITIONS = 2


def commit(offset: int, partitions: int = TWO_PARTITIONS, group: str = "g") -> OffsetCommitRequest:
    """Return an OffsetCommit request for the first partitions of topic t."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index in range(partitions)
                ],
            )
        ],
    )


def errors(response: Any) -> dict[int, ErrorCode]:
    """Return the error codes of an OffsetCommit response by partition; it has one topic."""
    assert len(response.topics) == 1
    return {
        partition.partition_index: ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


@pytest.fixture
def broker() -> GroupBroker:
    """Return a broker with a topic."""
    return GroupBroker()


def test_an_error_is_answered_and_the_work_is_not_done(broker: GroupBroker) -> None:
    """A refused commit stores no offset; after `times` requests commits succeed."""
    broker.commit("g", 5)
    rule = broker.faults.add({"api": "OffsetCommit", "error": "NOT_COORDINATOR", "times": 2})
    for _ in range(2):
        response = broker.ask(commit(9))
        assert set(errors(response).values()) == {ErrorCode.NOT_COORDINATOR}
        assert broker.committed("g") == 5
    assert rule.is_over
    assert rule.taken == 2
    assert broker.commit("g", 9) == 0
    assert broker.committed("g") == 9


def test_only_the_named_partition_is_refused(broker: GroupBroker) -> None:
    """The other partitions of the request are committed, and the response has all partitions."""
    broker.faults.add(
        {"api": "OffsetCommit", "topic": "t", "partition": 1, "error": "OFFSET_METADATA_TOO_LARGE"}
    )
    assert errors(broker.ask(commit(9))) == {
        0: ErrorCode.NONE,
        1: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
    assert (broker.committed("g", 0), broker.committed("g", 1)) == (9, -1)


def test_each_element_has_the_error_of_the_first_rule_that_names_it(broker: GroupBroker) -> None:
    """Rules compose: one refuses a partition, the next one the rest of the topic."""
    broker.faults.add(
        {"api": "OffsetCommit", "topic": "t", "partition": 1, "error": "OFFSET_METADATA_TOO_LARGE"}
    )
    broker.faults.add({"api": "OffsetCommit", "topic": "t", "error": "TOPIC_AUTHORIZATION_FAILED"})
    assert errors(broker.ask(commit(9))) == {
        0: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        1: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }


def test_an_error_of_a_partition_does_not_fail_its_group(broker: GroupBroker) -> None:
    """In OffsetFetch, only the named partition has the error, not the group that contains it."""
    broker.commit("g", 5)
    broker.faults.add({"api": "OffsetFetch", "topic": "t", "error": "UNSTABLE_OFFSET_COMMIT"})
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = broker.ask(request).groups
    assert group.error_code == 0
    assert group.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.mark.parametrize("version", range(2, 10))
def test_a_topic_is_once_in_the_response(broker: GroupBroker, version: int) -> None:
    """The errors and the served partitions of a topic are in one entry, at every version."""
    broker.faults.add(
        {"api": "OffsetCommit", "topic": "t", "partition": 1, "error": "OFFSET_METADATA_TOO_LARGE"}
    )
    assert errors(broker.ask(commit(9), version)).keys() == {0, 1}


def test_each_partition_of_an_election_is_answered(broker: GroupBroker) -> None:
    """In ElectLeaders, one partition has the error of the rule, the other one its own result."""
    broker.faults.add(
        {"api": "ElectLeaders", "topic": "t", "partition": 1, "error": "NOT_CONTROLLER"}
    )
    topics = [TopicPartitions(topic="t", partitions=[0, 1])]
    response = broker.ask(ElectLeadersRequest(topic_partitions=topics))
    (result,) = response.replica_election_results
    assert {
        partition.partition_id: partition.error_code for partition in result.partition_result
    } == {
        0: ErrorCode.ELECTION_NOT_NEEDED,
        1: ErrorCode.NOT_CONTROLLER,
    }


def test_a_request_fails_whole_if_its_response_has_no_place_for_elements(
    broker: GroupBroker,
) -> None:
    """A ConsumerGroupHeartbeat that names the topic of a rule has the error."""
    (topic,) = broker.ask(MetadataRequest(topics=None)).topics
    owned = [OwnedTopicPartitions(topic_id=topic.topic_id, partitions=[0])]
    broker.faults.add({"api": "ConsumerGroupHeartbeat", "topic": "t", "error": "NOT_COORDINATOR"})
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1, topic_partitions=owned
    )
    assert broker.ask(request).error_code == ErrorCode.NOT_COORDINATOR


def test_only_the_named_group_is_refused(broker: GroupBroker) -> None:
    """A group that the rule does not name is deleted as requested."""
    broker.commit("g", 5)
    broker.commit("h", 5)
    broker.faults.add({"api": "DeleteGroups", "group": "h", "error": "NOT_COORDINATOR"})
    response = broker.ask(DeleteGroupsRequest(groups_names=["g", "h"]))
    assert {result.group_id: result.error_code for result in response.results} == {
        "g": ErrorCode.NONE,
        "h": ErrorCode.NOT_COORDINATOR,
    }
    assert (broker.committed("g"), broker.committed("h")) == (-1, 5)


def test_only_the_named_member_is_refused(broker: GroupBroker) -> None:
    """In LeaveGroup, the response has an error for one member."""
    broker.faults.add({"api": "LeaveGroup", "member": "b*", "error": "FENCED_INSTANCE_ID"})
    members = [MemberIdentity(member_id="a"), MemberIdentity(member_id="b")]
    response = broker.ask(LeaveGroupRequest(group_id="g", members=members))
    assert {member.member_id: member.error_code for member in response.members} == {
        "a": ErrorCode.UNKNOWN_MEMBER_ID,
        "b": ErrorCode.FENCED_INSTANCE_ID,
    }


@pytest.mark.parametrize(
    ("match", "is_refused"),
    [
        ({"group": "g"}, True),
        ({"group": "h"}, False),
        ({"group": "?"}, True),
        ({"group": "[g]"}, False),
        ({"member": "m-*"}, True),
        ({"member": "n-*"}, False),
        ({"client_id": "test"}, True),
        ({"client_id": "Test"}, False),
        ({"principal": "User:ANONYMOUS"}, True),
        ({"principal": "User:alice"}, False),
        ({"listener": "PLAINTEXT"}, True),
        ({"listener": "SSL"}, False),
        ({"version": 4}, True),
        ({"version": "0-3"}, False),
        ({"api": "JoinGroup,Heartbeat"}, True),
        ({"api": "JoinGroup"}, False),
        ({}, True),
    ],
)
def test_a_rule_matches_requests_by_their_fields(
    broker: GroupBroker, match: dict[str, Any], is_refused: bool
) -> None:
    """All given fields must match; a rule without fields matches every request."""
    broker.faults.add({**match, "error": "NOT_COORDINATOR"})
    response = broker.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m-1"), 4)
    expected = ErrorCode.NOT_COORDINATOR if is_refused else ErrorCode.UNKNOWN_MEMBER_ID
    assert response.error_code == expected


def test_a_removed_rule_has_no_effect(broker: GroupBroker) -> None:
    """After a rule was removed, its requests are served again."""
    rule = broker.faults.add({"api": "OffsetCommit", "error": "NOT_COORDINATOR"})
    broker.ask(commit(9))
    assert broker.faults.remove(rule.number) is rule
    assert broker.faults.remove(rule.number) is None
    assert broker.commit("g", 9) == 0


def test_skipped_requests_are_served_first(broker: GroupBroker) -> None:
    """With `skip`, the fault begins after that many matching requests."""
    broker.faults.add({"api": "OffsetCommit", "error": "NOT_COORDINATOR", "skip": 2, "times": 1})
    codes = [broker.commit("g", offset) for offset in range(4)]
    assert codes == [0, 0, ErrorCode.NOT_COORDINATOR, 0]


def test_a_seed_repeats_the_same_faults(broker: GroupBroker) -> None:
    """Rules with the same seed and probability refuse the same requests of a sequence."""
    rows = []
    for _ in range(2):
        rule = broker.faults.add(
            {"api": "OffsetCommit", "error": "NOT_COORDINATOR", "probability": 0.5, "seed": 7}
        )
        rows.append([broker.commit("g", offset) for offset in range(40)])
        broker.faults.remove(rule.number)
    assert rows[0] == rows[1]
    assert set(rows[0]) == {0, ErrorCode.NOT_COORDINATOR}


def test_a_rule_ends_after_its_time(broker: GroupBroker) -> None:
    """A rule with `for_ms` has no effect once the time has passed."""
    broker.faults.add({"api": "OffsetCommit", "error": "NOT_COORDINATOR", "for_ms": 1000})
    broker.advance(999)
    assert broker.commit("g", 5) == ErrorCode.NOT_COORDINATOR
    broker.advance(1)
    assert broker.commit("g", 5) == 0


def test_a_delayed_request_is_served_after_its_delay(broker: GroupBroker) -> None:
    """The work begins after the delay, and a client that has disconnected causes no work."""
    broker.faults.add({"api": "OffsetCommit", "delay_ms": 500, "times": 2})
    sent = broker.send(commit(5))
    gone = Client()
    broker.send(commit(7), client=gone)
    gone.close()
    broker.advance(499)
    assert not sent.answered
    assert broker.committed("g") == -1
    broker.advance(1)
    assert errors(sent.response)[0] == 0
    assert broker.committed("g") == 5


def test_jitter_adds_to_the_delay(broker: GroupBroker) -> None:
    """The delay is between `delay_ms` and `delay_ms` plus `jitter_ms`, by the seed."""
    rule = broker.faults.add({"delay_ms": 100, "jitter_ms": 50, "seed": 3})
    waits = {rule.with_jitter(rule.delay_ms) for _ in range(200)}
    assert min(waits) >= 100
    assert max(waits) <= 150
    assert len(waits) > 20


def test_a_late_response_is_sent_after_the_work(broker: GroupBroker) -> None:
    """With `late_ms`, the offset is committed at once, and the response follows later."""
    broker.faults.add({"api": "OffsetCommit", "late_ms": 500})
    sent = broker.send(commit(5))
    broker.turn()
    assert broker.committed("g") == 5
    assert not sent.answered
    broker.advance(500)
    assert errors(sent.response)[0] == 0


def test_a_connection_is_dropped_before_the_work(broker: GroupBroker) -> None:
    """Nothing is committed, and the client gets no response."""
    broker.faults.add({"api": "OffsetCommit", "drop": "before"})
    client = Client()
    sent = broker.send(commit(5), client=client)
    assert client.closed
    assert not sent.answered
    assert broker.committed("g") == -1


def test_a_connection_is_dropped_after_the_work(broker: GroupBroker) -> None:
    """The offset is committed, but the client gets no response."""
    broker.faults.add({"api": "OffsetCommit", "drop": "after"})
    client = Client()
    sent = broker.send(commit(5), client=client)
    broker.turn()
    assert client.closed
    assert not sent.answered
    assert broker.committed("g") == 5


class RawClient(Client):
    """A client that keeps the bytes of responses."""

    received = b""

    def hold(self) -> None:
        """Send no further request."""

    def answer(self, prefix: bytes, body: bytes | bytearray | list[bytes]) -> None:
        """Keep the bytes."""
        self.received += prefix + (b"".join(body) if isinstance(body, list) else bytes(body))


def test_a_cut_response_ends_in_the_middle(broker: GroupBroker) -> None:
    """The client gets the first half of the frame, whose length announces the whole."""
    whole, cut = RawClient(), RawClient()
    broker.send(MetadataRequest(topics=None), client=whole)
    broker.faults.add({"api": "Metadata", "cut": True})
    broker.send(MetadataRequest(topics=None), client=cut)
    assert cut.closed
    assert not whole.closed
    assert cut.received == whole.received[: len(whole.received) // 2]


def test_a_throttled_client_is_told_and_muted(broker: GroupBroker) -> None:
    """The response has the throttle time, and the connection is muted for it (KIP-219)."""
    muted = []

    class Muted(Client):
        def mute(self, throttle_ms: int) -> None:
            muted.append(throttle_ms)

    broker.faults.add({"api": "OffsetCommit", "throttle_ms": 300})
    sent = broker.send(commit(5), client=Muted())
    broker.turn()
    assert sent.response.throttle_time_ms == 300
    assert muted == [300]


def test_faults_of_several_rules_add_up(broker: GroupBroker) -> None:
    """One rule delays, the next one refuses, and a second delay is not counted."""
    first = broker.faults.add({"api": "OffsetCommit", "delay_ms": 100})
    second = broker.faults.add({"api": "OffsetCommit", "error": "NOT_COORDINATOR"})
    third = broker.faults.add({"api": "OffsetCommit", "delay_ms": 900})
    sent = broker.send(commit(5))
    broker.advance(100)
    assert errors(sent.response)[0] == ErrorCode.NOT_COORDINATOR
    assert [rule.taken for rule in (first, second, third)] == [1, 1, 0]


def produce(acks: int, partition: int = 0) -> ProduceRequest:
    """Return a Produce request of one record."""
    data = PartitionProduceData(index=partition, records=batch(b"v"))
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def test_an_error_of_an_unacknowledged_produce_closes_the_connection(broker: GroupBroker) -> None:
    """With acks=0 there is no response, so the connection is closed, as Kafka does."""
    broker.faults.add({"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
    client = Client()
    sent = broker.send(produce(0), 12, client=client)
    assert client.closed
    assert sent.ended_without_answer


def test_a_fetched_partition_fails_in_the_response(broker: GroupBroker) -> None:
    """The named partition has the error and no records; the other one has its records."""
    for partition in (0, 1):
        broker.ask(produce(1, partition), 12)
    rule = broker.faults.add(
        {"api": "Fetch", "topic": "t", "partition": 1, "error": "NOT_LEADER_OR_FOLLOWER"}
    )
    partitions = [FetchPartition(partition=index, partition_max_bytes=9999) for index in (0, 1)]
    request = FetchRequest(
        max_bytes=9999, topics=[FetchTopic(topic="t", partitions=partitions)], session_epoch=-1
    )
    response = broker.ask(request, 12)
    fetched = {data.partition_index: data for data in response.responses[0].partitions}
    assert fetched[0].error_code == 0
    assert fetched[0].records
    assert fetched[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not fetched[1].records
    assert rule.taken == 1


def test_a_removed_rule_does_not_fail_a_waiting_fetch(broker: GroupBroker) -> None:
    """A Fetch that waits when its rule is removed gets the records."""
    rule = broker.faults.add(
        {"api": "Fetch", "topic": "t", "partition": 0, "error": "NOT_LEADER_OR_FOLLOWER"}
    )
    partitions = [FetchPartition(partition=0, partition_max_bytes=9999)]
    sent = broker.send(
        FetchRequest(
            max_bytes=9999,
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchTopic(topic="t", partitions=partitions)],
            session_epoch=-1,
        ),
        12,
    )
    broker.faults.remove(rule.number)
    broker.ask(produce(1), 12)
    broker.turn()
    assert sent.response.responses[0].partitions[0].error_code == 0
    assert rule.taken == 0


def test_a_rule_of_another_topic_does_not_count_a_fetch(broker: GroupBroker) -> None:
    """A Fetch without the topic of the rule uses up neither `skip` nor `times`."""
    rule = broker.faults.add(
        {"api": "Fetch", "topic": "u", "error": "NOT_LEADER_OR_FOLLOWER", "skip": 1}
    )
    partitions = [FetchPartition(partition=0, partition_max_bytes=9999)]
    request = FetchRequest(
        max_bytes=9999, topics=[FetchTopic(topic="t", partitions=partitions)], session_epoch=-1
    )
    for _ in range(3):
        assert broker.ask(request, 12).responses[0].partitions[0].error_code == 0
    assert rule.taken == 0


def test_a_corrupt_batch_has_a_wrong_crc_in_the_response(broker: GroupBroker) -> None:
    """Only the first batch of the named partition is corrupt, and the log is not changed."""
    for partition in (0, 1, 1):
        broker.ask(produce(1, partition), 12)
    partitions = [FetchPartition(partition=index, partition_max_bytes=9999) for index in (0, 1)]
    request = FetchRequest(
        max_bytes=9999, topics=[FetchTopic(topic="t", partitions=partitions)], session_epoch=-1
    )
    broker.faults.add({"api": "Fetch", "topic": "t", "partition": 1, "corrupt": True, "times": 1})
    rows = []
    for _ in range(2):
        (topic,) = broker.ask(request, 12).responses
        rows.append(
            [
                crc_is_valid(data.records, header)
                for data in topic.partitions
                for header in iterate_batches(data.records)
            ]
        )
    assert rows == [[True, False, True], [True, True, True]]


def test_a_refused_join_does_not_change_the_group(broker: GroupBroker) -> None:
    """A JoinGroup that a rule refuses adds no member."""
    broker.faults.add({"api": "JoinGroup", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1})
    response = broker.ask(join_request("g"))
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.ask(join_request("g")).error_code == ErrorCode.MEMBER_ID_REQUIRED
