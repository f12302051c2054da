"""DescribeCluster (key 60): brokers, controller and id of the cluster. Versions 0-2, all flexible.

Version 1 selects brokers (1) or controllers (2) (KIP-919), 2 can include fenced brokers (KIP-1073).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, Message, field


class DescribeClusterRequest(Message, versions=(0, 2), flexible_since=0):
    """Whether to return brokers or controllers, fenced brokers and authorized operations."""

    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)
    include_fenced_brokers: bool = field(BOOL, since=2)


class DescribeClusterBroker(Message):
    """One broker's address."""

    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0, default=None)
    is_fenced: bool = field(BOOL, since=2)


class DescribeClusterResponse(Message, versions=(0, 2), flexible_since=0):
    """The brokers, controller and id of the cluster."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = field(ARRAY(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=-(2**31))
