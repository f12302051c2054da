"""The part of the share coordinator's log that can be deleted."""

from __future__ import annotations

import pytest

from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.core.share_state.shard import RedundantOffsets

A, B, C = (SharePartitionKey("g", b"t" * 16, index) for index in range(3))


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        ([], None),
        ([(A, 0)], None),  # no record is below offset 0
        ([(A, 1)], 1),
        ([(A, 1), (A, 5)], 5),
        ([(A, 1), (B, 3), (A, 5)], 3),
        ([(A, 1), (B, 3), (C, 4), (B, 6), (A, 7)], 4),
        ([(A, 1), (B, 3), (B, 6)], 1),  # key A has no later record
    ],
)
def test_records_below_the_oldest_needed_snapshot(
    snapshots: list[tuple[SharePartitionKey, int]], expected: int | None
) -> None:
    """Records below the oldest of the last snapshots of all share partitions can be deleted."""
    offsets = RedundantOffsets()
    for key, offset in snapshots:
        offsets.snapshot_at(key, offset, is_tombstone=False)
    assert offsets.last_redundant_offset == expected


def test_a_share_partition_that_is_deleted_holds_nothing_back() -> None:
    """A deleted share partition does not hold back the deletion of records.

    Its tombstone stays until another snapshot is written.
    """
    offsets = RedundantOffsets()
    offsets.snapshot_at(A, 1, is_tombstone=False)
    offsets.snapshot_at(B, 2, is_tombstone=False)
    offsets.snapshot_at(A, 5, is_tombstone=True)
    assert offsets.last_redundant_offset == 2
    offsets.snapshot_at(B, 9, is_tombstone=True)
    assert offsets.last_redundant_offset == 9
    offsets.snapshot_at(C, 12, is_tombstone=False)
    assert offsets.last_redundant_offset == 12
