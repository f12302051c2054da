"""Times and durations of --reset-offsets, as Java parses them."""

from __future__ import annotations

import pytest

from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.reset_plan import parse_datetime_ms, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.5Z", 1_005),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T00:00:00.000-0130", 5_400_000),
        ("1970-01-01T01:00:00.000+01", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, milliseconds: int) -> None:
    """Milliseconds are required, the zone is optional and UTC by default (Utils.getDateTime)."""
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["now", "2020-01-01", "2020-01-01T00:00:00", "2020-02-30T00:00:00.000"]
)
def test_another_time_is_refused(text: str) -> None:
    """An invalid time is a ParseException, wrapped as in Kafka's tool."""
    with pytest.raises(ToolError) as raised:
        parse_datetime_ms(text)
    assert raised.value.java_class == "java.lang.RuntimeException"
    assert isinstance(raised.value.__cause__, ToolError)
    assert raised.value.__cause__.java_class == "java.text.ParseException"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1S", 1_000),
        ("pt1.5s", 1_500),
        ("P1DT2H3M4.005S", 93_784_005),
        ("PT-1H", -3_600_000),
        ("-PT1H", -3_600_000),
        ("PT-0.5S", -500),
        ("P2D", 172_800_000),
    ],
)
def test_a_duration_is_read_as_javas(text: str, milliseconds: int) -> None:
    """Durations have days, hours, minutes, seconds, each with a sign (java.time.Duration.parse)."""
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1", "P1Y"])
def test_another_duration_is_refused(text: str) -> None:
    """An invalid duration gets the text of Java's DateTimeParseException."""
    with pytest.raises(ToolError, match="Text cannot be parsed to a Duration"):
        parse_duration_ms(text)
