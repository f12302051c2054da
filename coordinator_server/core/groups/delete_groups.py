"""DeleteGroups: delete a group without members, and all its offsets.

Source: GroupCoordinatorShard.deleteGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.explain import Trigger
from coordinator_server.core.groups.modern import account
from coordinator_server.core.groups.records import (
    CoordinatorRecord,
    offset_tombstone,
)
from protocol.apis.delete_groups import DeletableGroupResult
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Steps


class DeleteGroup(NamedTuple):
    """One group of a DeleteGroups request."""

    group_id: str


def refuse(request: DeleteGroup, _: Caller, error: ErrorCode) -> DeletableGroupResult:
    """Return the result for a group that cannot be deleted."""
    return DeletableGroupResult(group_id=request.group_id, error_code=error)


def missing(request: DeleteGroup, caller: Caller) -> DeletableGroupResult:
    """Return GROUP_ID_NOT_FOUND for a group that does not exist."""
    return refuse(request, caller, ErrorCode.GROUP_ID_NOT_FOUND)


def delete(
    group: Group,
    request: DeleteGroup,
    reply: Reply[DeletableGroupResult],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Write the tombstones of the group and its offsets; the group is then Dead.

    Replies NON_EMPTY_GROUP if the group has members. The request is exclusive (`GroupApi`).
    """
    if not group.is_empty:
        effects.reply(reply, refuse(request, reply.caller, ErrorCode.NON_EMPTY_GROUP))
        return
    records: list[CoordinatorRecord] = []
    offsets = group.offsets
    for topic in (*offsets.by_topic, *(offsets.pending.by_topic.keys() - offsets.by_topic.keys())):
        for partition in offsets.partitions_of(topic):
            records.append(offset_tombstone(group.group_id, topic, partition))
            if not len(records) % STEP_ITEMS:
                yield
    offset_records = len(records)
    records += group.tombstones()

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            assert effects.group is not None
            account.ended(group, Trigger.GROUP_DELETED, now_ms, effects)
            effects.group.end(Trigger.GROUP_DELETED, now_ms, effects)
            effects.event("group.deleted", group=group.group_id, offsets=offset_records)
        effects.reply(reply, refuse(request, reply.caller, client_error(error)))

    effects.write(records, done)


DELETE_GROUPS = GroupApi(
    request_type=DeleteGroup,
    serve=delete,
    serves_every_kind=True,
    refuse=refuse,
    missing=missing,
    exclusive=True,
    at_once=True,
    sees_deadlines=True,
)
