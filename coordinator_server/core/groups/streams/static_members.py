"""Static members of streams groups: temporary leave, and takeover of the instance id.

Source: getOrMaybeCreateStaticStreamsGroupMember and streamsGroupStaticMemberGroupLeave of
GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    refuse_unreleased,
)
from coordinator_server.core.groups.streams.assignors.spec import MemberTasks
from coordinator_server.core.groups.streams.member import NOTHING, CurrentTasks, StreamsMember
from coordinator_server.core.groups.streams.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup


def replaced(
    group: StreamsGroup, owner_id: str, member_id: str, records: list[CoordinatorRecord]
) -> tuple[StreamsMember, CurrentTasks]:
    """Return the member that takes over from a temporarily absent static member, and its tasks.

    Raises RefusedError if the owner of the instance id has not left.
    """
    owner, current = group.members[owner_id], group.current(owner_id)
    if current.epoch != STATIC_LEAVING_EPOCH:
        refuse_unreleased(member_id, owner.instance_id, owner_id)
    member = owner._replace(member_id=member_id)
    current = current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = group.targets.get(owner_id, MemberTasks())
    records += member_tombstones(group.group_id, owner_id)
    records.append(member_record(group.group_id, member))
    records.append(target_record(group.group_id, member_id, target))
    records.append(current_record(group.group_id, member_id, current))
    return member, current


def leave_for_a_while(group: StreamsGroup, member_id: str) -> list[CoordinatorRecord]:
    """Return the record of a static member that leaves temporarily.

    The member keeps its tasks until it returns or its session expires.
    """
    current = group.current(member_id)
    active = {
        subtopology_id: dict.fromkeys(partitions, 0)
        for subtopology_id, partitions in current.assigned.active.items()
    }
    away = current._replace(
        epoch=STATIC_LEAVING_EPOCH,
        assigned=current.assigned._replace(active=active),
        revoking=NOTHING,
    )
    return [current_record(group.group_id, member_id, away)]
