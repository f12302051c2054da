"""SharePersister: the interface to share-partition state (Kafka's `Persister`).

The share coordinator, which keeps the state in `__share_group_state`, can be on another broker,
move, or be loading. Implementations retry in these cases (like `PersisterStateManager`), so that
callers get an error only after the retries end.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from protocol.errors import ErrorCode

# Kafka's `PartitionFactory.UNINITIALIZED_START_OFFSET`: the share partition has never been read, so
# the leader applies `share.auto.offset.reset`.
UNINITIALIZED_START_OFFSET = -1
# Kafka's `PartitionFactory.UNINITIALIZED_DELIVERY_COMPLETE_COUNT`: the lag is unknown.
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1


class SharePartitionKey(NamedTuple):
    """One partition as read by one share group."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Consecutive offsets, first and last included, with one state and one delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """The number of Kafka's `RecordState`; `Acquired` is never written."""
    delivery_count: int


class ShareState(NamedTuple):
    """The result of `read`; the state is meaningful only if `error` is NONE."""

    error: ErrorCode
    state_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    batches: Sequence[StateBatch] = ()
    message: str | None = None
    """The error message of the share coordinator, if there is one."""


class ShareStateSummary(NamedTuple):
    """The result of `read_summary`: the state without its batches."""

    error: ErrorCode
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    message: str | None = None
    """The error message of the share coordinator, if there is one."""


class SharePersister(Protocol):
    """Keeps the state of share partitions.

    Each method calls `done` exactly once, possibly before the method returns. For one key, the
    callbacks run in the order of the calls.
    """

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Initialize the state of a share partition; a higher `state_epoch` replaces the state."""

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None]
    ) -> None:
        """Read the whole state, for the partition leader; earlier leaders are fenced."""

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Write `batches`, which replace overlapping state.

        `start_offset` -1 keeps the current start offset. The leader writes only changes.
        """

    def delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        """Delete the state of the share partition."""

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """Read the state without its batches, to describe the offsets of a share group."""
