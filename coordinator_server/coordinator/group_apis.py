"""The table of group APIs: how each request reaches its group, and what it is answered without one.

`GroupCoordinator.submit` goes by this table alone. Source: GroupCoordinatorService, which does the
same by hand for each API.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from coordinator_server.group.api import A, GroupApi, GroupRequest, Q
from coordinator_server.group.classic.describe_groups import DESCRIBE_GROUPS
from coordinator_server.group.classic.heartbeat import HEARTBEAT
from coordinator_server.group.classic.join_group import JOIN_GROUP
from coordinator_server.group.classic.leave_group import LEAVE_GROUP
from coordinator_server.group.classic.sync_group import SYNC_GROUP
from coordinator_server.group.delete_groups import DELETE_GROUPS
from coordinator_server.group.offset_commit import OFFSET_COMMIT
from coordinator_server.group.offset_delete import OFFSET_DELETE
from coordinator_server.group.offset_fetch import OFFSET_FETCH
from coordinator_server.group.transactional_commit import TRANSACTIONAL_COMMIT

GROUP_APIS: dict[type[GroupRequest], object] = {
    api.request_type: api
    for api in (
        JOIN_GROUP,
        SYNC_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        OFFSET_DELETE,
        TRANSACTIONAL_COMMIT,
        DESCRIBE_GROUPS,
        DELETE_GROUPS,
    )
}
"""Request type -> its GroupApi, of the requests that every broker gets."""

_LATE_ROWS = {
    "ConsumerGroupHeartbeatRequest": ("consumer.heartbeat", "CONSUMER_GROUP_HEARTBEAT"),
    "DescribeConsumerGroup": ("consumer.describe", "CONSUMER_GROUP_DESCRIBE"),
    "ShareGroupHeartbeatRequest": ("share.heartbeat", "SHARE_GROUP_HEARTBEAT"),
    "DescribeShareGroup": ("share.describe", "SHARE_GROUP_DESCRIBE"),
    "AlterShareGroupOffsetsRequest": ("share.alter_offsets", "ALTER_SHARE_GROUP_OFFSETS"),
    "DeleteShareGroupOffsetsRequest": ("share.delete_offsets", "DELETE_SHARE_GROUP_OFFSETS"),
    "FetchInitialized": ("share.initialized", "SHARE_GROUP_INITIALIZED"),
    "StreamsGroupHeartbeatRequest": ("streams.heartbeat", "STREAMS_GROUP_HEARTBEAT"),
    "DescribeStreamsGroup": ("streams.describe", "STREAMS_GROUP_DESCRIBE"),
}
"""Name of a request type -> module in `coordinator_server.group` and name of its row. A broker that
has classic groups alone does without these modules."""


class _Rows(dict[type[GroupRequest], object]):
    """`GROUP_APIS`, and what comes late."""

    def __missing__(self, request_type: type[GroupRequest]) -> object:
        module, name = _LATE_ROWS[request_type.__name__]
        row = getattr(import_module(f"coordinator_server.group.{module}"), name)
        self[request_type] = row
        return row


class _RowOf(Protocol):
    def __call__(self, request_type: type[Q], /) -> GroupApi[Q, A]:
        """The row of requests of a type."""
        ...


row_of = cast("_RowOf", _Rows(GROUP_APIS).__getitem__)
"""`row_of(type(request))` is the GroupApi of a request: each key is its row's `request_type`."""
