"""The table of group APIs: how each request reaches its group, and what it is answered without one.

`GroupCoordinator.submit` goes by this table alone. Source: GroupCoordinatorService, which does the
same by hand for each API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from coordinator_server.group.api import A, GroupApi, GroupRequest, Q
from coordinator_server.group.classic.describe_groups import DESCRIBE_GROUPS
from coordinator_server.group.classic.heartbeat import HEARTBEAT
from coordinator_server.group.classic.join_group import JOIN_GROUP
from coordinator_server.group.classic.leave_group import LEAVE_GROUP
from coordinator_server.group.classic.sync_group import SYNC_GROUP
from coordinator_server.group.delete_groups import DELETE_GROUPS
from coordinator_server.group.offset_commit import OFFSET_COMMIT
from coordinator_server.group.offset_delete import OFFSET_DELETE
from coordinator_server.group.offset_fetch import OFFSET_FETCH

if TYPE_CHECKING:
    from coordinator_server.coordinator.operations import GroupCall

GROUP_APIS: dict[type[GroupRequest], object] = {
    api.request_type: api
    for api in (
        JOIN_GROUP,
        SYNC_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        OFFSET_DELETE,
        DESCRIBE_GROUPS,
        DELETE_GROUPS,
    )
}
"""Request type -> its GroupApi."""


def api_of(request: Q, _: GroupCall[A]) -> GroupApi[Q, A]:
    """The row of a request, for a call that takes its responses.

    The key is the row's own `request_type`, hence the cast.
    """
    return cast("GroupApi[Q, A]", GROUP_APIS[type(request)])
