"""OffsetFetch: the committed offsets of one group (up to version 7) or of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import Gathering
from coordinator_server.group.admission import fetch_unknown
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.offset_fetch import fetch_groups, fetch_response
from coordinator_server.group.responses import fetch_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponseGroup


def handle(broker: Broker, call: Call, request: OffsetFetchRequest) -> None:
    """To the task of each group; the answer goes out when all of them have told."""
    coordinator = broker.groups
    wanted = fetch_groups(request, call.api_version)

    def finish(groups: Sequence[OffsetFetchResponseGroup]) -> None:
        call.reply(fetch_response(request, list(groups), call.api_version))

    gathering = Gathering(call, len(wanted), finish)
    for index, one in enumerate(wanted):
        task = coordinator.tasks.get(one.group_id)
        if task is not None:
            arguments = (one, call, gathering.taker(index))
            task.post(GroupMetadata.fetch, arguments, gathering.fail)
            continue
        error = coordinator.unavailable(one.group_id)
        known = error is ErrorCode.NONE
        gathering.take(index, fetch_unknown(one) if known else fetch_error(one.group_id, error))
