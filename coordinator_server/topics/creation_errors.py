"""A cache of errors from creating the internal topics of streams groups.

While an error is cached, heartbeats do not retry the creation and report the error to the member.
Source: Kafka's ExpiringErrorCache and DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Iterable

_CAPACITY = 1000
"""The largest number of cached errors; errors that would expire first are evicted first."""


class CreationErrors:
    """The last error of each topic, and the topics that are being created."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, str]] = {}
        self._under_way: set[str] = set()

    def of(self, names: Iterable[str], now_ms: int) -> dict[str, str]:
        """Return the errors that have not expired, by topic name."""
        messages: dict[str, str] = {}
        for name in names:
            until_ms, message = self._errors.get(name, (0, ""))
            if until_ms > now_ms:
                messages[name] = message
        return messages

    def begin(self, names: Iterable[str], now_ms: int) -> set[str]:
        """Return the topics to create now and mark them as being created. Call `end` afterwards."""
        begun = {
            name for name in names if name not in self._under_way and not self.of([name], now_ms)
        }
        self._under_way |= begun
        return begun

    def end(self, names: set[str], errors: dict[str, str], until_ms: int) -> None:
        """End the creation of these topics. `errors`, by topic name, expire at `until_ms`."""
        self._under_way -= names
        for name, message in errors.items():
            self._errors[name] = until_ms, message
        if len(self._errors) > _CAPACITY:
            latest = sorted(self._errors.items(), key=lambda entry: entry[1][0])
            self._errors = dict(latest[-_CAPACITY:])
