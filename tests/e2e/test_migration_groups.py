"""`promote` and `import` copy offsets and configs of share, streams and consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
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
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests.clients.support import set_group_configs
from tests.e2e.test_migration import run
from tests.support import Broker, wait_for

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


def test_offsets_and_configs_of_every_kind_of_group_go_over(tmp_path: Path) -> None:
    """Offsets, share-group start offsets and group configs are copied.

    A start offset that is further on in the target is kept.
    """
    with (
        Broker(data_dir=tmp_path / "a") as a,
        Broker(data_dir=tmp_path / "b") as b,
    ):
        source, target = a.bootstrap_servers, b.bootstrap_servers
        prepare(source)
        done = run("promote", "--from", source, "--to", target)
        assert done.returncode == 0, done.stderr
        assert "4 committed offsets, 0 were further on, configs of 2 groups" in done.stdout
        assert_moved(source, target)
        with closing(Client(target)) as client:
            alter_starts(client, "queue", {0: 29})
        again = run("promote", "--from", source, "--to", target)
        assert again.returncode == 0, again.stderr
        assert "3 committed offsets, 1 were further on" in again.stdout
        assert state(target)["starts"] == {**STARTS, 0: 29}
        # A streams client continues from the offsets, in a group of type streams.
        with closing(Client(target)) as client:
            assert heartbeat(client, "counts", "b" * 22) > 0
        moved = state(target)
        assert moved["types"]["counts"] == "streams"
        assert moved["committed"] == STREAMS_OFFSETS


def test_a_share_group_with_members_is_refused(tmp_path: Path) -> None:
    """The start offsets of a share group with members cannot be set; the error names the group."""
    with (
        Broker(data_dir=tmp_path / "a") as a,
        Broker(data_dir=tmp_path / "b") as b,
    ):
        prepare(a.bootstrap_servers)
        with closing(Client(b.bootstrap_servers)) as client:
            request = ShareGroupHeartbeatRequest(
                group_id="queue",
                member_id="c" * 22,
                member_epoch=0,
                subscribed_topic_names=["lines"],
            )
            assert not client.ask(request, client.coordinator("queue")).error_code
        done = run("import", "--from", a.bootstrap_servers, "--to", b.bootstrap_servers)
        assert done.returncode == 1
        assert "share group queue, TopicPartition(topic='lines', partition=" in done.stderr
        assert "NonEmptyGroup" in done.stderr
