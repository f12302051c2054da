"""Metadata and DescribeCluster. The responses are those of a running Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.apis.delete_topics import DeleteTopicsRequest
from protocol.apis.describe_cluster import DescribeClusterRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION
NOT_ASKED = -(2**31)


def request(*names: str | None, ids: tuple[bytes, ...] = (), **fields: Any) -> MetadataRequest:
    """Return a request for topics by name and by id."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics, **fields)


def ask(broker: MemoryBroker, asked: MetadataRequest, version: int = 12) -> Any:
    """Return the response to a request."""
    return broker.ask(asked, version)


def errors(response: Any) -> list[tuple[str | None, int]]:
    """Return name and error of each topic."""
    return [(topic.name, topic.error_code) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
def test_a_topic_with_its_partitions(version: int) -> None:
    """At every version this broker is the leader, the only replica and in sync."""
    broker = MemoryBroker()
    made = broker.topics.create("t", 2, {})
    response = ask(broker, request("t"), version)
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [
        (1, "127.0.0.1", 9092)
    ]
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    assert topic.topic_id == (made.topic_id if version >= 10 else ZERO_UUID)
    assert [
        (one.error_code, one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in topic.partitions
    ] == [(0, 0, 1, [1], [1]), (0, 1, 1, [1], [1])]
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    if version >= 2:
        assert response.cluster_id == broker.cluster.cluster_id
    if version >= 1:
        assert response.controller_id == 1


def test_all_topics() -> None:
    """A null list requests all topics; an empty list requests none, or all topics in version 0."""
    broker = MemoryBroker()
    broker.topics.create("a", 1, {})
    broker.topics.create_internal("__consumer_offsets")
    everything = MetadataRequest(topics=None)
    response = ask(broker, everything)
    assert {(topic.name, topic.is_internal) for topic in response.topics} == {
        ("a", False),
        ("__consumer_offsets", True),
    }
    assert len(ask(broker, request(), 0).topics) == 2
    assert ask(broker, request(), 1).topics == []


@pytest.mark.parametrize("version", [0, 1, 3, 4, 5, 7, 13])
def test_an_asked_for_topic_is_created(version: int) -> None:
    """A topic that the request creates is listed after the existing topics."""
    broker = MemoryBroker(num_partitions="3")
    broker.topics.create("old", 1, {})
    first = ask(broker, request("new", "a b", "old"), version)
    assert errors(first) == [("old", 0), ("new", 0), ("a b", INVALID)]
    assert len(first.topics[1].partitions) == 3
    assert {partition.leader_id for partition in first.topics[1].partitions} == {1}
    assert ask(broker, request("new"), version).topics == [first.topics[1]]


def delete(broker: MemoryBroker, *names: str) -> None:
    """Delete topics with DeleteTopics."""
    response = broker.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000), 5)
    assert {topic.error_code for topic in response.responses} == {0}


def test_a_topic_is_not_created_again_for_half_a_second_after_its_deletion() -> None:
    """A topic is not auto-created within 500 ms after its deletion.

    A request for the topic gets UNKNOWN_TOPIC_OR_PARTITION; other topics are created.
    """
    broker = MemoryBroker(MemoryDisk(), 2)
    ask(broker, request("a", "b"))
    delete(broker, "a", "b")
    assert errors(ask(broker, request("a", "new"))) == [("a", UNKNOWN), ("new", 0)]
    broker.advance(499)
    assert errors(broker.ask(request("a"), 12, node_id=2)) == [("a", UNKNOWN)]
    broker.topics.create("b", 1, {})
    assert errors(ask(broker, request("b"))) == [("b", 0)]
    broker.advance(1)
    assert errors(ask(broker, request("a"))) == [("a", 0)]


