"""The names of topics that a client deleted a moment ago (docs/decisions/0014).

Some clients verify a deletion by a Metadata request that allows the creation of the topic. So for a
short time such a request does not create the topic again. A reset of the process deletes topics
without DeleteTopics, and they can be created again at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator_server.clock.broker_clock import Clock

RECENT_MS = 500
"""The time in ms for which a deleted topic is not created automatically."""


class RecentDeletions:
    """The topics that DeleteTopics deleted within the last RECENT_MS of `clock`.

    Call `add` with topics that were deleted now. `in` tests whether a topic was deleted recently.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms: OrderedDict[str, int] = OrderedDict()

    def add(self, names: Iterable[str]) -> None:
        """Add topics by name, and drop deletions that are no longer recent."""
        now_ms = self._clock.now_ms()
        while self._until_ms and next(iter(self._until_ms.values())) <= now_ms:
            self._until_ms.popitem(last=False)
        for name in names:
            self._until_ms[name] = now_ms + RECENT_MS
            self._until_ms.move_to_end(name)

    def clear(self) -> None:
        """Drop all deletions."""
        self._until_ms.clear()

    def __contains__(self, name: str) -> bool:
        """Return whether the topic with this name was deleted recently."""
        return self._until_ms.get(name, 0) > self._clock.now_ms()

    def __len__(self) -> int:
        """Return the number of names in memory."""
        return len(self._until_ms)
