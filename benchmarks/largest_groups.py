"""The largest requests of consumer, share and streams groups, for `benchmarks.largest_requests`.

Most requests are small, but cause the assignment of a large group to be computed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from coordinator_server.topics.config_requests import GROUP, ConfigOperation
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.apis.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from protocol.apis.share_group_describe import ShareGroupDescribeRequest
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsSubtopology,
    StreamsTaskIds,
    StreamsTopology,
)
from protocol.schema import Message
from tests.faults.client import Client

TOPICS, PARTITIONS = 100, 100
WIDE = [f"hundred{number}" for number in range(TOPICS)]
"""Topics with PARTITIONS partitions each."""

CONSUMERS, SHARE_MEMBERS, THREADS = 500, 200, 20
SUBTOPOLOGIES, TASKS = 20, 1000
MOST_TOPICS = 10_000
"""The number of topics of one member."""

NAMES = 50_000
"""The number of missing topics in one subscription."""

ENDED_GROUPS = 500
ACKNOWLEDGED = 100_000
REGEX = "t.*"
_TIMEOUT_MS = 300_000
_LEAVE: dict[str, Any] = {"member_id": "member0", "member_epoch": -1}


class GroupCase(NamedTuple):
    """One request; the requests in `before` are sent first and not measured."""

    what: str
    request: Message
    before: Sequence[Message] = ()


def assigns(group: str, kind: str, *, rarely: bool) -> Message:
    """Set the group's assignment interval to 15 s, or to 0 for an assignment at every change."""
    interval = AlterableConfig(
        name=f"{kind}.assignment.interval.ms",
        config_operation=ConfigOperation.SET,
        value="15000" if rarely else "0",
    )
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[interval])
    return IncrementalAlterConfigsRequest(resources=[resource])


def last_join(what: str, group: str, kind: str, joins: Sequence[Message]) -> GroupCase:
    """Return the last join as a case; only this join computes the target of all members."""
    before = [assigns(group, kind, rarely=True), *joins[:-1], assigns(group, kind, rarely=False)]
    return GroupCase(what, joins[-1], before)


