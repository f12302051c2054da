"""LeaveGroup: members go, one up to version 2, a list of them since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import leave_unknown, refuse_leave
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import leave_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.leave_group import LeaveGroupRequest


def handle(broker: Broker, call: Call, request: LeaveGroupRequest) -> None:
    """To the group's task."""
    groups = broker.groups
    task = groups.tasks.get(request.group_id)
    if task is not None:
        task.post(GroupMetadata.leave, (request, call, call.reply), call.fail)
        return
    response = refuse_leave(request)
    if response is None:
        error = groups.unavailable(request.group_id)
        if error is ErrorCode.NONE:
            response = leave_unknown(request, call.api_version)
        else:
            response = leave_error(error)
    call.reply(response)
