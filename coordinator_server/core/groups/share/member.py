"""A member of a share group: what it asks for, and what it reads from.

Both are values that a record holds; a change makes a new one. Source: ShareGroupMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.modern.members import JOINING_EPOCH

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions


class ShareMember(NamedTuple):
    """What a member says of itself. `topics` are the names it subscribes to, in order."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareAssignment(NamedTuple):
    """What a member reads from, by topic id; others may read from the same partitions."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    assigned: Partitions = {}


NOTHING_ASSIGNED = ShareAssignment()
