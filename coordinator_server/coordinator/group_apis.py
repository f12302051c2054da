"""The table of group APIs: how each request reaches its group, and what it is answered without one.

`GroupCoordinator.submit` goes by this table alone. Source: GroupCoordinatorService, which does the
same by hand for each API.
"""

from __future__ import annotations

from typing import Protocol, cast

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
from coordinator_server.group.transactional_commit import TRANSACTIONAL_COMMIT

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
        TRANSACTIONAL_COMMIT,
        DESCRIBE_GROUPS,
        DELETE_GROUPS,
    )
}
"""Request type -> its GroupApi."""


class _RowOf(Protocol):
    def __call__(self, request_type: type[Q], /) -> GroupApi[Q, A]:
        """The row of requests of a type."""
        ...


row_of = cast("_RowOf", GROUP_APIS.__getitem__)
"""`row_of(type(request))` is the GroupApi of a request: each key is its row's `request_type`."""
