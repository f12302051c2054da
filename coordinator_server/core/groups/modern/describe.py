"""The rows of the APIs that describe groups of one kind: ConsumerGroupDescribe and its like."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.core.groups.api import GroupApi, has_group_id
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.api import A, GroupRequest, Q, Serve
    from coordinator_server.core.groups.settings import GroupKind


def describe_api(
    kind: GroupKind,
    request_type: type[Q],
    described: Callable[..., A],
    describe: Serve[Q, A],
    **options: Any,
) -> GroupApi[Q, A]:
    """Return the row of an API that describes groups of one kind with `describe`.

    All other groups are answered with GROUP_ID_NOT_FOUND and a message; after one from
    ConsumerGroupDescribe, clients send DescribeGroups. `described` is the class of the response to
    one group, `options` are further fields of the row.
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
