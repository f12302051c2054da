"""Subjects of certificates in Java's format; tests/oracle compares more with Java."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from coordinator_server.security.tls.distinguished_name import rfc2253, subject_of
from tests.certificates import Authority

MAIL = NameOID.EMAIL_ADDRESS
COMMON, UNIT, USER = NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.USER_ID


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ([], ""),
        ([(UNIT, "b"), (COMMON, "a")], "CN=a,OU=b"),
        ([(COMMON, 'a,b+c"d\\e<f>g;h=i#j')], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        ([(COMMON, " a  ")], "CN=\\ a\\ \\ "),
        ([(COMMON, "  ")], "CN=\\ \\ "),
        ([(COMMON, "a\0b")], "CN=a\\00b"),
        ([(COMMON, "Jörg 日本")], "CN=Jörg 日本"),
        ([(USER, "u")], "UID=u"),
        ([(MAIL, "a@b.c")], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([(COMMON, "x" * 64)], "CN=" + "x" * 64),
    ],
)
def test_a_subject(attributes: list[tuple[x509.ObjectIdentifier, str]], expected: str) -> None:
    """A subject is printed from the last part to the first, unknown attributes in hexadecimal."""
    name = x509.Name([x509.NameAttribute(*attribute) for attribute in attributes])
    assert rfc2253(name.public_bytes()) == expected


def test_several_attributes_in_one_part() -> None:
    """Several attributes of one part are joined by a plus sign, in the certificate's order."""
    part = x509.RelativeDistinguishedName(
        [x509.NameAttribute(COMMON, "a"), x509.NameAttribute(USER, "b")]
    )
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(UNIT, "c")]), part])
    assert rfc2253(name.public_bytes()) == "CN=a+UID=b,OU=c"


def test_the_subject_of_a_certificate() -> None:
    """The subject of a certificate is printed, not its issuer."""
    certificate = Authority().issue("alice").certificate
    assert subject_of(certificate.public_bytes(Encoding.DER)) == "CN=alice,O=Tests"


@pytest.mark.parametrize("encoded", ["30", "3005", "30023000", "3004310230ff", "300431023000"])
def test_what_is_no_certificate(encoded: str) -> None:
    """The truncated bytes of a certificate are refused."""
    with pytest.raises(ValueError):
        subject_of(bytes.fromhex(encoded))
    with pytest.raises(ValueError):
        rfc2253(bytes.fromhex("3004310230ff"))
    with pytest.raises(ValueError):
        rfc2253(bytes.fromhex("30083106300406000c00"))


def test_a_long_object_identifier() -> None:
    """A long object identifier is refused, as its number would take seconds to compute."""
    identifier = b"\x06\x83" + (100_000).to_bytes(3, "big") + b"\xff" * 99_999 + b"\x01"
    attribute = b"\x30\x83" + (len(identifier) + 3).to_bytes(3, "big") + identifier + b"\x0c\x01a"
    part = b"\x31\x83" + len(attribute).to_bytes(3, "big") + attribute
    with pytest.raises(ValueError, match="a long object identifier"):
        rfc2253(b"\x30\x83" + len(part).to_bytes(3, "big") + part)
