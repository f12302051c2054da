"""Metadata (key 3): brokers, topics, partitions and their leaders. Versions 0-13.

In version 0 an empty list means all topics; from version 1 on null means all topics, and an empty
list means none. Version 1 adds racks, the controller and the internal flag; version 2 adds the
cluster id; version 4 lets the client forbid topic creation; version 5 adds offline replicas, 7
leader epochs, 8 authorized operations. Version 9 is flexible. Version 10 adds topic ids, version 12
allows topics by id alone (null name). Version 11 drops the cluster's authorized operations. Version
13 adds a top-level error code.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, UUID, Message, field


class MetadataRequestTopic(Message):
    """A topic by name or, with a null name, by id."""

    topic_id: bytes = field(UUID, since=10)
    name: str | None = field(STRING, nullable_since=10)


class MetadataRequest(Message, versions=(0, 13), flexible_since=9):
    """The topics to describe; null means all."""

    topics: list[MetadataRequestTopic] | None = field(ARRAY(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


class MetadataResponseBroker(Message):
    """The address of a broker."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable_since=1, default=None)


class MetadataResponsePartition(Message):
    """One partition: its leader, replicas and in-sync replicas, by node id."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, since=7, default=-1)
    replica_nodes: list[int] = field(ARRAY(INT32))
    isr_nodes: list[int] = field(ARRAY(INT32))
    offline_replicas: list[int] = field(ARRAY(INT32), since=5)


class MetadataResponseTopic(Message):
    """One topic with its partitions, or its error."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable_since=12)
    topic_id: bytes = field(UUID, since=10)
    is_internal: bool = field(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = field(ARRAY(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, since=8, default=-(2**31))


class MetadataResponse(Message, versions=(0, 13), flexible_since=9):
    """The cluster as seen by this broker."""

    throttle_time_ms: int = field(INT32, since=3)
    brokers: list[MetadataResponseBroker] = field(ARRAY(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, since=2, nullable_since=2, default=None)
    controller_id: int = field(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field(ARRAY(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, since=8, until=10, default=-(2**31))
    error_code: int = field(INT16, since=13)
