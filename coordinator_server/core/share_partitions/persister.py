"""What keeps the state of share partitions, as their leaders and the group coordinator see it.

Kafka's `Persister`. The state lies with the share coordinator, in `__share_group_state`; it may be
led by another broker, move, or be loading. Whoever implements this asks again while that lasts (as
`PersisterStateManager` does), so that callers see the error only of what was given up.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from protocol.errors import ErrorCode

# `PartitionFactory.UNINITIALIZED_START_OFFSET`: nobody has read from this share partition yet. The
# leader takes `share.auto.offset.reset` then.
UNINITIALIZED_START_OFFSET = -1
# `PartitionFactory.UNINITIALIZED_DELIVERY_COMPLETE_COUNT`: there is no lag to be told.
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1


class SharePartitionKey(NamedTuple):
    """One partition as one share group reads it."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Offsets in a row, first and last included, of one state and one delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """Kafka's `RecordState` by its number; `Acquired` is never written."""
    delivery_count: int


class ShareState(NamedTuple):
    """The answer to `read`. But for the error, it is of no meaning when there is one."""

    error: ErrorCode
    state_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    batches: Sequence[StateBatch] = ()
    message: str | None = None
    """The message of the error, where the share coordinator has one."""


class ShareStateSummary(NamedTuple):
    """The answer to `read_summary`: the state without its batches."""

    error: ErrorCode
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    message: str | None = None
    """The message of the error, where the share coordinator has one."""


class SharePersister(Protocol):
    """Keeps the state of share partitions. `done` is called exactly once, maybe before the call
    returns, and in order of the calls for one key."""

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Begin the state of a share partition, or begin it anew with a higher `state_epoch`."""

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None]
    ) -> None:
        """The whole state, for the leader of that partition. Fences the leaders before it."""

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
        """Lay `batches` over what is kept.

        `start_offset` -1 leaves the kept start offset. The leader writes what has changed only.
        """

    def delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        """Forget the share partition."""

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """The state without its batches, as offsets of a share group are described."""
