"""OffsetDelete: drop committed offsets of topics that nobody in the group reads (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import offset_delete_unknown, refuse_offset_delete
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import offset_delete_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.offset_delete import OffsetDeleteRequest


def handle(broker: Broker, call: Call, request: OffsetDeleteRequest) -> None:
    """To the group's task."""
    groups = broker.groups
    partition_count = broker.topics.partition_count
    refused = refuse_offset_delete(request)
    if refused is not None:
        call.reply(refused)
        return
    task = groups.tasks.get(request.group_id)
    if task is not None:
        arguments = (request, call, call.reply, partition_count)
        task.post(GroupMetadata.offset_delete, arguments, call.fail)
        return
    error = groups.unavailable(request.group_id)
    unknown = error is ErrorCode.NONE
    call.reply(offset_delete_unknown() if unknown else offset_delete_error(error))
