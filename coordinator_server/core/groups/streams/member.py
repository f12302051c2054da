"""A member of a streams group: its attributes, and its tasks.

Attributes and tasks are immutable values, which are stored in records. Source: StreamsGroupMember.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator_server.core.groups.modern.members import JOINING_EPOCH
from coordinator_server.core.groups.streams.state import StreamsMemberState
from coordinator_server.core.groups.streams.tasks import OwnedTasks

NOTHING = OwnedTasks()


class StreamsMember(NamedTuple):
    """The attributes that a member sends; a member is one thread of the process `process_id`.

    `endpoint` is the host and port at which the process answers interactive queries.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] = {}


class CurrentTasks(NamedTuple):
    """A member's current tasks: `assigned`, and `revoking`, which it still has to revoke."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: OwnedTasks = NOTHING
    revoking: OwnedTasks = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached the target of `epoch`."""
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch


NO_TASKS = CurrentTasks()
