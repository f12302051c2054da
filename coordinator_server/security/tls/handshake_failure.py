"""Describes TLS handshake failures for the log."""

from __future__ import annotations

import ssl

_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this listener",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust the certificate of this listener",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses the certificate of this listener",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this listener has expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it finds no common protocol version or cipher suite",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak the protocol versions of this listener",
    "TLSV1_ALERT_INTERNAL_ERROR": "it had an internal error",
}
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "the client sent no certificate, ssl.client.auth is required"
    ),
    "UNSUPPORTED_PROTOCOL": "the client's protocol version is not in ssl.enabled.protocols",
    "VERSION_TOO_LOW": "the client's protocol version is not in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client offers no cipher suite that this listener has",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": (
        "the client takes no signature that the key of this listener can make"
    ),
}
_UNKNOWN_SIGNER = "no certificate of the trust store has signed it"
_VERIFY_CODES = {  # the values of OpenSSL's X509_V_ERR_*
    9: "it is not valid yet",
    10: "it has expired",
    18: _UNKNOWN_SIGNER,
    19: _UNKNOWN_SIGNER,
    20: _UNKNOWN_SIGNER,
    21: _UNKNOWN_SIGNER,
    26: "its extended key usage does not allow clients",
}
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL")


def looks_like_handshake(first_bytes: bytes) -> bool:
    """Return whether bytes begin a TLS handshake: record type 22, version 3.x (RFC 8446, 5.1)."""
    return first_bytes[:2] == b"\x16\x03"


def describe_failure(
    error: ssl.SSLError, first_bytes: bytes, *, is_established: bool = False
) -> str:
    """Return a sentence about an OpenSSL error; `first_bytes` are the client's first bytes."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = _VERIFY_CODES.get(error.verify_code, error.verify_message)
        return f"the client's certificate is refused: {said}"
    if reason in _NOT_TLS and not looks_like_handshake(first_bytes) and not is_established:
        return "this is no TLS handshake, the client seems to speak plain text"
    if reason in _REASONS:
        return _REASONS[reason]
    if "ALERT" in reason:
        said = _ALERTS.get(reason, reason.lower().replace("_", " "))
        return f"the client broke off the TLS handshake: {said}"
    what = "TLS" if is_established else "the TLS handshake"
    return f"{what} failed: {reason.lower().replace('_', ' ') or error}"
