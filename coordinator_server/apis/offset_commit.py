"""OffsetCommit: store how far a group has read; answered when it is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.admission import commit_unknown, creates_group
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.responses import commit_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.offset_commit import OffsetCommitRequest


def handle(broker: Broker, call: Call, request: OffsetCommitRequest) -> None:
    """To the group's task; a commit without a generation makes the group."""
    groups = broker.groups
    partition_count = broker.topics.partition_count
    task = groups.tasks.get(request.group_id)
    if task is None:
        error = groups.unavailable(request.group_id)
        if error is not ErrorCode.NONE:
            call.reply(commit_error(request, error))
            return
        if not creates_group(request):
            call.reply(commit_unknown(request, call.api_version, partition_count))
            return
        task = groups.create(request.group_id)
    arguments = (request, call, call.reply, partition_count)
    task.post(GroupMetadata.commit, arguments, call.fail)
