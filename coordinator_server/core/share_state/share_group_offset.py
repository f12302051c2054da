"""The state of one share partition, as the share coordinator keeps it."""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    StateBatch,
)


class ShareGroupOffset(NamedTuple):
    """One state; it is never changed, the next one takes its place. Times are in ms.

    `snapshot_epoch` counts the snapshots. `state_epoch` is a new one when the share partition is
    initialized again, `leader_epoch` that of the last leader which has read the state. A snapshot
    that is rewritten because nothing came keeps its `create_ms`.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0
