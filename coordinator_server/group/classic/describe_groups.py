"""DescribeGroups and ListGroups: what a group shows of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import STABLE
from protocol.apis.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.apis.list_groups import ListedGroup

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Effects, Reply

GROUP_TYPE = "classic"


def describe(group: GroupMetadata, reply: Reply, now_ms: int, effects: Effects) -> None:
    """Answer with a DescribedGroup.

    Protocol and metadata show in Stable only; the last assignments show in every state.
    """
    is_stable = group.state is STABLE
    effects.reply(
        reply,
        DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=(
                        member.metadata_for(group.protocol_name) if is_stable else b""
                    ),
                    member_assignment=member.assignment,
                )
                for member in group.roster.members.values()
            ],
        ),
    )


def list_entry(group: GroupMetadata) -> ListedGroup:
    """The group's line in ListGroups; nothing changes, so it may be called at any time."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )


def is_listed(entry: ListedGroup, states: Sequence[str], types: Sequence[str]) -> bool:
    """Whether an entry passes the filters of ListGroups; case does not matter, empty passes all."""
    return _passes(entry.group_state, states) and _passes(entry.group_type, types)


def _passes(value: str, wanted: Sequence[str]) -> bool:
    return not wanted or value.lower() in {one.lower() for one in wanted}