def test_only_deletions_of_the_last_half_second_are_kept_in_memory() -> None:
    """Each new deletion drops the entries of deletions that are older than 500 ms.

    If a topic is deleted twice, the 500 ms count from the second deletion.
    """
    broker = MemoryBroker()
    deletions = broker.shared.recent_deletions
    deletions.add(["a", "b"])
    broker.advance(400)
    deletions.add(["a", "c"])
    broker.advance(100)
    assert [name in deletions for name in "abc"] == [True, False, True]
    deletions.add(["d"])
    assert len(deletions) == 3
    broker.advance(500)
    deletions.add(["e"])
    assert len(deletions) == 1


def test_a_topic_is_not_created_against_anybodys_will() -> None:
    """A topic is created only if both the request and the broker allow this."""
    broker = MemoryBroker()
    asked = request("new", allow_auto_topic_creation=False)
    assert errors(ask(broker, asked)) == errors(ask(broker, asked)) == [("new", UNKNOWN)]
    broker = MemoryBroker(auto_create_topics_enable="false")
    asked = request("new")
    assert errors(ask(broker, asked)) == errors(ask(broker, asked)) == [("new", UNKNOWN)]


def test_a_name_that_collides_is_never_created() -> None:
    """A name that differs from an existing topic only in `.` and `_` stays unknown."""
    broker = MemoryBroker()
    broker.topics.create("a.b", 1, {})
    for _ in range(2):
        assert errors(ask(broker, request("a_b"))) == [("a_b", UNKNOWN)]


def test_a_disk_that_fails_leaves_the_topic_unknown() -> None:
    """A topic that cannot be created is unknown, and the next request may succeed."""
    broker = MemoryBroker()
    broker.disk.fail_at(0)
    assert errors(ask(broker, request("new"))) == [("new", UNKNOWN)]
    assert errors(ask(broker, request("new"))) == [("new", 0)]


@pytest.mark.parametrize("name", ["", "a b", ".", "..", "a" * 250, "é"])
@pytest.mark.parametrize("may_create", [True, False])
def test_invalid_names(name: str, may_create: bool) -> None:
    """Invalid names get INVALID_TOPIC_EXCEPTION, whether topics may be created or not."""
    asked = request(name, allow_auto_topic_creation=may_create)
    response = ask(MemoryBroker(), asked)
    assert errors(response) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION)]


def test_internal_topics_that_are_asked_for() -> None:
    """Requested internal topics are created with the coordinators' configs and partition counts."""
    broker = MemoryBroker(offsets_topic_num_partitions="7")
    first = ask(broker, request("__consumer_offsets"))
    assert (errors(first), first.topics[0].is_internal) == ([("__consumer_offsets", 0)], True)
    assert len(first.topics[0].partitions) == 7
    topic = broker.topics.topic("__consumer_offsets")
    assert topic is not None
    assert topic.configs["cleanup.policy"] == "compact"
    assert len(ask(broker, request("__transaction_state")).topics[0].partitions) == 50
    assert len(ask(broker, request("__share_group_state")).topics[0].partitions) == 50
    topic = broker.topics.topic("__share_group_state")
    assert topic is not None
    assert topic.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_topics_by_id() -> None:
    """An id finds its topic; an unknown id gets UNKNOWN_TOPIC_ID and no name."""
    broker = MemoryBroker()
    made = broker.topics.create("t", 1, {})
    response = ask(broker, request(ids=(b"x" * 16, made.topic_id)))
    assert errors(response) == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert response.topics[1].topic_id == b"x" * 16


def test_a_name_beside_an_id_does_not_count() -> None:
    """If the request has an id, names are ignored and no topic is created."""
    broker = MemoryBroker()
    topics = [MetadataRequestTopic(name="new", topic_id=b"x" * 16)]
    topics.append(MetadataRequestTopic(name="other"))
    response = ask(broker, MetadataRequest(topics=topics))
    assert errors(response) == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert list(broker.topics.all_topics()) == []


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_refused(version: int) -> None:
    """Ids before version 12 fail the whole request with INVALID_REQUEST."""
    topics = [MetadataRequestTopic(name="t", topic_id=b"x" * 16)]
    response = ask(MemoryBroker(), MetadataRequest(topics=topics), version)
    assert errors(response) == [("t", ErrorCode.INVALID_REQUEST)]
    assert response.brokers == []


