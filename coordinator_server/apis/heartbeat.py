"""Heartbeat: a member is alive, and learns whether a rebalance has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import heartbeat_unknown, refuse_heartbeat
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import HEARTBEAT
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.heartbeat import HeartbeatRequest


def handle(broker: Broker, call: Call, request: HeartbeatRequest) -> None:
    """To the group's task. While a partition loads, its members are kept quiet with NONE."""
    groups = broker.groups
    task = groups.tasks.get(request.group_id)
    if task is not None:
        task.post(GroupMetadata.heartbeat, (request, call, call.reply), call.fail)
        return
    response = refuse_heartbeat(request)
    if response is None:
        error = groups.unavailable(request.group_id)
        if error is ErrorCode.NONE:
            response = heartbeat_unknown()
        elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            response = HEARTBEAT[ErrorCode.NONE]
        else:
            response = HEARTBEAT[error]
    call.reply(response)
