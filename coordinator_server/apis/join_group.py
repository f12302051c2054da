"""JoinGroup: become a member; answered when the join phase of the group ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import creates_group, join_unknown, refuse_join
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import join_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.join_group import JoinGroupRequest


def handle(broker: Broker, call: Call, request: JoinGroupRequest) -> None:
    """To the group's task; a join without member id makes the group."""
    groups = broker.groups
    refused = refuse_join(request, call.api_version, groups.settings)
    if refused is not None:
        call.reply(refused)
        return
    task = groups.tasks.get(request.group_id)
    if task is None:
        error = groups.unavailable(request.group_id)
        if error is not ErrorCode.NONE:
            call.reply(join_error(request.member_id, error, call.api_version))
            return
        if not creates_group(request):
            call.reply(join_unknown(request, call.api_version))
            return
        task = groups.create(request.group_id)
    task.post(GroupMetadata.join, (request, call, call.reply), call.fail)
