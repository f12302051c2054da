"""The largest requests at full length: see `tests.e2e.test_largest_requests`."""

from tests.e2e.test_largest_requests import check


def test_the_largest_requests_do_not_hold_up_heartbeats() -> None:
    """A heartbeat on another connection is answered within 100 ms, in all versions."""
    check(150_000, 50_000, oldest=True)
