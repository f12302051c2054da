"""kafka-consumer-perf-test: times in the format of Java's SimpleDateFormat."""

from __future__ import annotations

import time

import pytest

from coordinator_server.kafka_tools.consumer_perf_test import date_format
from coordinator_server.kafka_tools.frame import NotHereError, ToolError

AT_S = time.mktime((2026, 3, 4, 15, 6, 7, 0, 0, -1)) + 0.089


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-04 15:06:07:089"),
        ("yy/M/d h:m:s a S", "26/3/4 3:6:7 PM 89"),
        ("yyyyy", "02026"),
        ("HH'h' mm''ss", "15h 06'07"),
        ("'it''s' H", "it's 15"),
        ("", ""),
    ],
)
def test_patterns(pattern: str, text: str) -> None:
    """Each run of equal letters is printed as a number, padded with zeros to the run's length."""
    assert date_format(pattern)(AT_S) == text


@pytest.mark.parametrize(
    ("pattern", "error"),
    [("bad", ToolError), ("yyyy MMM", NotHereError), ("EEE", NotHereError), ("Z", NotHereError)],
)
def test_patterns_that_are_refused(pattern: str, error: type[Exception]) -> None:
    """Unknown letters of a time pattern are refused, as are letters that this tool lacks."""
    with pytest.raises(error):
        date_format(pattern)
