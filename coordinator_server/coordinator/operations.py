"""Entries of a group's mailbox: pending requests and internal operations of the coordinator.

Source: CoordinatorRuntime's CoordinatorWriteEvent and CoordinatorInternalEvent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from coordinator_server.core.groups.api import A, Q
from coordinator_server.core.groups.effects import Reply
from coordinator_server.core.groups.kinds import unload
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.api import GroupApi, Serve
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Computation
    from protocol.errors import ErrorCode


Answer = TypeVar("Answer", contravariant=True)


class GroupCall(Protocol[Answer]):
    """The caller of a request and the means to respond: a `net.call.Call` or a part of a call."""

    @property
    def caller(self) -> Caller:
        """The client that sent the request."""

    @property
    def is_large(self) -> bool:
        """Whether the request may take long and must be handled in steps."""

    def reply(self, response: Answer, /) -> None:
        """Send the response. Call this once."""

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR, unless a response has been sent."""


class Submitter(Protocol):
    """Routes requests to groups; implemented by GroupCoordinator."""

    def submit(self, call: GroupCall[A], request: Q) -> None:
        """Route a request to its group."""


class GroupOperation(Protocol):
    """One entry of a group's mailbox.

    The records of an exclusive operation are appended separately from the records of other
    operations, so that the operation sees exactly the state in the log. A large operation is also
    exclusive, and runs in steps on the event loop.
    """

    @property
    def is_exclusive(self) -> bool:
        """Whether the operation shares no append with earlier or later operations."""

    @property
    def is_large(self) -> bool:
        """Whether the operation must run in steps."""

    @property
    def is_at_once(self) -> bool:
        """Whether the operation is applied immediately if the mailbox is empty."""

    @property
    def sees_deadlines(self) -> bool:
        """Whether timers that are due must run before the operation."""

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Computation[object] | None:
        """Apply the operation, or return its work as steps."""

    def resubmit(self, submitter: Submitter) -> None:
        """Submit the request again because the group has ended; other operations are dropped."""

    def refuse(self, error: ErrorCode) -> None:
        """Answer the request with `error` without applying the operation."""

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR after an unexpected exception."""


class LargeOperation(NamedTuple):
    """A running large operation and its remaining steps."""

    operation: GroupOperation
    steps: Generator[None, None, None]


class PendingRequest(Reply[A], Generic[Q, A]):
    """A request to one group, from its submission to its response."""

    __slots__ = (
        "_api",
        "call",
        "is_at_once",
        "is_exclusive",
        "is_large",
        "request",
        "sees_deadlines",
    )

    def __init__(self, api: GroupApi[Q, A], call: GroupCall[A], request: Q) -> None:
        self._api = api
        self.call = call
        self.request = request
        self.caller = call.caller
        self.is_exclusive = api.exclusive
        self.is_at_once = api.at_once
        self.is_large = call.is_large
        self.sees_deadlines = api.sees_deadlines and not getattr(request, "member_id", "")

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Computation[object] | None:
        """Serve the request with the function for the group's kind."""
        api = self._api
        serve: Serve[Q, A] | None = api.serve
        if group.kind is not GroupKind.CLASSIC:
            serve = api.serve_kind.get(group.kind, serve if api.serves_every_kind else None)
        if serve is None:
            answer = api.wrong_kind or api.missing
            effects.reply(self, answer(self.request, self.caller))
            return None
        return serve(group, self.request, self, now_ms, effects)

    def resubmit(self, submitter: Submitter) -> None:
        """Submit the request again, to the group that has the id now, if any."""
        submitter.submit(self.call, self.request)

    def send(self) -> None:
        """Send the response."""
        self.call.reply(self.response)

    def refuse(self, error: ErrorCode) -> None:
        """Send a response with an error."""
        self.call.reply(self._api.refuse(self.request, self.caller, error))

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR, unless a response has been sent."""
        self.call.fail()


class InternalOperation:
    """An operation of the coordinator itself; no client waits for a response."""

    __slots__ = ("_apply", "is_at_once", "is_exclusive", "is_large", "sees_deadlines")

    def __init__(
        self,
        apply: Callable[[Group, int, Effects], Computation[object] | None],
        *,
        is_exclusive: bool = False,
        is_large: bool = False,
    ) -> None:
        self._apply = apply
        self.is_exclusive = is_exclusive
        self.is_large = is_large
        self.is_at_once = self.sees_deadlines = False

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Computation[object] | None:
        """Apply the operation, or return its work as steps."""
        return self._apply(group, now_ms, effects)

    def resubmit(self, submitter: Submitter) -> None:
        """Do nothing: the operation applied only to the group that has ended."""

    def refuse(self, error: ErrorCode) -> None:
        """Do nothing: no client waits for a response."""

    def fail(self) -> None:
        """Do nothing: no client waits for a response. The caller reloads the group."""


def _expire_timers(group: Group, now_ms: int, effects: Effects) -> Computation[object] | None:
    return group.expire_timers(now_ms, effects)


EXPIRE_TIMERS = InternalOperation(_expire_timers)
"""Runs the delayed operations whose deadline has passed."""

UNLOAD = InternalOperation(unload)
"""Answers parked requests and unloads the group from this broker."""
