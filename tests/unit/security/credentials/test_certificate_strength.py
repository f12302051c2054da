"""Certificates are refused where Java refuses them, even if OpenSSL would differ."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator_server.security.credentials.certificate_strength import (
    accept_old_algorithms,
    weakness,
)
from tests.certificates import Authority, OldAuthority

EXPECTED = {
    "sha1": None,
    "rsa1024": None,
    "md5": "the signature is MD5withRSA",
    "rsa768": "the RSA key has 768 bits",
    "p224": "the curve of the key is not supported",
}


def der(store: Path) -> bytes:
    """Return the certificate of a PEM key store."""
    return x509.load_pem_x509_certificate(store.read_bytes()).public_bytes(Encoding.DER)


@pytest.fixture(scope="module")
def old_authority(tmp_path_factory: pytest.TempPathFactory) -> OldAuthority:
    """Return the authority of the old certificates."""
    return OldAuthority(tmp_path_factory.mktemp("old"))


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_certificate(old_authority: OldAuthority, name: str) -> None:
    """Each certificate gets the verdict of Kafka 4.4.0 for a client certificate."""
    assert weakness(der(old_authority.issue(name))) == EXPECTED[name]


@pytest.mark.parametrize("is_rsa", [True, False])
def test_a_certificate_of_today(is_rsa: bool) -> None:
    """RSA keys of 2048 bits and P-256 keys are accepted."""
    assert (
        weakness(Authority().issue("new", is_rsa=is_rsa).certificate.public_bytes(Encoding.DER))
        is None
    )


@pytest.mark.parametrize(
    ("known", "other", "expected"),
    [
        # The key's algorithm is RSASSA-PSS instead of rsaEncryption.
        ("2a864886f70d010101", "2a864886f70d01010a", "the RSA key has 768 bits"),
        ("2a8648ce3d030107", "2a8648ce3d030108", "the curve of the key is not supported"),
    ],
)
def test_other_kinds_of_keys(
    old_authority: OldAuthority, known: str, other: str, expected: str
) -> None:
    """The size of RSASSA-PSS keys is checked, and unknown curves are refused."""
    is_rsa = "RSA" in expected
    whole = (
        der(old_authority.issue("rsa768"))
        if is_rsa
        else Authority().issue("new", is_rsa=False).certificate.public_bytes(Encoding.DER)
    )
    assert bytes.fromhex(known) in whole
    assert weakness(whole.replace(bytes.fromhex(known), bytes.fromhex(other))) == expected


def test_every_truncation_is_malformed() -> None:
    """A certificate that is truncated anywhere raises ValueError."""
    whole = Authority().certificate.public_bytes(Encoding.DER)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"element|certificate"):
            weakness(whole[:length])


@pytest.mark.parametrize("protocol", [ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT])
def test_the_cipher_suites_stay(protocol: int) -> None:
    """Accepting old algorithms adds no cipher suite."""
    context, default = ssl.SSLContext(protocol), ssl.SSLContext(protocol)
    accept_old_algorithms(context)
    assert context.get_ciphers() == default.get_ciphers()
