"""A member of a share group: its subscription, and its current assignment.

Subscription and assignment are immutable values, which are stored in records. Source:
ShareGroupMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.members import JOINING_EPOCH

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions


class ShareMember(NamedTuple):
    """The attributes that a member sends; `topics` are the subscribed names, sorted."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareAssignment(NamedTuple):
    """A member's current assignment by topic id; other members may read the same partitions."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    assigned: Partitions = {}


NOTHING_ASSIGNED = ShareAssignment()
