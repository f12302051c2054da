"""Bytes that are no UTF-8 become the string that Java makes of them."""

from __future__ import annotations

import pytest

from protocol.utf8 import JAVA_REPLACE

BAD = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xc3\xa9", "caf\u00e9"),
        (b"\xff\xfe", BAD * 2),
        (b"a\xc3", "a" + BAD),
        (b"\xe0\x80x", BAD * 2 + "x"),
        (b"\xe1\x80x", BAD + "x"),
        (b"\xf0\x90\x80x", BAD + "x"),
        (b"\xed\xa0\x80", BAD),
        (b"\xed\xa0\x80\xed\xb0\x80!", BAD * 2 + "!"),
        (b"\xed\xa0x", BAD + "x"),
        (b"\xed\xa0", BAD),
        (b"\xed", BAD),
        (b"\xedx", BAD + "x"),
    ],
)
def test_every_bad_piece_is_one_replacement_character(data: bytes, text: str) -> None:
    """An encoded surrogate is one piece, as in Java; all else as the Unicode standard advises."""
    assert str(data, "utf-8", JAVA_REPLACE) == text
