"""The table row of a group API: how the coordinator treats its requests.

Each API's module declares its row beside the code that serves it; `coordinator.group_apis` is the
table. A request of an API that asks for several groups is split into one request per group first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply, Steps
    from coordinator_server.core.groups.settings import GroupKind, GroupSettings


class GroupRequest(Protocol):
    """A request to one group."""

    @property
    def group_id(self) -> str:
        """The id of the group."""


Q = TypeVar("Q", bound=GroupRequest)
A = TypeVar("A")

Serve = Callable[[Any, Q, "Reply[A]", int, "Effects"], "Steps | None"]
"""`serve(group, request, reply, now_ms, effects)` for a kind of group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApi(Generic[Q, A]):
    """One row: requests of type `Q`, responses of type `A`.

    `serve(group, request, reply, now_ms, effects)` is the method of the core; it returns the rest
    of its work as steps where that may be long. It serves classic groups, and groups of every kind
    with `serves_every_kind`. `serve_kind` has functions for single kinds; `coordinator.group_apis`
    adds those of kinds that the module of the row does not know. A group of a kind that an API does
    not serve is answered for by `wrong_kind`, or as if it did not exist.
    `refuse(request, caller, error)` makes a response that carries an error,
    `missing(request, caller)` that for a group that does not exist.
    With a `protocol` it is refused (UNSUPPORTED_VERSION) where the settings have that off.
    `validate` says what is wrong with a request whatever the group; `refuse_invalid` makes the
    response to it where that needs the settings. `creates_group` says whether a missing group is
    made. An `exclusive` request sees the durable state exactly as the log has it
    (deletion): it shares no drain. One that is `at_once` is applied at once when nothing else
    waits: it gains nothing by sharing a write. One that `sees_deadlines` is served after timers
    that are due, unless it names a member: an administrator must not meet a member whose session is
    over. Heartbeat alone has another `error_while_loading`.
    """

    request_type: type[Q]
    serve: Callable[[GroupMetadata, Q, Reply[A], int, Effects], Steps | None]
    refuse: Callable[[Q, Caller, ErrorCode], A]
    missing: Callable[[Q, Caller], A]
    wrong_kind: Callable[[Q, Caller], A] | None = None
    protocol: GroupKind | None = None
    validate: Callable[[Q, Caller, GroupSettings], ErrorCode] | None = None
    refuse_invalid: Callable[[Q, Caller, ErrorCode, GroupSettings], A] | None = None
    creates_group: Callable[[Q], bool] | None = None
    exclusive: bool = False
    at_once: bool = False
    sees_deadlines: bool = False
    serve_kind: Mapping[GroupKind, Serve[Q, A]] = field(default_factory=dict)
    serves_every_kind: bool = False
    error_while_loading: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
