"""Sensors by key; idle sensors are removed. No I/O.

Source: Kafka's SensorAccess, whose sensors expire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

EXPIRATION_MS = 3_600_000
"""Idle time after which a sensor is removed."""

SENSORS_BEFORE_PURGE = 1000

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")


class Sensors(Generic[K, S]):
    """Sensors by key. Idle sensors are purged occasionally, because clients choose the keys."""

    __slots__ = ("_purge_at", "_sensors")

    def __init__(self) -> None:
        self._sensors: dict[K, tuple[S, int]] = {}
        self._purge_at = SENSORS_BEFORE_PURGE

    def __len__(self) -> int:
        return len(self._sensors)

    def __contains__(self, key: K) -> bool:
        return key in self._sensors

    def items(self) -> Iterator[tuple[K, S]]:
        """Yield the keys with their sensors."""
        return ((key, sensor) for key, (sensor, _) in self._sensors.items())

    def of(self, key: K, now_ms: int, new: Callable[[], S]) -> S:
        """Return the sensor of a key and mark it as used; `new` creates a missing sensor."""
        found = self._sensors.get(key)
        if found is None and len(self._sensors) >= self._purge_at:
            self._purge(now_ms)
        sensor = new() if found is None else found[0]
        self._sensors[key] = sensor, now_ms
        return sensor

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - EXPIRATION_MS
        self._sensors = {key: entry for key, entry in self._sensors.items() if entry[1] > oldest_ms}
        self._purge_at = max(2 * len(self._sensors), SENSORS_BEFORE_PURGE)
