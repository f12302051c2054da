"""The initialized partitions of a share group, as DescribeShareGroupOffsets needs them.

Source: initializedShareGroupPartitions of GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share.partitions import NO_STATES
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.share.partitions import SharedTopics
    from coordinator_server.core.groups.share.share_group import ShareGroup


class FetchInitialized(NamedTuple):
    """A request for the initialized partitions of one group."""

    group_id: str


class InitializedPartitions(NamedTuple):
    """The initialized partitions by topic id, or an error."""

    error: ErrorCode
    topics: SharedTopics


def refuse(_: FetchInitialized, __: Caller, error: ErrorCode) -> InitializedPartitions:
    """Return the error for a group that cannot be read now."""
    return InitializedPartitions(error, {})


def missing(request: FetchInitialized, caller: Caller) -> InitializedPartitions:
    """Return no partitions, for a missing group or a group of another kind."""
    return refuse(request, caller, ErrorCode.NONE)


def fetch(
    group: ShareGroup,
    _: FetchInitialized,
    reply: Reply[InitializedPartitions],
    now_ms: int,
    effects: Effects,
) -> None:
    """Reply with the group's initialized partitions."""
    topics = (group.states or NO_STATES).initialized
    effects.reply(reply, InitializedPartitions(ErrorCode.NONE, topics))


SHARE_GROUP_INITIALIZED = GroupApi(
    request_type=FetchInitialized,
    serve_kind={GroupKind.SHARE: fetch},
    refuse=refuse,
    missing=missing,
    at_once=True,
)
