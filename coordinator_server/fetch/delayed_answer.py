"""DelayedAnswer: a response that is held back for the longest time that the client waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.fetch.purgatory import KeyedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.net.call import Call


class DelayedAnswer(KeyedOperation):
    """Calls `answer` at `deadline_ms` of the client's clock, unless the client has disconnected.

    Nothing else ends the wait: the operation is its own key, which is never notified.
    """

    __slots__ = ("_answer", "_call")

    def __init__(self, call: Call, deadline_ms: int, answer: Callable[[], None]) -> None:
        super().__init__(deadline_ms)
        self._call = call
        self._answer = answer

    def on_complete(self) -> None:
        """Send the response."""
        self._answer()

    def is_abandoned(self) -> bool:
        """Return whether the client has disconnected."""
        return self._call.connection.closed
