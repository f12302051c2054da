"""How bytes that are no UTF-8 become a string: as in Java, so that Kafka's answer is ours.

Invalid UTF-8 is no error on the wire; each bad piece becomes U+FFFD. Java and Python agree on what
a piece is, except for encoded surrogates (ED A0..BF ..), which Java takes as one piece and Python
byte by byte. Importing this module registers the error handler `JAVA_REPLACE`.
"""

from __future__ import annotations

import codecs

JAVA_REPLACE = "java_replace"
_REPLACEMENT = "\ufffd"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD for the piece at the error, and where to go on (String.decodeUTF8_UTF16)."""
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    second, third = data[start + 1 : start + 2], data[start + 2 : start + 3]
    if data[start] == 0xED and b"\xa0" <= second <= b"\xbf":
        return _REPLACEMENT, start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return _REPLACEMENT, error.end


codecs.register_error(JAVA_REPLACE, _replace_as_java)
