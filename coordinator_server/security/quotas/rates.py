"""How much of a quota was used: rates over windows, and buckets of tokens. Pure; times come in.

Source: Rate, SampledStat, TokenBucket of Kafka's metrics, Sensor.checkQuotas, QuotaUtils.
"""

from __future__ import annotations

from math import floor, isfinite, nan
from typing import NamedTuple

_INT_MODULUS, _INT_MAX = 2**32, 2**31 - 1
_LONG_MAX = 2**63 - 1

UNLIMITED = float(_LONG_MAX)
"""The limit of who has no quota."""


class Windows(NamedTuple):
    """How many samples a quota looks back on, the one that is being filled included, and the
    length of each.
    """

    samples: int
    size_ms: int


class Violation(NamedTuple):
    """What is used of a quota, and its limit, which is below that."""

    value: float
    limit: float


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begin anew."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """Something per second, over the last windows.

    A window that ended stays until nothing of it lies within the time looked back on, so there may
    be one sample more than `windows` says.
    """

    __slots__ = ("_current", "_samples", "limit", "windows")

    def __init__(self, windows: Windows, limit: float) -> None:
        self.windows = windows
        self.limit = limit
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add to what is used."""
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
        """What is used per second."""
        elapsed_ms = self.window_ms(now_ms)
        return sum([sample.value for sample in self._samples]) / (elapsed_ms / 1000)

    def window_ms(self, now_ms: int) -> int:
        """The time that the rate is over: whole windows at first, so that a start is no burst."""
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
        """What is used if that is more than the limit."""
        value = self.per_second(now_ms)
        return Violation(value, self.limit) if value > self.limit else None

    def throttle_ms(self, violation: Violation, now_ms: int) -> int:
        """How long it takes until the rate is down at the limit if nothing is added."""
        over = _divided(violation.value - violation.limit, violation.limit)
        return rounded(over * self.window_ms(now_ms))


class TokenBucket:
    """Tokens that come by `limit` a second, kept for as long as the windows are (KIP-599).

    It starts empty at time 0: full, by the clocks of today. It may go below 0 once: what is taken
    needs only that it is not below 0 before.
    """

    __slots__ = ("_tokens", "_updated_ms", "limit", "windows")

    def __init__(self, windows: Windows, limit: float) -> None:
        self.windows = windows
        self.limit = limit
        self._tokens = 0.0
        self._updated_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Take tokens."""
        self._refill(now_ms)
        self._tokens = min(self._burst, self._tokens - value)

    def tokens(self, now_ms: int) -> float:
        """How many there are."""
        self._refill(now_ms)
        return self._tokens

    def violation(self, now_ms: int) -> Violation | None:
        """How far below 0 the bucket is if it is."""
        tokens = self.tokens(now_ms)
        return Violation(tokens, self.limit) if tokens < 0 else None

    def throttle_ms(self, violation: Violation, now_ms: int) -> int:
        """How long it takes until the bucket is at 0 again."""
        return rounded(_divided(-violation.value, violation.limit) * 1000)

    @property
    def _burst(self) -> float:
        return self.windows.samples * (self.windows.size_ms / 1000) * self.limit

    def _refill(self, now_ms: int) -> None:
        earned = self.limit * ((now_ms - self._updated_ms) / 1000)
        self._tokens = min(self._burst, self._tokens + earned)
        self._updated_ms = now_ms


Sensor = Rate | TokenBucket
"""What measures one client, or those that share a quota."""


def rounded(value: float) -> int:
    """Java's Math.round."""
    if isfinite(value):
        return min(max(floor(value + 0.5), -_LONG_MAX - 1), _LONG_MAX)
    return 0 if value != value else _LONG_MAX if value > 0 else -_LONG_MAX - 1


def as_int(value: int) -> int:
    """A throttle time as Kafka's answers have it: the lower 32 bits of a long.

    So a limit of 0, of which any use is infinitely too much, throttles nobody.
    """
    return (value + _INT_MAX + 1) % _INT_MODULUS - _INT_MAX - 1


def _divided(value: float, by: float) -> float:
    """Java's division of doubles."""
    if by:
        return value / by
    return value * float("inf") if value else nan
