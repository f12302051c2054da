"""The table of group APIs: functions that serve a request, and its response for a missing group.

`GroupCoordinator.submit` uses only this table. Kafka's GroupCoordinatorService implements the same
steps separately for each API.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from coordinator_server.core.groups.api import A, GroupApi, GroupRequest, Q, Serve
from coordinator_server.core.groups.classic.describe_groups import DESCRIBE_GROUPS
from coordinator_server.core.groups.classic.heartbeat import HEARTBEAT
from coordinator_server.core.groups.classic.join_group import JOIN_GROUP
from coordinator_server.core.groups.classic.leave_group import LEAVE_GROUP
from coordinator_server.core.groups.classic.sync_group import SYNC_GROUP
from coordinator_server.core.groups.delete_groups import DELETE_GROUPS
from coordinator_server.core.groups.offset_commit import OFFSET_COMMIT
from coordinator_server.core.groups.offset_delete import OFFSET_DELETE
from coordinator_server.core.groups.offset_fetch import OFFSET_FETCH
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.transactional_commit import TRANSACTIONAL_COMMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.steps import Computation

CORE = "coordinator_server.core.groups"


def _also(api: GroupApi[Q, A], kinds: Mapping[GroupKind, tuple[str, str]]) -> GroupApi[Q, A]:
    """Return a copy of the row that also serves these kinds of groups.

    `kinds` maps a kind to a module in CORE and a function name. The first request imports the
    module, so a broker with only classic groups never loads it.
    """
    return replace(
        api,
        serve_kind={
            **api.serve_kind,
            **{kind: partial(_serve_late, *where) for kind, where in kinds.items()},
        },
    )


def _serve_late(  # not a closure, because the simulation pickles the rows of GROUP_APIS
    module: str,
    name: str,
    group: Any,
    request: Any,
    reply: Reply[Any],
    now_ms: int,
    effects: Effects,
) -> Computation[object] | None:
    serve: Serve[Any, Any] = getattr(import_module(f"{CORE}.{module}"), name)
    return serve(group, request, reply, now_ms, effects)


GROUP_APIS: dict[type[GroupRequest], object] = {
    api.request_type: api
    for api in (
        _also(
            JOIN_GROUP,
            {
                GroupKind.CONSUMER: ("consumer.classic_join", "join"),
                GroupKind.STREAMS: ("streams.classic_join", "join"),
            },
        ),
        _also(SYNC_GROUP, {GroupKind.CONSUMER: ("consumer.classic_members", "sync")}),
        _also(HEARTBEAT, {GroupKind.CONSUMER: ("consumer.classic_members", "heartbeat")}),
        _also(LEAVE_GROUP, {GroupKind.CONSUMER: ("consumer.classic_members", "leave")}),
        OFFSET_COMMIT,
        OFFSET_FETCH,
        OFFSET_DELETE,
        TRANSACTIONAL_COMMIT,
        DESCRIBE_GROUPS,
        _also(DELETE_GROUPS, {GroupKind.SHARE: ("share.deletion", "delete_share_group")}),
    )
}
"""Request type -> GroupApi, for requests to any broker."""

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
"""Name of a request type -> module in CORE and name of the row. A broker with only classic groups
never imports these modules."""


class _Rows(dict[type[GroupRequest], object]):
    """`GROUP_APIS`, extended by rows of `_LATE_ROWS` on first use."""

    def __missing__(self, request_type: type[GroupRequest]) -> object:
        module, name = _LATE_ROWS[request_type.__name__]
        row = getattr(import_module(f"{CORE}.{module}"), name)
        self[request_type] = row
        return row


class _RowOf(Protocol):
    def __call__(self, request_type: type[Q], /) -> GroupApi[Q, A]:
        """Return the row of a request type."""
        ...


row_of = cast("_RowOf", _Rows(GROUP_APIS).__getitem__)
"""`row_of(type(request))` returns the GroupApi of a request: each key is its row's
`request_type`."""
