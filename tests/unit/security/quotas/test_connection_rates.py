"""Rates of new connections."""

from __future__ import annotations

from math import nan

import pytest

from coordinator_server.security.quotas.connection_rates import (
    ADMITTED,
    NO_LIMIT,
    Admission,
    ConnectionRates,
)
from coordinator_server.security.quotas.rates import Windows

WINDOWS = Windows(2, 1000)
NOW_MS = 1_700_000_000_000


def rates(broker: int = NO_LIMIT, a: int = NO_LIMIT, b: int = NO_LIMIT) -> ConnectionRates:
    """Return the rates of a broker with two listeners."""
    return ConnectionRates(WINDOWS, broker, {"A": a, "B": b})


def test_without_limits_all_are_admitted() -> None:
    """Without limits every connection is admitted, and none is counted."""
    one = rates()
    assert not one.is_enabled
    assert one.admit("A", "1.1.1.1", NOW_MS) is ADMITTED


def test_a_listener_has_a_rate_of_its_own() -> None:
    """A listener has its own rate; a delay is at most one window long."""
    one = rates(a=2)
    assert one.is_enabled
    told = [one.admit("A", "1.1.1.1", NOW_MS).listener_ms for _ in range(5)]
    assert told == [0, 0, 500, 1000, 1000]
    assert one.admit("B", "1.1.1.1", NOW_MS) == ADMITTED


def test_the_brokers_rate_is_of_all_listeners() -> None:
    """The broker's rate counts the connections of all listeners; the longer delay applies."""
    one = rates(broker=2, a=1)
    assert one.admit("B", "1.1.1.1", NOW_MS) == ADMITTED
    assert one.admit("A", "1.1.1.1", NOW_MS) == ADMITTED
    assert one.admit("B", "1.1.1.1", NOW_MS) == Admission(500, 0)
    assert one.admit("A", "1.1.1.1", NOW_MS) == Admission(1000, 0)


def test_the_listener_between_brokers_has_a_rate_of_its_own_alone() -> None:
    """The inter-broker listener has only its own rate.

    Its connections are not counted for the broker's rate.
    """
    one = ConnectionRates(WINDOWS, 1, {"A": NO_LIMIT, "B": 100}, protected="B")
    assert [one.admit("B", "1.1.1.1", NOW_MS).listener_ms for _ in range(5)] == [0] * 5
    told = [one.admit("A", "1.1.1.1", NOW_MS).listener_ms for _ in range(3)]
    assert told == [0, 1000, 1000]


def test_addresses_have_quotas() -> None:
    """Each address has its own quota or the default; refused connections are not counted."""
    one = rates(a=100)
    one.change({"1.1.1.1": 1.9, None: 2})
    assert one.admit("A", "1.1.1.1", NOW_MS) == ADMITTED
    assert [one.admit("A", "1.1.1.1", NOW_MS).address_ms for _ in range(3)] == [1000] * 3
    assert [one.admit("A", "2.2.2.2", NOW_MS).address_ms for _ in range(3)] == [0, 0, 500]
    one.change({"1.1.1.1": 5})
    assert one.admit("A", "1.1.1.1", NOW_MS) == ADMITTED
    assert one.admit("A", "2.2.2.2", NOW_MS) == ADMITTED


def test_addresses_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses without connections are forgotten after an hour, once there are many addresses."""
    monkeypatch.setattr("coordinator_server.security.quotas.rates.SENSORS_BEFORE_PURGE", 2)
    one = rates()
    one.change({None: 5})
    for number in range(6):
        one.admit("A", f"1.1.1.{number}", NOW_MS + number * 1_000_000)
    assert "1.1.1.0" not in one._addresses


def test_no_number_is_no_connection() -> None:
    """NaN is a rate of 0, as in Kafka."""
    one = rates()
    one.change({None: nan})
    assert one.admit("A", "1.1.1.1", NOW_MS).address_ms == 1000
