"""Reasons of failed handshakes as sentences."""

from __future__ import annotations

import ssl

import pytest

from coordinator_server.security.tls.handshake_failure import describe_failure


def failure(reason: str) -> ssl.SSLError:
    """Return an error as OpenSSL raises it."""
    error = ssl.SSLError(1, "what OpenSSL says")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "first_bytes", "expected"),
    [
        ("WRONG_VERSION_NUMBER", b"\0\0\0\x10", "seems to speak plain text"),
        ("HTTP_REQUEST", b"GET / HTTP", "seems to speak plain text"),
        ("WRONG_VERSION_NUMBER", b"\x16\x03\x01", "failed: wrong version number"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", b"\x16\x03", "sent no certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", b"\x16\x03", "does not trust the certificate of this listener"),
        ("TLSV13_ALERT_MISSING", b"\x16\x03", "broke off the TLS handshake: tlsv13 alert missing"),
        ("SOMETHING_ELSE", b"\x16\x03", "the TLS handshake failed: something else"),
        ("", b"\x16\x03", "what OpenSSL says"),
    ],
)
def test_a_reason(reason: str, first_bytes: bytes, expected: str) -> None:
    """The error text has OpenSSL's reason in words, or an explanation of that reason."""
    assert expected in describe_failure(failure(reason), first_bytes)


def test_a_certificate() -> None:
    """The error text says why a certificate was refused, in OpenSSL's words or in ours."""
    error = ssl.SSLCertVerificationError(1, "x")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_code, error.verify_message = 10, "certificate has expired"
    assert describe_failure(error, b"").endswith("it has expired")
    error.verify_code, error.verify_message = 23, "certificate revoked"
    assert describe_failure(error, b"").endswith("certificate revoked")


def test_a_connection_that_is_established() -> None:
    """An error on an established connection is not called a handshake failure."""
    said = describe_failure(failure("DECRYPTION_FAILED"), b"", is_established=True)
    assert said == "TLS failed: decryption failed"
