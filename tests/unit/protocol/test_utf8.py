"""Bytes that are not UTF-8 become the same string as in Java."""

from __future__ import annotations

import codecs
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """Each invalid piece becomes one replacement character, as in the Unicode standard.

    An encoded surrogate is one piece, as in Java.
    """
    assert str(data, "utf-8", JAVA_REPLACE) == text


def _by_pieces(data: bytes) -> str:
    """Return the text, decoded piece by piece like Python, except for encoded surrogates."""
    text, position = "", 0
    while position < len(data):
        match = re.match(rb"\xed[\xa0-\xbf][\x80-\xbf]?", data[position:])
        if match is not None:
            text, position = text + BAD, position + match.end()
            continue
        try:
            return text + data[position:].decode()
        except UnicodeDecodeError as error:
            text += data[position : position + error.start].decode()
            position += error.start
            if re.match(rb"\xed[\xa0-\xbf]", data[position:]) is None:
                text, position = text + BAD, position + error.end - error.start
    return text


PIECES = st.sampled_from(
    [bytes([one]) for one in (0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE1, 0xED, 0xF0, 0xFF)]
)


@given(st.lists(PIECES, max_size=24).map(b"".join), st.integers(0, 24))
def test_any_bytes_are_read_piece_by_piece(data: bytes, cut: int) -> None:
    """Any bytes are decoded piece by piece, wherever a stream is split."""
    expected = _by_pieces(data)
    assert str(data, "utf-8", JAVA_REPLACE) == expected
    stream = codecs.getincrementaldecoder("utf-8")(JAVA_REPLACE)
    surrogates_are_whole = re.search(rb"\xed[\xa0-\xbf]?$", data[:cut]) is None
    read = stream.decode(data[:cut]) + stream.decode(data[cut:]) + stream.decode(b"", final=True)
    assert read == expected or not surrogates_are_whole


@pytest.mark.parametrize("piece", [b"\xff", b"\x80", b"\xc0\x80", b"\xe1\x80", b"\xed\xa0\x80"])
def test_a_long_string_costs_a_few_calls(piece: bytes) -> None:
    """The decoder calls its handler rarely, although a string may have 32 767 errors."""
    calls: list[int] = []
    handler = codecs.lookup_error(JAVA_REPLACE)

    def counted(error: UnicodeError) -> tuple[str | bytes, int]:
        calls.append(1)
        return handler(error)

    codecs.register_error("counted_replace", counted)
    data = b"ok" + piece * 100_000
    assert str(data, "utf-8", "counted_replace") == str(data, "utf-8", JAVA_REPLACE)
    assert 1 <= len(calls) <= 4
