"""Run the commands that move data between brokers, and check the moved data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata

from coordinator_server.client import Client
from coordinator_server.client.errors import ClientError
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests import forked
from tests.clients.support import set_group_configs
from tests.support import wait_for


def command(*arguments: str) -> list[str]:
    """Return the command line of a tool."""
    return [sys.executable, "-m", "coordinator_server", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end."""
    return forked.run(command(*arguments), timeout=120)


GROUP_RESOURCE = 32


DYNAMIC_GROUP_CONFIG = 8


RECORDS = 60


STARTS = {0: 20, 1: 0}


STREAMS_OFFSETS = {0: (7, "state"), 1: (RECORDS // 2, "")}


CONFIGS = {
    "queue": {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "20000"},
    "nobody": {"consumer.session.timeout.ms": "50000"},
}


def prepare(bootstrap: str) -> None:
    """Create a topic, a share group, an empty streams group, and group configs."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"lines": {"num_partitions": 2, "replication_factor": 1}})
    wait_for(lambda: "lines" in admin.list_topics(), "the topic is there")
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(RECORDS):
        producer.send("lines", value=b"%d" % number, partition=number % 2)
    producer.flush()
    producer.close()
    with closing(Client(bootstrap)) as client:
        settled(client, partial(alter_starts, client, "queue", STARTS))
        member_id = "a" * 22
        settled(client, partial(heartbeat, client, "counts", member_id))
        left = StreamsGroupHeartbeatRequest(group_id="counts", member_id=member_id, member_epoch=-1)
        assert not client.ask(left, client.coordinator("counts")).error_code
    places = {
        kafka.TopicPartition("lines", partition): OffsetAndMetadata(offset, metadata, -1)
        for partition, (offset, metadata) in STREAMS_OFFSETS.items()
    }
    admin.alter_group_offsets("counts", places)
    admin.close()
    for group, configs in CONFIGS.items():
        set_group_configs(bootstrap, group, configs)


def settled(client: Client, ask: Callable[[], Any]) -> Any:
    """Return a response without an error; retry while coordinators are loading."""
    return client.call("ask", ask)


def alter_starts(client: Client, group: str, starts: Mapping[int, int]) -> None:
    """Set start offsets of a share group."""
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        for index, offset in starts.items()
    ]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="lines", partitions=partitions)
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=[topic])
    answer = client.ask(request, client.coordinator(group))
    check(answer.error_code, answer.error_message)
    for answered in answer.responses:
        for one in answered.partitions:
            check(one.error_code, one.error_message)


def heartbeat(client: Client, group: str, member_id: str) -> int:
    """Join a streams group and return the member's epoch."""
    topology = StreamsTopology(
        epoch=0,
        subtopologies=[
            StreamsSubtopology(
                subtopology_id="0",
                source_topics=["lines"],
                state_changelog_topics=[],
                repartition_sink_topics=[],
                repartition_source_topics=[],
                copartition_groups=[],
            )
        ],
    )
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        topology=topology,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    answer = client.ask(request, client.coordinator(group))
    check(answer.error_code, answer.error_message)
    return int(answer.member_epoch)


def check(code: int, message: str | None) -> None:
    """Raise ClientError for an error code."""
    if code:
        raise ClientError(ErrorCode(code), message)


def state(bootstrap: str) -> dict[str, Any]:
    """Return the types, offsets and configs of the groups."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    committed = admin.list_group_offsets(["counts"])["counts"]
    admin.close()
    described = DescribeShareGroupOffsetsRequestGroup(group_id="queue", topics=None)
    with closing(Client(bootstrap)) as client:
        listed = client.ask(ListGroupsRequest(), min_version=5).groups
        request = DescribeShareGroupOffsetsRequest(groups=[described])
        (group,) = client.ask(request, client.coordinator("queue")).groups
        configs = {name: own_configs(client, name) for name in CONFIGS}
    return {
        "types": {one.group_id: one.group_type for one in listed},
        "committed": {
            place.partition: (one.offset, one.metadata) for place, one in committed.items()
        },
        "starts": {
            one.partition_index: one.start_offset
            for topic in group.topics
            for one in topic.partitions
        },
        "configs": configs,
    }


def own_configs(client: Client, group: str) -> dict[str, str]:
    """Return the configs set for a group."""
    resource = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=None
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource])).results
    assert not result.error_code
    return {
        one.name: one.value for one in result.configs if one.config_source == DYNAMIC_GROUP_CONFIG
    }


def assert_moved(source: str, target: str) -> None:
    """Check that all is equal but the type of the streams group, which has no members yet."""
    moved = state(target)
    assert moved == {
        "types": {"counts": "classic", "queue": "share"},
        "committed": STREAMS_OFFSETS,
        "starts": STARTS,
        "configs": CONFIGS,
    }
    assert state(source) == {**moved, "types": {**moved["types"], "counts": "streams"}}
