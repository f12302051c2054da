"""Formats the subject of a certificate as Java does, for Kafka's principal names.

Source: X500Principal.getName(), the JDK's variant of RFC 2253. Principal names are compared
character by character, also in existing ACLs, so the text must equal the JDK's: relative names from
last to first, keywords for only nine types, and `#` with hexadecimal bytes for all others. A test
compares many names with the output of a JVM.
"""

from __future__ import annotations

from coordinator_server.security.credentials.der import elements

_OBJECT_IDENTIFIER, _VERSION = 0x06, 0xA0
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java decodes
# all of them as UTF-8.
_STRINGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_MOST_IDENTIFIER_BYTES = 4096
"""Size limit of an object identifier, because decoding takes quadratic time."""
_ESCAPED = frozenset(',=+<>#;"\\')
_WHITE = " \r"


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate. Raises ValueError."""
    return rfc2253(_subject(certificate))


def rfc2253(name: bytes) -> str:
    """Return a DER Name as text. Raises ValueError."""
    return ",".join(
        "+".join(_attribute(attribute) for _, attribute, _ in elements(relative_name))
        for _, relative_name, _ in reversed(list(elements(_inside(name))))
    )


def _subject(certificate: bytes) -> bytes:
    """Return the subject Name: the fifth field of the signed part, not counting a version."""
    to_be_signed = _inside(_inside(certificate))
    fields = [whole for tag, _, whole in elements(to_be_signed) if tag != _VERSION]
    if len(fields) < 5:
        raise ValueError("no certificate")
    return fields[4]


def _attribute(encoded: bytes) -> str:
    """Return TYPE=VALUE of one AttributeTypeAndValue."""
    parts = list(elements(encoded))
    if len(parts) != 2 or parts[0][0] != _OBJECT_IDENTIFIER:
        raise ValueError("no attribute of a name")
    identifier = _identifier(parts[0][1])
    tag, value, whole = parts[1]
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or identifier}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(_WHITE))
    trail = len(text.rstrip(_WHITE))
    return "".join(
        "\\" + letter
        if letter in _ESCAPED or not lead <= position < trail
        else "\\00"
        if letter == "\0"
        else letter
        for position, letter in enumerate(text)
    )


def _identifier(encoded: bytes) -> str:
    """Return an object identifier in dotted notation."""
    if len(encoded) > _MOST_IDENTIFIER_BYTES:
        raise ValueError("a long object identifier")
    numbers, number = [], 0
    for octet in encoded:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _inside(encoded: bytes) -> bytes:
    """Return the content of the first element; empty if there is none."""
    return next(elements(encoded), (0, b"", b""))[1]
