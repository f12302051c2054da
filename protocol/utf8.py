"""Decodes invalid UTF-8 like Java, so that responses equal Kafka's.

Invalid UTF-8 in a message is not an error; each invalid sequence becomes U+FFFD. Java and Python
agree on the sequences except for encoded surrogates (ED A0..BF ..), which are one sequence in Java
and separate bytes in Python. Importing this module registers the error handler `JAVA_REPLACE`.
"""

from __future__ import annotations

import codecs
import re

JAVA_REPLACE = "java_replace"
_REPLACEMENT = "\ufffd"
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_MOST_CONTINUATION_BYTES = 3


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Decode everything from the error on; return the text and its end (String.decodeUTF8_UTF16).

    Decoding the rest at once is fast: one call of the handler per error would take 80 ms for an
    invalid string of 32 KiB instead of 1 ms.
    """
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    end = _end_of_whole_pieces(data)
    if start >= end:
        surrogate = _ENCODED_SURROGATE.match(data, start)
        return _REPLACEMENT, error.end if surrogate is None else surrogate.end()
    # Replace each encoded surrogate by FF. Python decodes FF as one replacement character, as Java
    # decodes the surrogate.
    rest = _ENCODED_SURROGATE.sub(b"\xff", data[start:end])
    return rest.decode("utf-8", "replace"), end


def _end_of_whole_pieces(data: bytes) -> int:
    """Return the start of a last, possibly incomplete sequence; the size if there is none."""
    for position in range(len(data) - 1, max(len(data) - 2 - _MOST_CONTINUATION_BYTES, -1), -1):
        if data[position] & 0xC0 != 0x80:
            return position if data[position] >= 0xC0 else len(data)
    return len(data)


codecs.register_error(JAVA_REPLACE, _replace_as_java)
