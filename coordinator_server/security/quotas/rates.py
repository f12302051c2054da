"""Quota measurement: rates over time windows, and token buckets. No I/O; times are arguments.

Source: Rate, SampledStat, TokenBucket of Kafka's metrics, Sensor.checkQuotas, QuotaUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import floor, isfinite, nan
from typing import Generic, NamedTuple, TypeVar

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
        existing = self._sensors.get(key)
        if existing is None and len(self._sensors) >= self._purge_at:
            self._purge(now_ms)
        sensor = new() if existing is None else existing[0]
        self._sensors[key] = sensor, now_ms
        return sensor

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - EXPIRATION_MS
        self._sensors = {key: entry for key, entry in self._sensors.items() if entry[1] > oldest_ms}
        self._purge_at = max(2 * len(self._sensors), SENSORS_BEFORE_PURGE)


_INT_MODULUS, _INT_MAX = 2**32, 2**31 - 1
_LONG_MAX = 2**63 - 1

UNLIMITED = float(_LONG_MAX)
"""The limit of a client without a quota."""


class Windows(NamedTuple):
    """The number of samples of a rate, including the current one, and their length in ms."""

    samples: int
    size_ms: int


class Violation(NamedTuple):
    """The measured value that exceeds the limit, and the limit."""

    value: float
    limit: float


class _Sample:
    """The values recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Restart the sample at `now_ms`."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """A rate per second over the last windows.

    A completed window is kept until all of it is out of the time range, so there may be one more
    sample than `windows` says.
    """

    __slots__ = ("_current", "_samples", "limit", "windows")

    def __init__(self, windows: Windows, limit: float) -> None:
        self.windows = windows
        self.limit = limit
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value to the current window."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self.windows.size_ms:
            self._current = (self._current + 1) % (self.windows.samples + 1)
            if self._current >= len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].reset(now_ms)
            sample = samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate per second."""
        elapsed_ms = self.window_ms(now_ms)
        return sum([sample.value for sample in self._samples]) / (elapsed_ms / 1000)

    def window_ms(self, now_ms: int) -> int:
        """Return the time range of the rate in ms.

        The range is at least `samples - 1` whole windows, so that the first usage does not count as
        a burst.
        """
        windows = self.windows
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        age_ms = windows.samples * windows.size_ms
        for sample in samples:
            if now_ms - sample.last_ms >= age_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min([sample.start_ms for sample in samples])
        missing = windows.samples - 1 - elapsed_ms // windows.size_ms
        if missing > 0:
            elapsed_ms += missing * windows.size_ms
        return max(elapsed_ms, 1)

    def violation(self, now_ms: int) -> Violation | None:
        """Return the rate if it exceeds the limit, or None."""
        value = self.per_second(now_ms)
        return Violation(value, self.limit) if value > self.limit else None

    def throttle_ms(self, violation: Violation, now_ms: int) -> int:
        """Return the time in ms until the rate falls to the limit without further usage."""
        over = _divided(violation.value - violation.limit, violation.limit)
        return rounded(over * self.window_ms(now_ms))


class TokenBucket:
    """A bucket filled with `limit` tokens per second, up to the length of the windows (KIP-599).

    The bucket starts empty at time 0 (in 1970), so it is full at its first use. A request may take
    the bucket below 0 tokens unless it is already below 0.
    """

    __slots__ = ("_tokens", "_updated_ms", "limit", "windows")

    def __init__(self, windows: Windows, limit: float) -> None:
        self.windows = windows
        self.limit = limit
        self._tokens = 0.0
        self._updated_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Remove tokens."""
        self._refill(now_ms)
        self._tokens = min(self._burst, self._tokens - value)

    def tokens(self, now_ms: int) -> float:
        """Return the number of tokens."""
        self._refill(now_ms)
        return self._tokens

    def violation(self, now_ms: int) -> Violation | None:
        """Return the number of tokens if it is below 0, or None."""
        tokens = self.tokens(now_ms)
        return Violation(tokens, self.limit) if tokens < 0 else None

    def throttle_ms(self, violation: Violation, now_ms: int) -> int:
        """Return the time in ms until the bucket is at 0 again."""
        return rounded(_divided(-violation.value, violation.limit) * 1000)

    @property
    def _burst(self) -> float:
        return self.windows.samples * (self.windows.size_ms / 1000) * self.limit

    def _refill(self, now_ms: int) -> None:
        earned = self.limit * ((now_ms - self._updated_ms) / 1000)
        self._tokens = min(self._burst, self._tokens + earned)
        self._updated_ms = now_ms


Sensor = Rate | TokenBucket
"""Measures one client, or the clients that share a quota."""


def rounded(value: float) -> int:
    """Round like Java's Math.round."""
    if isfinite(value):
        return min(max(floor(value + 0.5), -_LONG_MAX - 1), _LONG_MAX)
    return 0 if value != value else _LONG_MAX if value > 0 else -_LONG_MAX - 1


def as_int(value: int) -> int:
    """Return a throttle time as in Kafka's responses: the lower 32 bits of a long.

    With a limit of 0 the throttle time is the largest long. Its lower 32 bits are -1, so the client
    is not throttled.
    """
    return (value + _INT_MAX + 1) % _INT_MODULUS - _INT_MAX - 1


def _divided(value: float, by: float) -> float:
    """Divide like Java's double division."""
    if by:
        return value / by
    return value * float("inf") if value else nan
