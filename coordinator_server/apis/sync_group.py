"""SyncGroup: members get their assignment; the leader brings all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import refuse_sync, sync_unknown
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import sync_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.sync_group import SyncGroupRequest


def handle(broker: Broker, call: Call, request: SyncGroupRequest) -> None:
    """To the group's task; parked there until the leader's assignment is written."""
    groups = broker.groups
    refused = refuse_sync(request, call.api_version)
    if refused is not None:
        call.reply(refused)
        return
    task = groups.tasks.get(request.group_id)
    if task is not None:
        task.post(GroupMetadata.sync, (request, call, call.reply), call.fail)
        return
    error = groups.unavailable(request.group_id)
    call.reply(sync_unknown() if error is ErrorCode.NONE else sync_error(error))
