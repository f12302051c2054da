"""Why internal topics of streams applications could not be created, for a while.

Members heartbeat all the time: a topic that cannot be created is not tried again with each of them,
and they are told why. Source: Kafka's ExpiringErrorCache and DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Iterable

_CAPACITY = 1000
"""More errors than this are not kept: those that would be forgotten next go first."""


class CreationErrors:
    """The last error of each topic, and the topics that are being created right now."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, str]] = {}
        self._under_way: set[str] = set()

    def of(self, names: Iterable[str], now_ms: int) -> dict[str, str]:
        """The errors that still count, by topic."""
        found: dict[str, str] = {}
        for name in names:
            until_ms, message = self._errors.get(name, (0, ""))
            if until_ms > now_ms:
                found[name] = message
        return found

    def begin(self, names: Iterable[str], now_ms: int) -> set[str]:
        """Which of these topics may be tried now; `end` has to follow."""
        begun = {one for one in names if one not in self._under_way and not self.of([one], now_ms)}
        self._under_way |= begun
        return begun

    def end(self, names: set[str], errors: dict[str, str], until_ms: int) -> None:
        """They are created, but for those with `errors`, which count until `until_ms`."""
        self._under_way -= names
        for name, message in errors.items():
            self._errors[name] = until_ms, message
        if len(self._errors) > _CAPACITY:
            latest = sorted(self._errors.items(), key=lambda one: one[1][0])
            self._errors = dict(latest[-_CAPACITY:])
