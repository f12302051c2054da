"""A share coordinator in memory, with the methods that groups call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coordinator_server.core.share_partitions.persister import SharePartitionKey, ShareStateSummary
from protocol.errors import ErrorCode


class SimulatedPersister:
    """A share coordinator that keeps the state epoch and start offset of partitions.

    `errors` has error responses by topic; `waiting` has the responses that are held back.
    """

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, tuple[int, int]] = {}
        self.complete_counts: dict[SharePartitionKey, int] = {}
        self.errors: dict[bytes, ErrorCode] = {}
        self.waiting: list[Callable[[], None]] | None = None

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Initialize the state of a share partition."""
        error = self.errors.get(key.topic_id, ErrorCode.NONE)
        if error is ErrorCode.NONE:
            self.states[key] = state_epoch, start_offset
        self._answer(partial(done, error))

    def delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        """Delete the state of a share partition."""
        error = self.errors.get(key.topic_id, ErrorCode.NONE)
        if error is ErrorCode.NONE:
            self.states.pop(key, None)
        self._answer(partial(done, error))

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """Call `done` with the start offset of a share partition."""
        error = self.errors.get(key.topic_id, ErrorCode.NONE)
        state_epoch, start_offset = self.states.get(key, (0, -1))
        count = self.complete_counts.get(key, -1)
        summary = ShareStateSummary(error, state_epoch, leader_epoch, start_offset, count)
        self._answer(partial(done, summary))

    def _answer(self, answer: Callable[[], None]) -> None:
        if self.waiting is None:
            answer()
        else:
            self.waiting.append(answer)

    def hold(self) -> None:
        """Hold back responses."""
        self.waiting = []

    def let_go(self) -> None:
        """Release the responses that were held back."""
        waiting, self.waiting = self.waiting or [], None
        for answer in waiting:
            answer()
