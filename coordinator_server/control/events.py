"""The control request that follows events, see `feed`."""

from __future__ import annotations

import json

from coordinator_server.control.errors import ControlError, natural_number
from coordinator_server.control.feed import FeedEvent
from coordinator_server.control.rebalances import may_see
from coordinator_server.control.request import ControlRequest, EventStream


async def events(request: ControlRequest) -> EventStream:
    """GET /events: follow the events. Raises ControlError."""
    kinds = request.values["types"]
    wanted = None if kinds is None else {"reset", *kinds.split(",")}
    group = request.values["group"]

    def wants(event: FeedEvent) -> bool:
        if (wanted is not None and event.kind not in wanted) or not _may_see(request, event):
            return False
        return group is None or event.kind not in ("group", "rebalance") or event.name == group

    assert request.state is not None
    feed = request.state.feed
    return EventStream("text/event-stream", feed.listen(_last_number(request), wants))


def _may_see(request: ControlRequest, event: FeedEvent) -> bool:
    """Return whether the ACLs of the user allow an event."""
    if event.kind == "group" or (event.kind == "rebalance" and request.user is None):
        return request.sees_group(event.name)
    if event.kind == "rebalance":
        record = json.loads(event.json)["data"]
        return request.sees_group(event.name) and may_see(request, record)
    if event.kind == "topic":
        return request.sees_topic(event.name)
    if event.kind == "transaction":
        return request.allows("DESCRIBE", "TRANSACTIONAL_ID", event.name)
    return event.kind == "reset" or request.allows("DESCRIBE", "CLUSTER", "kafka-cluster")


def _last_number(request: ControlRequest) -> int | None:
    number = request.values["last_event_id"]
    text = request.headers.get("last-event-id")
    if number is not None or text is None:
        return None if number is None else int(number)
    parsed = natural_number(text)
    if parsed is None:
        raise ControlError(400, f"Last-Event-ID: {text[:100]} is not a number")
    return parsed
