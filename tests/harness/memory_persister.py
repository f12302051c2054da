"""A persister in memory, with the state of each share partition by offset.

`is_held` holds responses back until `release_held`; `errors` are the results of the next calls, and
`odd_batches` replaces the batches that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from coordinator_server.core.share_partitions.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from protocol.errors import ErrorCode


class KeptState:
    """The stored state of a share partition."""

    def __init__(self, state_epoch: int, start_offset: int) -> None:
        self.state_epoch = state_epoch
        self.leader_epoch = 0
        self.start_offset = start_offset
        self.delivery_complete_count = -1
        self.offsets: dict[int, tuple[int, int]] = {}

    def batches(self) -> list[StateBatch]:
        """Return the offsets as the smallest number of batches."""
        found: list[StateBatch] = []
        for offset, (state, count) in sorted(self.offsets.items()):
            if found and found[-1][1:] == (offset - 1, state, count):
                found[-1] = found[-1]._replace(last_offset=offset)
            else:
                found.append(StateBatch(offset, offset, state, count))
        return found


class MemoryPersister:
    """Stores states; a request for an unknown key gets INVALID_REQUEST, as in Kafka."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, KeptState] = {}
        self.writes: list[tuple[StateBatch, ...]] = []
        self.is_held = False
        self.errors: list[ErrorCode] = []
        self.odd_batches: list[StateBatch] = []
        self._held: list[Callable[[], None]] = []

    def release_held(self) -> None:
        """Release the responses that were held back."""
        self.is_held = False
        held, self._held = self._held, []
        for answer in held:
            answer()

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        self.states[key] = KeptState(state_epoch, start_offset)
        done(ErrorCode.NONE)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None]
    ) -> None:
        kept = self.states.get(key)
        error = self._error(ErrorCode.NONE if kept else ErrorCode.INVALID_REQUEST)
        if error or kept is None:
            self._answer(partial(done, ShareState(error)))
            return
        kept.leader_epoch = leader_epoch
        state = ShareState(
            error, kept.state_epoch, kept.start_offset, self.odd_batches or kept.batches()
        )
        self._answer(partial(done, state))

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
        kept = self.states.get(key)
        error = self._error(ErrorCode.NONE if kept else ErrorCode.INVALID_REQUEST)
        if kept is not None and not error:
            self.writes.append(tuple(batches))
            if start_offset != -1:
                kept.start_offset = start_offset
            kept.delivery_complete_count = delivery_complete_count
            for first, last, state, count in batches:
                for offset in range(first, last + 1):
                    kept.offsets[offset] = (state, count)
            kept.offsets = {k: v for k, v in kept.offsets.items() if k >= kept.start_offset}
        self._answer(partial(done, error))

    def delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        self.states.pop(key, None)
        done(ErrorCode.NONE)

    def read_summary(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareStateSummary], None],
    ) -> None:
        kept = self.states[key]
        done(ShareStateSummary(ErrorCode.NONE, kept.state_epoch, leader_epoch, kept.start_offset))

    def _error(self, error: ErrorCode) -> ErrorCode:
        return self.errors.pop(0) if self.errors else error

    def _answer(self, answer: Callable[[], None]) -> None:
        if self.is_held:
            self._held.append(answer)
        else:
            answer()
