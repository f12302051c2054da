"""Tests of the service with a real broker, whose clock sets the times of the payments."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from payments import ALERTS, GROUP, PAYMENTS, PaymentAlerts, Windows

from coordinator_server.testing import Broker

OPTIONS = {"heartbeat.interval.ms": 200, "auto.commit.interval.ms": 50}


@pytest.fixture
def alerts(kafka: Broker) -> Iterator[PaymentAlerts]:
    """A running service."""
    kafka.create_topic(PAYMENTS, 2)
    service = PaymentAlerts(kafka.bootstrap_servers, **OPTIONS)
    yield service
    service.close()


def pay(kafka: Broker, card: str, times: int = 1) -> None:
    """Pay `times` times at the current time of the broker's clock."""
    kafka.produce(PAYMENTS, *[json.dumps({"card": card, "cents": 100})] * times, key=card)


def process(service: PaymentAlerts, count: int) -> None:
    """Run the service until it has processed `count` payments."""
    while count > 0:
        count -= service.run_once()


def cards(kafka: Broker) -> list[str]:
    """Return the cards with an alert."""
    return [(record.key or b"").decode() for record in kafka.consume(ALERTS, None)]


def test_three_payments_within_a_minute_are_told(kafka: Broker, alerts: PaymentAlerts) -> None:
    """A card that is used three times gets one alert, the other card none."""
    pay(kafka, "4711", 3)
    pay(kafka, "0815", 2)
    process(alerts, 5)
    assert cards(kafka) == ["4711"]


def test_payments_that_lie_apart_are_not(kafka: Broker, alerts: PaymentAlerts) -> None:
    """Payments over more than a minute cause no alert: the third comes a minute after the first."""
    kafka.clock.freeze()
    for seconds in (0, 30, 30):
        kafka.clock.advance(seconds)
        pay(kafka, "4711")
    process(alerts, 3)
    assert cards(kafka) == []
    kafka.clock.advance(29)
    pay(kafka, "4711")
    process(alerts, 1)
    assert cards(kafka) == ["4711"]


def test_processed_payments_are_committed(kafka: Broker, alerts: PaymentAlerts) -> None:
    """A new instance does not read the payments again, and starts with empty windows."""
    pay(kafka, "4711", 2)
    process(alerts, 2)
    alerts.close()
    assert sum(kafka.committed(GROUP).values()) == 2
    second = PaymentAlerts(kafka.bootstrap_servers, **OPTIONS)
    pay(kafka, "4711")
    process(second, 1)
    second.close()
    assert cards(kafka) == []
    assert sum(kafka.committed(GROUP).values()) == 3


def test_an_expired_session_is_survived(kafka: Broker, alerts: PaymentAlerts) -> None:
    """After a minute without heartbeats (one call) the service rejoins and continues."""
    pay(kafka, "4711", 2)
    process(alerts, 2)
    while sum(kafka.committed(GROUP).values()) < 2:
        alerts.run_once(0.05)
    generation = kafka.wait_for_group(GROUP, members=1).generation
    kafka.clock.advance(60)
    pay(kafka, "0815", 3)
    process(alerts, 3)
    assert kafka.wait_for_group(GROUP, members=1).generation > generation
    assert cards(kafka) == ["0815"]


def test_a_window_is_a_minute() -> None:
    """Payments that are a minute old do not count."""
    windows = Windows()
    assert [windows.add("a", time_ms) for time_ms in (0, 1, 59_999)] == [False, False, True]
    assert not windows.add("a", 60_001)
    assert windows.add("a", 60_002)