def consumer_join(group: str, number: int, topics: Sequence[str], **fields: Any) -> Message:
    """Return the heartbeat with which a member joins or rejoins a consumer group."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member{number}",
        rebalance_timeout_ms=_TIMEOUT_MS,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
        **fields,
    )


def share_join(group: str, number: int, topics: Sequence[str]) -> Message:
    """Return the heartbeat with which a member joins or rejoins a share group."""
    member_id = f"member{number}"
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member_id, subscribed_topic_names=list(topics)
    )


def streams_join(group: str, number: int, topology: StreamsTopology, **fields: Any) -> Message:
    """Return the heartbeat with which a streams thread joins or rejoins a group."""
    return StreamsGroupHeartbeatRequest(
        **{
            "group_id": group,
            "member_id": f"member{number}",
            "rebalance_timeout_ms": _TIMEOUT_MS,
            "topology": topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": f"process{number}",
            "client_tags": [],
            **fields,
        }
    )


def topic_ids(client: Client, names: Sequence[str]) -> list[bytes]:
    """Return the ids of topics, in order."""
    asked = [MetadataRequestTopic(name=name) for name in names]
    return [one.topic_id for one in client.ask(MetadataRequest(topics=asked)).topics]


def group_cases(client: Client, names: Sequence[str]) -> Iterator[GroupCase]:
    """Yield all group cases, for these one-partition topics and for topics created here."""
    made = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in [
            *((name, PARTITIONS) for name in WIDE),
            *((f"tasks{number}", TASKS) for number in range(SUBTOPOLOGIES)),
        ]
    ]
    # Kafka allows at most 10 000 records per request; each new partition needs a record.
    for start in range(0, len(made), 5):
        client.ask(CreateTopicsRequest(topics=made[start : start + 5], timeout_ms=60_000))
    yield from consumer_cases(client, names[:MOST_TOPICS])
    yield from share_cases(client)
    yield from streams_cases()


def consumer_cases(client: Client, names: Sequence[str]) -> Iterator[GroupCase]:
    """Yield cases with very many topics, then with very many members."""
    what = f"{len(names)} topics"
    join = partial(consumer_join, "many-topics", topics=names)
    yield GroupCase(f"{what}, the first member", join(0))
    yield GroupCase(f"{what}, the second member", join(1))
    ids = topic_ids(client, names)
    owned = [OwnedTopicPartitions(topic_id=one, partitions=[0]) for one in ids]
    epoch = client.ask(join(2)).member_epoch
    beat = ConsumerGroupHeartbeatRequest(
        group_id="many-topics", member_id="member2", member_epoch=epoch, topic_partitions=owned
    )
    yield GroupCase(f"{what}, all owned", beat)
    leave = ConsumerGroupHeartbeatRequest(
        group_id="many-topics", member_id="member1", member_epoch=-1
    )
    yield GroupCase(f"{what}, a member leaves", leave)
    regex = partial(consumer_join, "regex", topics=(), subscribed_topic_regex=REGEX)
    yield GroupCase(f"an expression, {what}", regex(0))
    yield GroupCase(f"an expression, {what}, the second member", regex(1))
    yield GroupCase(f"a group of {what}", ConsumerGroupDescribeRequest(group_ids=["many-topics"]))
    unknown = [f"n{number}" for number in range(NAMES)]
    yield GroupCase(f"{NAMES} names", consumer_join("many-names", 0, unknown))
    chosen = random.Random(1)
    for group, assignor, share in (
        ("same", "uniform", TOPICS),
        ("range", "range", TOPICS),
        ("different", "uniform", TOPICS // 2),
    ):
        joins = [
            consumer_join(group, number, chosen.sample(WIDE, share), server_assignor=assignor)
            for number in range(CONSUMERS)
        ]
        what = f"{CONSUMERS} members, {TOPICS * PARTITIONS} partitions, {assignor}, {group}"
        yield last_join(what, group, "consumer", joins)
        yield GroupCase(f"{what}, joined again", joins[0])
        yield GroupCase(what, ConsumerGroupDescribeRequest(group_ids=[group]))


def share_cases(client: Client) -> Iterator[GroupCase]:
    """Yield cases with different and with equal subscriptions, and a session of all partitions."""
    chosen = random.Random(2)
    for group, share in (("share-same", TOPICS), ("share-different", TOPICS // 2)):
        joins = [
            share_join(group, number, chosen.sample(WIDE, share)) for number in range(SHARE_MEMBERS)
        ]
        what = f"{SHARE_MEMBERS} members, {TOPICS * PARTITIONS} partitions, {group}"
        yield last_join(what, group, "share", joins)
        yield GroupCase(f"{what}, joined again", joins[0])
        yield GroupCase(what, ShareGroupDescribeRequest(group_ids=[group]))
    ended = [f"share-ended{number}" for number in range(ENDED_GROUPS)]
    before = [share_join(group, 0, WIDE[:1]) for group in ended]
    before += [ShareGroupHeartbeatRequest(**_LEAVE, group_id=group) for group in ended]
    yield GroupCase(f"{ENDED_GROUPS} groups", DeleteGroupsRequest(groups_names=ended), before)
    ids = topic_ids(client, WIDE)
    fetch = ShareFetchRequest(
        group_id="share-same",
        member_id="member1",
        max_records=500,
        batch_size=500,
        topics=[
            ShareFetchTopic(
                topic_id=topic_id,
                partitions=[
                    ShareFetchPartition(partition_index=one, acknowledgement_batches=[])
                    for one in range(PARTITIONS)
                ],
            )
            for topic_id in ids
        ],
    )
    yield GroupCase(f"{TOPICS * PARTITIONS} partitions", fetch)
    batches = [
        AcknowledgementBatch(first_offset=one, last_offset=one, acknowledge_types=[1])
        for one in range(ACKNOWLEDGED)
    ]
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    acknowledge = ShareAcknowledgeRequest(
        group_id="share-same",
        member_id="member1",
        share_session_epoch=1,
        topics=[AcknowledgeTopic(topic_id=ids[0], partitions=[partition])],
    )
    yield GroupCase(f"{ACKNOWLEDGED} batches of one partition", acknowledge)
    close = ShareFetchRequest(group_id="share-same", member_id="member1", share_session_epoch=-1)
    yield GroupCase(f"the end of a session of {TOPICS * PARTITIONS} partitions", close)


def streams_cases() -> Iterator[GroupCase]:
    """Yield cases with very many tasks."""
    group, what = "streams", f"{SUBTOPOLOGIES * TASKS} tasks"
    topology = StreamsTopology(
        subtopologies=[
            StreamsSubtopology(subtopology_id=str(number), source_topics=[f"tasks{number}"])
            for number in range(SUBTOPOLOGIES)
        ]
    )
    joins = [streams_join(group, number, topology) for number in range(THREADS)]
    yield GroupCase(f"{what}, the first thread", joins[0])
    yield GroupCase(f"{what}, {THREADS} threads", joins[-1], joins[1:-1])
    all_tasks = [
        StreamsTaskIds(subtopology_id=str(number), partitions=list(range(TASKS)))
        for number in range(SUBTOPOLOGIES)
    ]
    yield GroupCase(f"{what}, all listed", streams_join(group, 0, topology, active_tasks=all_tasks))
    yield GroupCase(f"a group of {what}", StreamsGroupDescribeRequest(group_ids=[group]))