def test_neither_name_nor_id() -> None:
    """A topic with neither name nor id gets UNKNOWN_SERVER_ERROR, also at the top level.

    Kafka does the same.
    """
    response = ask(MemoryBroker(), request(None), 13)
    assert errors(response) == [("", ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_known_topics_come_first_and_each_once() -> None:
    """Known topics come first, unknown topics last, and a repeated name is answered once."""
    broker = MemoryBroker()
    broker.topics.create("a", 1, {})
    asked = request("z", "a", "z", "a", allow_auto_topic_creation=False)
    assert errors(ask(broker, asked)) == [("a", 0), ("z", UNKNOWN)]


def test_authorized_operations_only_if_asked_for() -> None:
    """Operations are -2147483648 unless requested.

    Without an authorizer all operations are returned, also for nonexistent names, but not for
    unknown ids.
    """
    broker = MemoryBroker()
    broker.topics.create("t", 1, {})
    response = ask(broker, request("t"), 10)
    assert response.topics[0].topic_authorized_operations == NOT_ASKED
    assert response.cluster_authorized_operations == NOT_ASKED
    asked = request(
        "t",
        "no",
        "a b",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    response = ask(broker, asked, 10)
    operations = [topic.topic_authorized_operations for topic in response.topics]
    assert operations == [3576, 3576, 3576]
    assert response.cluster_authorized_operations == 8096
    by_id = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=b"1" * 16, name=None)],
        include_topic_authorized_operations=True,
    )
    assert ask(broker, by_id, 12).topics[0].topic_authorized_operations == NOT_ASKED


def test_a_partition_that_cannot_be_opened() -> None:
    """A topic whose log cannot be opened is listed, with its partition offline."""
    broker = MemoryBroker()
    topic = broker.topics.create("t", 1, {})
    topic.partitions[0].append(batch(b"a"), START_MS)
    broker.topics.close()
    again = MemoryBroker(broker.disk)
    again.disk.unreadable.add("/data/t-0/partition.metadata")
    response = ask(again, request("t"))
    assert errors(response) == [("t", 0)]
    (one,) = response.topics[0].partitions
    assert (one.error_code, one.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (one.replica_nodes, one.isr_nodes, one.offline_replicas) == ([1], [], [1])


def test_the_rack_of_the_broker() -> None:
    """Metadata shows the rack since version 1, DescribeCluster at every version."""
    broker = MemoryBroker(broker_rack="r")
    response = broker.ask(MetadataRequest(topics=[]), 9)
    assert [one.rack for one in response.brokers] == ["r"]
    response = broker.ask(DescribeClusterRequest(), 2)
    assert [one.rack for one in response.brokers] == ["r"]


@pytest.mark.parametrize("version", range(3))
def test_the_cluster(version: int) -> None:
    """DescribeCluster returns the only broker, which is also the controller."""
    request_of_brokers = DescribeClusterRequest()
    broker = MemoryBroker()
    response = broker.ask(request_of_brokers, version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (
        0,
        broker.cluster.cluster_id,
        1,
    )
    (one,) = response.brokers
    assert (one.broker_id, one.host, one.port, one.rack) == (1, "127.0.0.1", 9092, None)
    assert response.cluster_authorized_operations == NOT_ASKED


def test_the_operations_on_the_cluster() -> None:
    """DescribeCluster returns the operations on the cluster on request."""
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = MemoryBroker().ask(asked, 2)
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        ),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3"),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0"),
    ],
)
def test_endpoints_that_are_no_brokers(endpoint_type: int, error: ErrorCode, message: str) -> None:
    """DescribeCluster refuses controller endpoints on a broker's listener, and unknown types."""
    asked = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = MemoryBroker().ask(asked, 1)
    assert (response.error_code, response.error_message) == (error, message)
    assert (response.endpoint_type, response.cluster_id, response.brokers) == (1, "", [])
