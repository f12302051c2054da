"""The table row of a group API: how the coordinator treats its requests.

Each API's module declares its row beside the code that serves it; `coordinator.group_apis` is the
table. A request of an API that asks for several groups is split into one request per group first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply, Steps
    from coordinator_server.group.settings import GroupSettings


class GroupRequest(Protocol):
    """A request to one group."""

    @property
    def group_id(self) -> str:
        """The id of the group."""


Q = TypeVar("Q", bound=GroupRequest)
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApi(Generic[Q, A]):
    """One row: requests of type `Q`, responses of type `A`.

    `serve(group, request, reply, now_ms, effects)` is the method of the core; it returns the rest
    of its work as steps where that may be long. `refuse(request, caller, error)` makes a response
    that carries an error, `missing(request, caller)` that for a group that does not exist.
    `validate` says what is wrong with a request whatever the group, `creates_group` whether a
    missing group is made. An `exclusive` request sees the durable state exactly as the log has it
    (deletion): it shares no drain. A `read_only` one writes no record. Heartbeat alone has another
    `error_while_loading`.
    """

    request_type: type[Q]
    serve: Callable[[GroupMetadata, Q, Reply[A], int, Effects], Steps | None]
    refuse: Callable[[Q, Caller, ErrorCode], A]
    missing: Callable[[Q, Caller], A]
    validate: Callable[[Q, Caller, GroupSettings], ErrorCode] | None = None
    creates_group: Callable[[Q], bool] | None = None
    exclusive: bool = False
    read_only: bool = False
    error_while_loading: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
