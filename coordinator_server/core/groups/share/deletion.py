"""DeleteGroups of a share group: delete its share-partition state, then the group.

Source: deleteShareGroups of GroupCoordinatorService, shareGroupBuildPartitionDeleteRequest of
GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.delete_groups import delete, refuse
from coordinator_server.core.groups.effects import AssignedSharePartition, StateCall
from coordinator_server.core.groups.share.partitions import PartitionStates, SharedTopic, combined
from coordinator_server.core.groups.share.records import states_record
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.delete_groups import DeleteGroup
    from coordinator_server.core.groups.effects import Effects, Reply, StateErrors
    from coordinator_server.core.groups.share.partitions import SharedTopics
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Steps
    from protocol.apis.delete_groups import DeletableGroupResult


def delete_share_group(
    group: ShareGroup,
    request: DeleteGroup,
    reply: Reply[DeletableGroupResult],
    now_ms: int,
    effects: Effects,
) -> Steps | None:
    """Mark every partition as being deleted and call the share coordinator, then delete the group.

    A group with members or without share-partition state is passed to `delete` directly.
    """
    topics = _with_state(group)
    if not group.is_empty or not topics:
        return delete(group, request, reply, now_ms, effects)

    def written(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, refuse(request, reply.caller, client_error(error)))
            return
        partitions = [
            AssignedSharePartition(topic_id, partition)
            for topic_id, topic in topics.items()
            for partition in sorted(topic.partitions)
        ]
        effects.ask(StateCall(dict.fromkeys(partitions, 0), None, answered, reply))

    def answered(
        group: ShareGroup, errors: StateErrors, now_ms: int, effects: Effects
    ) -> Steps | None:
        for error in errors.values():  # the group stays; the client can retry the deletion
            effects.reply(reply, refuse(request, reply.caller, error))
            return None
        return delete(group, request, reply, now_ms, effects)

    deleting = {topic_id: topic.name for topic_id, topic in topics.items()}
    record = states_record(group.group_id, PartitionStates(deleting=deleting))
    effects.write([record], written)
    return None


def _with_state(group: ShareGroup) -> SharedTopics:
    """Return all partitions that may have state, also after an earlier deletion that failed."""
    if group.states is None:
        return {}
    initializing, initialized, deleting = group.states
    topics = group.environment.topics
    again = {
        topic_id: SharedTopic(topic.name, frozenset(range(len(topic.partitions))))
        for topic_id in deleting
        if (topic := topics.topic_by_id(topic_id)) is not None
    }
    with_state = combined(combined(initialized, initializing), again)
    return {topic_id: topic for topic_id, topic in with_state.items() if topic.partitions}
