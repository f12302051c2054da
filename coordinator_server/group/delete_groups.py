"""DeleteGroups: a group without members ends, with all its offsets.

Source: GroupCoordinatorShard.deleteGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Cause, Outcome, Rebalance, Trigger
from coordinator_server.group.classic.state import DEAD, EMPTY
from coordinator_server.group.records import Record, group_tombstone, offset_tombstone
from coordinator_server.group.storage_errors import client_error
from protocol.apis.delete_groups import DeletableGroupResult
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Effects, Reply


def delete(group: GroupMetadata, reply: Reply, now_ms: int, effects: Effects) -> None:
    """Answer with a DeletableGroupResult; afterwards the group is Dead, unless it has members."""

    def step(now_ms: int, effects: Effects) -> None:
        _delete(group, reply, effects)

    effects.when_settled(step)


def _delete(group: GroupMetadata, reply: Reply, effects: Effects) -> None:
    if group.state is not EMPTY:
        unknown = group.state is DEAD
        error = ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.NON_EMPTY_GROUP
        effects.reply(reply, DeletableGroupResult(group_id=group.group_id, error_code=error))
        return
    records: list[Record] = [
        offset_tombstone(group.group_id, topic, partition)
        for topic, partitions in group.image.offsets.items()
        for partition in partitions
    ]
    records.append(group_tombstone(group.group_id))

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            end_group(group, Trigger.GROUP_DELETED, now_ms, effects)
            effects.event("group.deleted", group=group.group_id, offsets=len(records) - 1)
        result = DeletableGroupResult(group_id=group.group_id, error_code=client_error(error))
        effects.reply(reply, result)

    effects.write(records, done)


def end_group(group: GroupMetadata, why: Trigger, now_ms: int, effects: Effects) -> None:
    """The group is over: ids given out are worth nothing any more.

    Of a group that never had a generation nothing was told, and nothing is told now.
    """
    if group.generation_id:
        ended = Rebalance(Cause(why), group.generation_id, None, now_ms)
        effects.explain(ended.end(Outcome.DEAD, group.protocol_type, now_ms))
    group.purgatory.clear()
    group.roster.pending.clear()
    group.transition_to(DEAD, now_ms)
