"""Remembers the requests of members of groups, to link rebalances to their causes."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any

from coordinator_server.core.groups.explain import Trigger

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from coordinator_server.core.groups.explain import Cause

    _Contexts = OrderedDict[tuple[str, str], dict[str, SpanContext]]

MOST_MEMBERS = 10_000
MOST_CHARACTERS = 256
"""Limit of a group id, and of a member id: longer ones are not remembered."""

MOST_IN_REQUEST = 100
"""Limit of the members of one LeaveGroup that are remembered."""

JOIN, LEAVE, ALIVE = "join", "leave", "alive"
"""Kinds of requests of a member."""

MEMBERSHIP = frozenset(("JoinGroup", "SyncGroup", "LeaveGroup"))
"""APIs of membership, whose requests are always traced."""

_HEARTBEATS = frozenset(("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"))
_APIS = MEMBERSHIP | _HEARTBEATS | {"Heartbeat"}
_KINDS = {"JoinGroup": JOIN, "LeaveGroup": LEAVE}
_FIRST = {
    Trigger.MEMBER_LEFT: (LEAVE, ALIVE, JOIN),
    Trigger.MEMBER_EXPIRED: (ALIVE, JOIN),
    Trigger.MEMBER_NEVER_SYNCED: (ALIVE, JOIN),
    Trigger.NEVER_REJOINED: (ALIVE, JOIN),
    Trigger.STALLED: (ALIVE, JOIN),
}
_OTHERS = (JOIN, ALIVE, LEAVE)


def kind_of(api: str, request: Any) -> str | None:
    """Return the kind of a request; None if the request is not one of a member."""
    if api not in _APIS:
        return None
    if api in _HEARTBEATS:
        if request.member_epoch < 0:
            return LEAVE
        # A heartbeat with a subscription changes the group, others only keep the member alive.
        is_join = request.member_epoch == 0 or (
            getattr(request, "subscribed_topic_names", None) is not None
        )
        return JOIN if is_join else ALIVE
    return _KINDS.get(api, ALIVE)


def member_ids(request: Any) -> list[str]:
    """Return the ids, or the instance ids, of the members that a request is about.

    Only the first MOST_IN_REQUEST members are returned.
    """
    members = getattr(request, "members", None)
    if members:  # LeaveGroup from version 3 on
        return [
            member.member_id or member.group_instance_id or ""
            for member in islice(members, MOST_IN_REQUEST)
        ]
    return [getattr(request, "member_id", None) or ""]


class Members:
    """The span contexts of the last sampled request of each kind, by group and member.

    A request in progress counts as well, because LeaveGroup may end a rebalance before its
    response. Requests that are answered with an error are forgotten, so that clients without
    access to a group do not displace its members.
    """

    def __init__(self) -> None:
        self._answered: _Contexts = OrderedDict()
        self._in_progress: _Contexts = OrderedDict()

    def begin(self, group: str, member: str, kind: str, context: SpanContext) -> None:
        """Remember a request in progress."""
        _note(self._in_progress, group, member, kind, context)

    def end(
        self, group: str, member: str, kind: str, context: SpanContext, *, is_error: bool
    ) -> None:
        """Remember a request that is answered, unless with an error."""
        key = group, member
        started = self._in_progress.get(key)
        if started is not None and started.get(kind) == context:
            del started[kind]
            if not started:
                del self._in_progress[key]
        if not is_error:
            _note(self._answered, group, member, kind, context)

    def cause(self, group: str, cause: Cause) -> SpanContext | None:
        """Return the request that caused a rebalance; None if it is not known."""
        kinds = _FIRST.get(cause.trigger, _OTHERS)
        for member in (cause.member_id, cause.group_instance_id or ""):
            key = group, member
            contexts = self._answered.get(key, {}) | self._in_progress.get(key, {})
            for kind in kinds:
                if kind in contexts:
                    return contexts[kind]
        return None


def _note(known: _Contexts, group: str, member: str, kind: str, context: SpanContext) -> None:
    """Remember a request. An empty member id is ignored, and ids that are too long."""
    if not member or max(len(group), len(member)) > MOST_CHARACTERS:
        return
    key = group, member
    contexts = known.get(key)
    if contexts is None:
        contexts = known[key] = {}
        if len(known) > MOST_MEMBERS:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    contexts[kind] = context
