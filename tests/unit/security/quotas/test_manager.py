"""The usage of one kind of quota, by clients."""

from __future__ import annotations

import pytest

from coordinator_server.security.quotas.limits import Limits, Part
from coordinator_server.security.quotas.manager import MutationQuota, QuotaManager
from coordinator_server.security.quotas.rates import UNLIMITED, TokenBucket, Windows

WINDOWS = Windows(11, 1000)
NOW_MS = 1_700_000_000_000


def limits(**of_clients: float) -> Limits:
    """Return limits by client id."""
    made = Limits()
    for client_id, limit in of_clients.items():
        made.put(None, client_id, limit)
    return made


def managed(windows: Windows = WINDOWS, **of_clients: float) -> QuotaManager:
    """Return a manager with limits by client id."""
    made = QuotaManager(windows)
    made.change(limits(**of_clients))
    return made


def test_who_is_over_its_quota_waits() -> None:
    """A client over its quota is throttled; another client is not throttled."""
    one = managed(c=100.0)
    assert one.is_enabled
    assert not QuotaManager(WINDOWS).is_enabled
    assert one.record("u", "c", 1000, NOW_MS) == 0
    assert one.record("u", "c", 100, NOW_MS) == 1000
    assert one.record("u", "d", 1e9, NOW_MS) == 0


def test_new_limits_count_what_was_used_before() -> None:
    """New limits, higher or lower, apply to earlier usage."""
    one = managed(c=100.0)
    one.record("u", "c", 2000, NOW_MS)
    one.change(limits(c=200.0, d=1.0))
    assert one.record("u", "c", 0, NOW_MS) == 0
    one.change(limits(c=10.0))
    assert one.record("u", "c", 0, NOW_MS) == 190_000


def test_a_wait_may_have_a_bound() -> None:
    """A throttle time can be bounded, for request quotas by the length of a window."""
    one = QuotaManager(WINDOWS, max_throttle_ms=1000)
    one.change(limits(c=1.0))
    assert one.record("u", "c", 1000, NOW_MS) == 1000


def test_what_is_noted_has_nobody_wait() -> None:
    """Noted usage causes no throttle time and can be taken back."""
    one = managed(c=100.0)
    one.note("u", "c", 2000, NOW_MS)
    one.note("u", "c", -2000, NOW_MS)
    assert one.record("u", "c", 1000, NOW_MS) == 0


def test_the_most_at_once() -> None:
    """`most_in_windows` is the usage that causes no throttle time for an unused quota."""
    assert managed(c=100.0).most_in_windows("u", "c") == 1000.0
    assert managed(c=100.0).most_in_windows("u", "d") == UNLIMITED


def test_silent_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients without requests are forgotten after an hour, once there are many clients."""
    monkeypatch.setattr("coordinator_server.security.quotas.rates.SENSORS_BEFORE_PURGE", 2)
    made = QuotaManager(WINDOWS)
    made.change(limits(a=1.0))
    for number in range(5):
        made.record("u", f"c{number}", 1, NOW_MS + number * 1_000_000)
    assert len(made._sensors) <= 4


def changes(limit: float = 2.0, part: Part = "c") -> QuotaManager:
    """Return token buckets with 3 windows of `limit` each."""
    made = QuotaManager(Windows(3, 1000), new_sensor=TokenBucket)
    given = Limits()
    given.put(None, part, limit)
    made.change(given)
    return made


def test_a_strict_quota_refuses_what_comes_after() -> None:
    """A strict quota refuses mutations only once the bucket is empty.

    The topic that exceeds the quota is still created.
    """
    quota = MutationQuota(changes(), "u", "c", is_strict=True)
    assert quota.take(5, NOW_MS)
    assert quota.take(5, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 0
    assert not quota.take(1, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 2000
    assert quota.throttle_ms(NOW_MS + 1500) == 500
    assert quota.throttle_ms(NOW_MS + 9000) == 0


def test_a_permissive_quota_only_has_the_client_wait() -> None:
    """A permissive quota throttles the client until the bucket is at zero again."""
    quota = MutationQuota(changes(), "u", "c", is_strict=False)
    assert quota.take(5, NOW_MS)
    assert quota.take(5, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 2000
    assert quota.take(1, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 2500


def test_a_quota_of_no_changes() -> None:
    """With a quota of 0 the bucket allows one mutation and then refuses, without a delay."""
    quota = MutationQuota(changes(0.0), "u", "c", is_strict=True)
    assert quota.take(1, NOW_MS)
    assert not quota.take(1, NOW_MS)
    assert quota.throttle_ms(NOW_MS) == 0
