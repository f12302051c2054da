"""Server-sent events."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

EventType = Literal[
    "reset", "group", "rebalance", "topic", "transaction", "broker", "clock", "connection", "fault"
]


class Event(TypedDict):
    """The data of one server-sent event of `GET /events`; its id is the event's id.

    | type | `data` |
    |---|---|
    | `reset` | nothing: events were lost or the broker was reset, so read the state again |
    | `group` | `group`, `type`, `state`, `generation`, `members`; state `Dead` if it was removed |
    | `rebalance` | the record of `__group_events` |
    | `topic` | `topic`, `partitions`; 0 partitions if it was deleted |
    | `transaction` | `transactional_id`, `state`, `producer_id` |
    | `broker` | `id`, `state` |
    | `clock` | as `GET /clock` |
    | `connection` | `id`, `remote`, `is_open` |
    | `fault` | `rule`, `action`, `api`, `remote`, `client_id`, `correlation_id` |
    """

    id: Annotated[int, "number of the event"]
    type: Annotated[EventType, "type"]
    at_ms: Annotated[int, "the broker's time of the event"]
    data: Annotated[dict[str, Any], "what happened"]
