"""How bytes that are no UTF-8 become a string: as in Java, so that Kafka's answer is ours.

Invalid UTF-8 is no error on the wire; each bad piece becomes U+FFFD. Java and Python agree on what
a piece is, except for encoded surrogates (ED A0..BF ..), which Java takes as one piece and Python
byte by byte. Importing this module registers the error handler `JAVA_REPLACE`.
"""

from __future__ import annotations

import codecs
import re

JAVA_REPLACE = "java_replace"
_REPLACEMENT = "\ufffd"
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_MOST_CONTINUATION_BYTES = 3


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """The text of all that begins at the error, and where that ends (String.decodeUTF8_UTF16).

    A handler is called for each error, which takes a microsecond or more: a string of 32 KiB that
    is no UTF-8 would take 80 ms by it, and takes one by the decoder's own replacement.
    """
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    end = _end_of_whole_pieces(data)
    if start >= end:
        surrogate = _ENCODED_SURROGATE.match(data, start)
        return _REPLACEMENT, error.end if surrogate is None else surrogate.end()
    # ED always begins a piece, and so does FF, which is one by itself.
    rest = _ENCODED_SURROGATE.sub(b"\xff", data[start:end])
    return rest.decode("utf-8", "replace"), end


def _end_of_whole_pieces(data: bytes) -> int:
    """Where a last piece begins that may go on: in a stream more of it may come."""
    for position in range(len(data) - 1, max(len(data) - 2 - _MOST_CONTINUATION_BYTES, -1), -1):
        if data[position] & 0xC0 != 0x80:
            return position if data[position] >= 0xC0 else len(data)
    return len(data)


codecs.register_error(JAVA_REPLACE, _replace_as_java)
