"""Rates and buckets have the values of Kafka's metrics at the same times."""

from __future__ import annotations

from math import inf, nan

import pytest

from coordinator_server.security.quotas.rates import (
    UNLIMITED,
    Rate,
    TokenBucket,
    Violation,
    Windows,
    as_int,
    rounded,
)

WINDOWS = Windows(11, 1000)
START_MS = 1_700_000_000_000


def test_a_start_is_no_burst() -> None:
    """At the start, empty windows count as elapsed time, so that a first request is no burst."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(1000, START_MS)
    assert rate.window_ms(START_MS) == 10_000
    assert rate.per_second(START_MS) == 100.0
    assert rate.violation(START_MS) is None


def test_nothing_recorded_is_a_rate_of_nothing() -> None:
    """The rate without samples is 0."""
    rate = Rate(WINDOWS, 100.0)
    assert rate.per_second(START_MS) == 0.0


def test_the_wait_is_until_the_rate_is_down() -> None:
    """The throttle time is the time until the rate has fallen to the quota."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(2000, START_MS)
    violation = rate.violation(START_MS)
    assert violation == Violation(200.0, 100.0)
    assert rate.throttle_ms(violation, START_MS) == 10_000
    later = rate.violation(START_MS + 500)
    assert later is not None
    assert rate.throttle_ms(later, START_MS + 500) == 9500


def test_windows_that_have_passed_are_forgotten() -> None:
    """A sample is included while a part of its window lies within the observed time."""
    rate = Rate(Windows(3, 1000), 100.0)
    for second in range(4):
        rate.record(300, START_MS + second * 1000)
    assert rate.window_ms(START_MS + 3000) == 2000
    assert rate.per_second(START_MS + 3000) == 450.0
    assert rate.per_second(START_MS + 3999) == pytest.approx(900 / 2.999)
    assert rate.per_second(START_MS + 9000) == 0.0


def test_samples_are_used_again() -> None:
    """Samples are reused, so that their number stays bounded."""
    rate = Rate(Windows(2, 1000), 100.0)
    for second in range(50):
        rate.record(100, START_MS + second * 1000)
    assert rate.per_second(START_MS + 49_999) == pytest.approx(200 / 1.999)


def test_a_window_of_no_length_is_a_millisecond() -> None:
    """A window of length 0, with one sample at its start, is treated as 1 ms long."""
    rate = Rate(Windows(1, 1000), 100.0)
    rate.record(5, START_MS)
    assert rate.window_ms(START_MS) == 1
    assert rate.per_second(START_MS) == 5000.0


def test_what_was_not_used_is_taken_back() -> None:
    """Unused amounts, as of a throttled fetch, are subtracted again."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(5000, START_MS)
    rate.record(-5000, START_MS)
    assert rate.per_second(START_MS) == 0.0


def test_a_quota_of_nothing_throttles_nobody() -> None:
    """A quota of 0 throttles no client, as in Kafka, where an infinite time overflows."""
    rate = Rate(WINDOWS, 0.0)
    rate.record(1, START_MS)
    violation = rate.violation(START_MS)
    assert violation is not None
    assert as_int(rate.throttle_ms(violation, START_MS)) == -1


def test_a_bucket_is_full_at_first_and_may_go_below_nothing_once() -> None:
    """A bucket starts full, and may be overdrawn once if it has any token."""
    bucket = TokenBucket(Windows(3, 1000), 10.0)
    assert bucket.tokens(START_MS) == 30.0
    bucket.record(50, START_MS)
    violation = bucket.violation(START_MS)
    assert violation == Violation(-20.0, 10.0)
    assert bucket.throttle_ms(violation, START_MS) == 2000
    assert bucket.violation(START_MS + 2000) is None
    assert bucket.tokens(START_MS + 2500) == pytest.approx(5.0)
    assert bucket.tokens(START_MS + 60_000) == 30.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 1),
        (1.5, 2),
        (-0.5, 0),
        (-1.5, -1),
        (nan, 0),
        (inf, 2**63 - 1),
        (-inf, -(2**63)),
        (1e30, 2**63 - 1),
        (-1e30, -(2**63)),
    ],
)
def test_rounding_is_javas(value: float, expected: int) -> None:
    """Rounding is Java's: halves up, and limited to a long."""
    assert rounded(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (2**63 - 1, -1), (-(2**63), 0)],
)
def test_a_throttle_time_is_an_int(value: int, expected: int) -> None:
    """A throttle time is the lower 32 bits of a long."""
    assert as_int(value) == expected


def test_nothing_by_nothing_is_no_wait() -> None:
    """0 divided by 0 gives no throttle time."""
    assert Rate(WINDOWS, 0.0).throttle_ms(Violation(0.0, 0.0), START_MS) == 0
    assert float(2**63 - 1) == UNLIMITED
