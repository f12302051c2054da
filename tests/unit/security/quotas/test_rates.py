"""Rates and buckets: what Kafka's metrics give at the same times."""

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
    """What was never counted is taken for windows in which nothing happened."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(1000, START_MS)
    assert rate.window_ms(START_MS) == 10_000
    assert rate.per_second(START_MS) == 100.0
    assert rate.violation(START_MS) is None


def test_nothing_recorded_is_a_rate_of_nothing() -> None:
    """Asked before it was told anything."""
    rate = Rate(WINDOWS, 100.0)
    assert rate.per_second(START_MS) == 0.0


def test_the_wait_is_until_the_rate_is_down() -> None:
    """Twice the quota takes twice the window; the window is what the rate is over."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(2000, START_MS)
    violation = rate.violation(START_MS)
    assert violation == Violation(200.0, 100.0)
    assert rate.throttle_ms(violation, START_MS) == 10_000
    later = rate.violation(START_MS + 500)
    assert later is not None
    assert rate.throttle_ms(later, START_MS + 500) == 9500


def test_windows_that_have_passed_are_forgotten() -> None:
    """A window counts for as long as something of it lies within the time looked back on."""
    rate = Rate(Windows(3, 1000), 100.0)
    for second in range(4):
        rate.record(300, START_MS + second * 1000)
    assert rate.window_ms(START_MS + 3000) == 2000
    assert rate.per_second(START_MS + 3000) == 450.0
    assert rate.per_second(START_MS + 3999) == pytest.approx(900 / 2.999)
    assert rate.per_second(START_MS + 9000) == 0.0


def test_samples_are_used_again() -> None:
    """No more of them are kept than are needed, however long it goes on."""
    rate = Rate(Windows(2, 1000), 100.0)
    for second in range(50):
        rate.record(100, START_MS + second * 1000)
    assert rate.per_second(START_MS + 49_999) == pytest.approx(200 / 1.999)


def test_a_window_of_no_length_is_a_millisecond() -> None:
    """With one sample at its very beginning."""
    rate = Rate(Windows(1, 1000), 100.0)
    rate.record(5, START_MS)
    assert rate.window_ms(START_MS) == 1
    assert rate.per_second(START_MS) == 5000.0


def test_what_was_not_used_is_taken_back() -> None:
    """A throttled fetch."""
    rate = Rate(WINDOWS, 100.0)
    rate.record(5000, START_MS)
    rate.record(-5000, START_MS)
    assert rate.per_second(START_MS) == 0.0


def test_a_quota_of_nothing_throttles_nobody() -> None:
    """As in Kafka: the wait is infinite, which is no int."""
    rate = Rate(WINDOWS, 0.0)
    rate.record(1, START_MS)
    violation = rate.violation(START_MS)
    assert violation is not None
    assert as_int(rate.throttle_ms(violation, START_MS)) == -1


def test_a_bucket_is_full_at_first_and_may_go_below_nothing_once() -> None:
    """What is asked is only that there is something before."""
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
    """Halves go up; what is no long becomes the nearest one."""
    assert rounded(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (2**63 - 1, -1), (-(2**63), 0)],
)
def test_a_throttle_time_is_an_int(value: int, expected: int) -> None:
    """The lower half of a long."""
    assert as_int(value) == expected


def test_nothing_by_nothing_is_no_wait() -> None:
    """A violation that is none, of a quota of nothing."""
    assert Rate(WINDOWS, 0.0).throttle_ms(Violation(0.0, 0.0), START_MS) == 0
    assert float(2**63 - 1) == UNLIMITED
