"""Responses of JoinGroup and SyncGroup, shared by modules of the classic protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.apis.sync_group import SyncGroupResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import MemberMetadata
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects

NULL_PROTOCOL_NAME_SINCE = 7


def join_error(member_id: str, error: ErrorCode, api_version: int) -> JoinGroupResponse:
    """Return a JoinGroup error; the protocol name is null since v7, "" before (KIP-559)."""
    return JoinGroupResponse(
        error_code=error,
        member_id=member_id,
        protocol_name=None if api_version >= NULL_PROTOCOL_NAME_SINCE else "",
    )


def join_response(
    group: GroupMetadata,
    member: MemberMetadata,
    members: list[JoinGroupResponseMember],
    *,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Return the JoinGroup response of the current generation; `leader_id` overrides the leader."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=(group.membership.leader_id if leader_id is None else leader_id) or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=members,
    )


def members_for_leader(group: GroupMetadata) -> list[JoinGroupResponseMember]:
    """Return all members with their metadata for the selected protocol, for the leader."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_for(group.protocol_name),
        )
        for member in group.membership.members.values()
    ]


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup response with `error`, without protocol and assignment."""
    return SyncGroupResponse(error_code=error)


def refuse_parked(
    group: GroupMetadata, member: MemberMetadata, error: ErrorCode, effects: Effects
) -> None:
    """Answer the parked JoinGroup and SyncGroup of a member with an error."""
    joining = group.membership.take_join(member)
    if joining is not None:
        effects.reply(joining, join_error(member.member_id, error, joining.caller.api_version))
    if member.awaiting_sync is not None:
        effects.reply(member.awaiting_sync, sync_error(error))
        member.awaiting_sync = None


def sync_response(group: GroupMetadata, member: MemberMetadata) -> SyncGroupResponse:
    """Return a successful SyncGroup response with the member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
