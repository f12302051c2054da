"""What lies in the mailbox of a group: requests on their way, and the coordinator's own operations.

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
    from coordinator_server.core.groups.effects import Effects, Steps
    from coordinator_server.core.groups.group import Group
    from protocol.errors import ErrorCode


Answer = TypeVar("Answer", contravariant=True)


class GroupCall(Protocol[Answer]):
    """The caller of a request and the way back: a `net.call.Call`, or a part of one."""

    @property
    def caller(self) -> Caller:
        """Who sent the request."""

    @property
    def is_large(self) -> bool:
        """Whether the request may take long, so that it has to be handled in steps."""

    def reply(self, response: Answer, /) -> None:
        """Answer the request; once."""

    def fail(self) -> None:
        """Answer the request with UNKNOWN_SERVER_ERROR, unless it is answered."""


class Submitter(Protocol):
    """Takes requests to their groups: the GroupCoordinator, as an operation sees it."""

    def submit(self, call: GroupCall[A], request: Q) -> None:
        """Bring a request to its group."""


class GroupOperation(Protocol):
    """One entry of a mailbox.

    An `exclusive` operation shares no drain with others: it sees the durable state exactly as the
    log has it. One that `is_large` is exclusive too, and runs in steps between turns of the loop.
    """

    @property
    def is_exclusive(self) -> bool:
        """Whether everything before it is settled first, and it before everything after it."""

    @property
    def is_large(self) -> bool:
        """Whether it has to run in steps."""

    @property
    def is_at_once(self) -> bool:
        """Whether it is applied at once if nothing else waits."""

    @property
    def sees_deadlines(self) -> bool:
        """Whether timers that are due have to run first."""

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Steps | None:
        """Apply it, or return its work as steps."""

    def resubmit(self, submitter: Submitter) -> None:
        """The group has ended before it: a request is submitted again."""

    def refuse(self, error: ErrorCode) -> None:
        """Not applied: answer the request, if it is one, with `error`."""

    def fail(self) -> None:
        """A bug prevents it: answer the request, if it is one, with UNKNOWN_SERVER_ERROR."""


class LargeOperation(NamedTuple):
    """An operation that runs in steps, and the remaining steps."""

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

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Steps | None:
        """Have the core serve the request."""
        api = self._api
        serve: Serve[Q, A] = api.serve
        if group.kind is not GroupKind.CLASSIC:
            if group.kind in api.serve_kind:
                serve = api.serve_kind[group.kind]
            elif not api.serves_every_kind:
                answer = api.wrong_kind or api.missing
                effects.reply(self, answer(self.request, self.caller))
                return None
        return serve(group, self.request, self, now_ms, effects)

    def resubmit(self, submitter: Submitter) -> None:
        """Bring the request to the group that has its id now, if there is one."""
        submitter.submit(self.call, self.request)

    def send(self) -> None:
        """Send the response."""
        self.call.reply(self.response)

    def refuse(self, error: ErrorCode) -> None:
        """Send a response that carries an error."""
        self.call.reply(self._api.refuse(self.request, self.caller, error))

    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR, unless the request is answered."""
        self.call.fail()


class InternalOperation:
    """An operation of the coordinator itself; no caller waits for it."""

    __slots__ = ("_apply", "is_at_once", "is_exclusive", "is_large", "sees_deadlines")

    def __init__(
        self,
        apply: Callable[[Group, int, Effects], Steps | None],
        *,
        is_exclusive: bool = False,
        is_large: bool = False,
    ) -> None:
        self._apply = apply
        self.is_exclusive = is_exclusive
        self.is_large = is_large
        self.is_at_once = self.sees_deadlines = False

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Steps | None:
        """Apply it, or return its work as steps."""
        return self._apply(group, now_ms, effects)

    def resubmit(self, submitter: Submitter) -> None:
        """It concerned the group that has ended."""

    def refuse(self, error: ErrorCode) -> None:
        """Nothing waits for it."""

    def fail(self) -> None:
        """Nothing waits for it; the group is reloaded after a bug."""


def _expire_timers(group: Group, now_ms: int, effects: Effects) -> Steps | None:
    return group.expire_timers(now_ms, effects)  # that of its kind


EXPIRE_TIMERS = InternalOperation(_expire_timers)
"""Runs the delayed operations whose deadline has come."""

UNLOAD = InternalOperation(unload)
"""Answers what is parked, and ends the group here."""
