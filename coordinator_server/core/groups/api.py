"""GroupApi: how the coordinator treats the requests of one group API.

Each API's module declares its `GroupApi` beside the code that serves the API;
`coordinator.group_apis` is the table of all these objects. A request that names several groups is
first split into one request per group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.settings import GroupKind, GroupSettings
    from coordinator_server.steps import Computation


class GroupRequest(Protocol):
    """A request to one group."""

    @property
    def group_id(self) -> str:
        """The id of the group."""


Q = TypeVar("Q", bound=GroupRequest)
A = TypeVar("A")

Serve = Callable[[Any, Q, "Reply[A]", int, "Effects"], "Computation[object] | None"]
"""`serve(group, request, reply, now_ms, effects)` for one kind of group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApi(Generic[Q, A]):
    """The table row of one API: requests of type `Q`, responses of type `A`.

    - `serve(group, request, reply, now_ms, effects)` serves a request to a classic group, or to a
      group of any kind if `serves_every_kind` is set. If the work may be long, `serve` returns the
      rest of the work as steps. None means that the API does not serve classic groups.
    - `serve_kind` maps other kinds of groups to the functions that serve them;
      `coordinator.group_apis` adds kinds that the API's own module does not know.
    - `wrong_kind` builds the response for a group of a kind that the API does not serve; if
      `wrong_kind` is None, `missing` builds this response.
    - `refuse(request, caller, error)` builds a response with an error.
    - `missing(request, caller)` builds the response for a group that does not exist.
    - `protocol`: the request fails with UNSUPPORTED_VERSION if the settings disable this protocol.
    - `validate` returns the error of a request that is invalid for every group. If the response to
      an invalid request depends on the settings, `refuse_invalid` builds that response.
    - `creates_group` returns whether the request creates a missing group.
    - `exclusive`: the request shares no append with other requests, so that it sees exactly the
      state in the log (used for deletions).
    - `at_once`: the request is applied immediately if no other request is waiting, because sharing
      a write saves nothing.
    - `sees_deadlines`: due timers run before the request, unless the request names a member, so
      that an administrator does not see members whose sessions have expired.
    - `error_while_loading` is the error while the group is loaded; Heartbeat overrides it.
    """

    request_type: type[Q]
    refuse: Callable[[Q, Caller, ErrorCode], A]
    missing: Callable[[Q, Caller], A]
    serve: (
        Callable[[GroupMetadata, Q, Reply[A], int, Effects], Computation[object] | None] | None
    ) = None
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


def has_group_id(request: GroupRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return INVALID_GROUP_ID for an empty group id, which only the classic protocol allows."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


NOT_REQUESTED = -(2**31)
"""The value in responses to requests that did not ask for the operations."""


def describe_api(
    kind: GroupKind,
    request_type: type[Q],
    described: Callable[..., A],
    describe: Serve[Q, A],
    **options: Any,
) -> GroupApi[Q, A]:
    """Return the row of an API that describes groups of one kind with `describe`.

    A group of another kind gets GROUP_ID_NOT_FOUND and a message; after this error from
    ConsumerGroupDescribe, clients send DescribeGroups. `described` is the class of one group in the
    response, `options` are further fields of the row.
    """
    is_not = f"Group {{}} is not a {kind.value} group."
    row: dict[str, Any] = {
        "serve_kind": {kind: describe},
        "refuse": partial(refuse, described),
        "missing": partial(_not_found, described, "Group {} not found."),
        "wrong_kind": partial(_not_found, described, is_not),
        "validate": has_group_id,
        "at_once": True,
        "sees_deadlines": True,
    }
    return GroupApi(request_type=request_type, **(row | options))


def refuse(described: Callable[..., A], request: GroupRequest, _: Caller, error: ErrorCode) -> A:
    """Return the error for a group that cannot be described now."""
    return described(group_id=request.group_id, error_code=error)


def _not_found(described: Callable[..., A], message: str, request: GroupRequest, _: Caller) -> A:
    return described(
        group_id=request.group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message.format(request.group_id),
    )
