"""RedundantOffsets: the offset below which a `__share_group_state` partition is obsolete.

A share partition needs its last snapshot and the records after it. Source:
ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.persister import SharePartitionKey


class RedundantOffsets:
    """The offset of the last snapshot of each share partition, earliest first."""

    __slots__ = ("_first_needed", "_snapshots")

    def __init__(self) -> None:
        self._snapshots: OrderedDict[SharePartitionKey, int] = OrderedDict()
        self._first_needed = 0

    def snapshot_at(self, key: SharePartitionKey, offset: int, *, is_tombstone: bool) -> None:
        """Record a snapshot or tombstone at an offset above all earlier ones."""
        self._snapshots[key] = offset
        self._snapshots.move_to_end(key)
        self._first_needed = next(iter(self._snapshots.values()))
        if is_tombstone:
            del self._snapshots[key]

    @property
    def last_redundant_offset(self) -> int | None:
        """Records below this offset are obsolete; None if no records can be deleted."""
        return self._first_needed or None
