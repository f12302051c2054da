"""ShareGroupOffset: the state of one share partition in the share coordinator."""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    StateBatch,
)


class ShareGroupOffset(NamedTuple):
    """One immutable state; a new value replaces it. Times are in ms.

    `snapshot_epoch` counts the snapshots. `state_epoch` rises when the share partition is
    initialized again; `leader_epoch` is the epoch of the last leader that read the state. A
    snapshot that is rewritten for its age keeps its `create_ms`.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0
