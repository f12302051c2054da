"""OffsetDelete: delete offsets of topics without a subscribed member (KIP-496).

The handler has already dropped partitions that do not exist, as Kafka's handler does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi, has_group_id
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.records import offset_tombstone
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Steps


def refuse(_: OffsetDeleteRequest, __: Caller, error: ErrorCode) -> OffsetDeleteResponse:
    """Return a response that refuses the whole request."""
    return OffsetDeleteResponse(error_code=error)


def missing(request: OffsetDeleteRequest, caller: Caller) -> OffsetDeleteResponse:
    """Return GROUP_ID_NOT_FOUND for a group that does not exist."""
    return refuse(request, caller, ErrorCode.GROUP_ID_NOT_FOUND)


def offset_delete(
    group: Group,
    request: OffsetDeleteRequest,
    reply: Reply[OffsetDeleteResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Delete stored offsets. The request is exclusive, so all earlier commits are visible."""
    refusal = group.check_offset_delete()
    if refusal is not ErrorCode.NONE:
        effects.reply(reply, refuse(request, reply.caller, refusal))
        return
    records: list[CoordinatorRecord] = []
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        stored = group.offsets.partitions_of(topic.name)
        is_subscribed = group.is_subscribed(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        results: list[OffsetDeleteResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            if not is_subscribed and index in stored:
                records.append(offset_tombstone(group.group_id, topic.name, index))
            results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            if not len(results) % STEP_ITEMS:
                yield
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    response = OffsetDeleteResponse(topics=topics)
    if not records:
        effects.reply(reply, response)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            effects.reply(reply, response)
        else:
            effects.reply(reply, refuse(request, reply.caller, client_error(error)))

    effects.event("offsets.deleted", group=group.group_id, partitions=len(records))
    effects.write(records, done)


OFFSET_DELETE = GroupApi(
    request_type=OffsetDeleteRequest,
    serve=offset_delete,
    serves_every_kind=True,
    refuse=refuse,
    missing=missing,
    validate=has_group_id,
    exclusive=True,
    sees_deadlines=True,
)
