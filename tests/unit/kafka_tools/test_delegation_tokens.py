"""kafka-delegation-tokens: the cases that are not recorded, and Java's base64."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from coordinator_server.kafka_tools.delegation_tokens import Token
from coordinator_server.kafka_tools.java import decode_base64


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone to UTC+9, without summer time."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "XYZ-9")
        time.tzset()
        yield
    time.tzset()


def test_a_row(in_tokyo: None) -> None:
    """Times are shown in the machine's time zone, to the minute."""
    token = Token("id", b"\xfb\xff", "User:a", "User:b", ["User:c", "User:d"], 0, 59_999, 60_000)
    assert token.cells() == (
        "id", "+/8=", "User:a", "User:b", "[User:c, User:d]",
        "1970-01-01T09:00", "1970-01-01T09:00", "1970-01-01T09:01",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""), ("ab", "69"), ("abc", "69b7"), ("abcd", "69b71d"), ("ab==", "69"),
        ("YR==", "61"), ("abcdefg", "69b71d79f8"),
    ],
)  # fmt: skip
def test_base64_that_java_reads(text: str, expected: str) -> None:
    """Base64 may lack padding, and unused bits are dropped."""
    assert decode_base64(text).hex() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("=", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("ab=", "Input byte array has wrong 4-byte ending unit"),
        ("ab=c", "Input byte array has wrong 4-byte ending unit"),
        ("====", "Input byte array has wrong 4-byte ending unit"),
        ("a===", "Last unit does not have enough valid bits"),
        ("abcde", "Last unit does not have enough valid bits"),
        ("ab==cd", "Input byte array has incorrect ending byte at 4"),
        ("abc=d", "Input byte array has incorrect ending byte at 4"),
        ("ab\n==", "Illegal base64 character a"),
        ("zoë", "Illegal base64 character -15"),
    ],
)
def test_base64_that_java_refuses(text: str, message: str) -> None:
    """Invalid base64 is refused with the text of Java 17's Base64.Decoder."""
    with pytest.raises(ValueError) as caught:
        decode_base64(text)
    assert str(caught.value) == message
