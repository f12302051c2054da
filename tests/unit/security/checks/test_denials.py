"""Denials are logged like Kafka's, but in a limited number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import StringIO
from json import loads
from typing import Any

import pytest

from coordinator_server.events.log import LOG
from coordinator_server.security.access import MOST_LOGGED_CHARACTERS
from coordinator_server.security.acl import Operation
from coordinator_server.security.authorizer import Authorizer
from protocol.apis.alter_configs import AlterConfigsRequest
from protocol.apis.alter_configs import AlterConfigsResource as ReplacedResource
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.apis.describe_cluster import DescribeClusterRequest
from protocol.apis.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from protocol.apis.write_txn_markers import WriteTxnMarkersRequest
from protocol.errors import ErrorCode
from tests.harness.secured import Secured, group, topic
from tests.unit.reports import Reports

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
async def broker() -> AsyncIterator[Secured]:
    """Start a broker with an authorizer; alice may describe topic a and read group h."""
    secured = await Secured().start()
    secured.topics("a", "b")
    secured.allow(topic("a", Operation.DESCRIBE), group("h", Operation.READ))
    yield secured
    await secured.stop()


def _named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (HEARTBEAT, 4, ["READ GROUP g"]),
        (MetadataRequest(topics=_named("a", "b")), 12, ["DESCRIBE TOPIC b"]),
        (MetadataRequest(topics=None), 12, []),
        (ListGroupsRequest(), 4, []),
        (
            DescribeClusterRequest(include_cluster_authorized_operations=True),
            1,
            ["DESCRIBE CLUSTER kafka-cluster"],
        ),
        (
            CreateTopicsRequest(
                topics=[CreatableTopic(name="n", num_partitions=1, replication_factor=1)]
            ),
            7,
            ["CREATE TOPIC n"],
        ),
        (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]),
            6,
            ["DELETE TOPIC a"],
        ),
        (
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="b")]),
            4,
            ["DESCRIBE TOPIC b"],
        ),
        (WriteTxnMarkersRequest(), 1, ["CLUSTER_ACTION CLUSTER kafka-cluster"]),
        (
            InitProducerIdRequest(transactional_id=None),
            5,
            ["IDEMPOTENT_WRITE CLUSTER kafka-cluster"],
        ),
        (
            FetchRequest(
                max_wait_ms=0,
                max_bytes=1,
                topics=[FetchTopic(topic="a", partitions=[FetchPartition(partition=0)])],
            ),
            12,
            ["READ TOPIC a"],
        ),
        (
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name="b")]),
            0,
            ["DESCRIBE TOPIC b"],
        ),
        (
            ConsumerGroupHeartbeatRequest(
                group_id="h",
                member_id="A" * 22,
                rebalance_timeout_ms=1000,
                topic_partitions=[],
                subscribed_topic_regex=".*",
            ),
            1,
            [],
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "copy") else "",
)
async def test_what_was_asked_for_is_told(
    broker: Secured, request_: Any, version: int, expected: list[str], reports: Reports
) -> None:
    """Each denied resource that was requested by name is logged once.

    A check that only filters a list is not logged.
    """
    await broker.ask(request_, version)
    denied = [event for event in reports.events if event["event"] == "access.denied"]
    assert [
        f"{one['operation']} {one['resource_type']} {one['resource']}" for one in denied
    ] == expected
    for one in denied:
        assert one["principal"] == "User:alice"
        assert one["host"] == "127.0.0.1"
        assert one["api"] == type(request_).__name__.removesuffix("Request")


async def test_what_is_allowed_is_not_told(broker: Secured, reports: Reports) -> None:
    """Nothing is logged for a super user, nor for a missing right if another right is enough."""
    await broker.ask(HEARTBEAT, 4, "root")
    broker.allow(topic("b", Operation.WRITE))
    await broker.ask(InitProducerIdRequest(transactional_id=None), 5)
    await broker.ask(MetadataRequest(topics=_named("a")), 12)
    assert not [event for event in reports.events if event["event"] == "access.denied"]


@pytest.mark.parametrize(
    "resource", [ReplacedResource, ChangedResource], ids=["AlterConfigs", "IncrementalAlterConfigs"]
)
async def test_each_change_of_configs_is_asked_for_once(
    broker: Secured, reports: Reports, monkeypatch: pytest.MonkeyPatch, resource: Any
) -> None:
    """For each resource the authorizer is asked once, and only a refusal is logged."""
    asked: list[str] = []
    allows = Authorizer.allows

    def counted(self: Authorizer, *question: Any) -> bool:
        asked.append(question[-1])
        return allows(self, *question)

    monkeypatch.setattr(Authorizer, "allows", counted)
    broker.allow(topic("a", Operation.ALTER_CONFIGS))
    resources = [resource(resource_type=2, resource_name=name) for name in "ab"]
    is_replaced = resource is ReplacedResource
    request = AlterConfigsRequest if is_replaced else IncrementalAlterConfigsRequest
    answer = await broker.ask(request(resources=resources))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [one.error_code for one in answer.responses] == [0, refused]
    assert asked == ["a", "b"]
    denied = [event for event in reports.events if event["event"] == "access.denied"]
    assert [one["resource"] for one in denied] == ["b"]


async def test_a_flood_is_told_in_few_lines(broker: Secured) -> None:
    """At most 20 denials per principal, operation and resource type are logged.

    Denials of other principals are still logged, and long resource names are truncated.
    """
    stream = StringIO()
    LOG.configure("json", stream=stream)
    try:
        for name in (f"g{number}" for number in range(200)):
            await broker.ask(HeartbeatRequest(group_id=name, generation_id=1, member_id="m"), 4)
        await broker.ask(MetadataRequest(topics=_named(*(f"t{n}" for n in range(3_000)))), 12)
        await broker.ask(HeartbeatRequest(group_id="x" * 30_000), 4, "bob")
    finally:
        LOG.configure()
    lines = [loads(line) for line in stream.getvalue().splitlines()]
    told = [one for one in lines if one["event"] == "access.denied"]
    by_kind = [(one["principal"], one["resource_type"]) for one in told]
    assert by_kind.count(("User:alice", "GROUP")) == 20
    assert by_kind.count(("User:alice", "TOPIC")) == 20
    assert by_kind.count(("User:bob", "GROUP")) == 1
    assert told[-1]["resource"] == "x" * MOST_LOGGED_CHARACTERS
