"""JoinGroup of a member that uses the classic protocol in a streams group.

A JoinGroup to an Empty group turns the group into a classic group. Source:
GroupMetadataManager.classicGroupJoin and maybeDeleteEmptyStreamsGroup.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic import join_group
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.responses import join_error
from coordinator_server.core.groups.settings import GroupKind
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup
    from protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse


def join(
    group: StreamsGroup,
    request: JoinGroupRequest,
    reply: Reply[JoinGroupResponse],
    now_ms: int,
    effects: Effects,
) -> None:
    """Handle a JoinGroup that passed `validate`.

    A request with a member id to an Empty group is answered as if the group were missing. In that
    case Kafka removes the group from memory without a record, until the log is loaded again; this
    broker keeps the group.
    """
    api_version = reply.caller.api_version
    if not group.is_empty:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        effects.reply(reply, join_error("", error, api_version))
        return
    if request.member_id:
        effects.reply(reply, join_group.missing(request, reply.caller))
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, join_error("", client_error(error), api_version))
            return
        assert isinstance(effects.group, GroupMetadata)
        deque(join_group.join(effects.group, request, reply, now_ms, effects), maxlen=0)

    blank: GroupMetadata = group.environment.in_place_of(GroupKind.CLASSIC, group)
    effects.write([*group.tombstones(), blank.record()], done)
