"""The TLS step of `doctor`: the handshake, the certificate chain, host names, missing settings."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from coordinator_server.client import Address
from coordinator_server.client.security import TlsSettings
from coordinator_server.client.tls import context_of, explain, handshake, unchecked_context
from coordinator_server.tools.doctor_network import Peer, identify, not_a_broker
from coordinator_server.tools.doctor_step import RefusedClientError, Step, StepFailedError

if TYPE_CHECKING:
    from cryptography import x509

_SOON_DAYS = 14
_VERDICT_S = 0.3
# The values of OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED = 9, 10
_NO_ISSUER = (2, 18, 19, 20, 21)
_WRONG_NAME = (62, 64)
_ABOUT_THE_CLIENT = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA",
                     "CERTIFICATE_EXPIRED", "UNSUPPORTED_CERTIFICATE")  # fmt: skip
_NO_NAME_CHECK = "ssl.endpoint.identification.algorithm"


def shake_hands(
    step: Step, plain: socket.socket, address: Address, settings: TlsSettings, protocol: str
) -> ssl.SSLSocket:
    """Return the connection after the TLS handshake, described in the step.

    Raises StepFailedError.
    """
    target = Address(*plain.getpeername()[:2])
    try:
        secured = handshake(plain, address, context_of(settings), step.left_s())
    except OSError as error:
        chain = _look(step, target, address, settings)
        _describe(step, chain)
        raise _diagnosis(step, error, chain, target, address, settings, protocol) from error
    step.end()
    cipher = secured.cipher()
    step.found = f"{secured.version()}, {cipher[0] if cipher else 'no cipher'}"
    chain = _chain(secured)
    _describe(step, chain)
    step.details.append(_name_check(chain, address, settings))
    if settings.keystore is not None:
        step.details.append(f"own certificate: that of {settings.keystore.setting}")
    _await_verdict(secured, min(step.left_s(), _VERDICT_S), settings)
    return secured


def _await_verdict(secured: ssl.SSLSocket, timeout_s: float, settings: TlsSettings) -> None:
    """Wait for the server's verdict on the client: in TLS 1.3, session tickets or an alert.

    Read the alert before sending anything: data sent to a server that has closed the connection may
    discard the alert. Raises StepFailedError.
    """
    if secured.version() != "TLSv1.3" or not select.select([secured], [], [], timeout_s)[0]:
        return
    secured.setblocking(False)
    try:
        secured.recv(1)
    except ssl.SSLWantReadError:
        return
    except ssl.SSLError as error:
        raise refused_client(error, settings) from error
    except OSError:
        return  # the first request reports the error


def refused_client(error: ssl.SSLError, settings: TlsSettings) -> RefusedClientError:
    """Return the error that explains why a broker ended the handshake or the connection."""
    reason = error.reason or ""
    if settings.keystore is None and (
        reason.endswith(_ABOUT_THE_CLIENT) or reason.endswith("HANDSHAKE_FAILURE")
    ):
        return RefusedClientError(
            f"the broker refuses a client without a certificate ({explain(error)})",
            [
                "client: ssl.keystore.location, PEM with key and certificate (librdkafka:"
                " ssl.certificate.location, ssl.key.location)",
                "broker: ssl.client.auth=none or requested, if clients need none",
            ],
        )
    if settings.keystore is not None and reason.endswith(_ABOUT_THE_CLIENT):
        return RefusedClientError(
            f"the broker refuses the client's certificate ({explain(error)})",
            [
                f"client: {settings.keystore.setting}, a certificate that is valid and signed by a"
                " CA that the broker trusts",
                "broker: ssl.truststore.location, the CA of the clients' certificates",
            ],
        )
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return RefusedClientError(
            f"the two have no version of TLS in common ({explain(error)})",
            [f"ssl.enabled.protocols; the client has {', '.join(settings.versions)}"],
        )
    return RefusedClientError(
        f"TLS failed: {explain(error)}",
        ["broker: its log has its side of it (ssl.enabled.protocols, ssl.cipher.suites)"],
    )


def _diagnosis(
    step: Step,
    error: OSError,
    chain: Sequence[x509.Certificate],
    target: Address,
    address: Address,
    settings: TlsSettings,
    protocol: str,
) -> StepFailedError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _bad_certificate(error, chain, address, settings)
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return refused_client(error, settings)
    if not chain:
        peer = identify(target, step.deadline_s)
        if peer is not Peer.TLS:
            return not_a_broker(peer, protocol)
    if isinstance(error, ssl.SSLError):
        return refused_client(error, settings)
    return StepFailedError(f"the handshake broke off: {error.strerror or error}")


def _bad_certificate(
    error: ssl.SSLCertVerificationError,
    chain: Sequence[x509.Certificate],
    address: Address,
    settings: TlsSettings,
) -> StepFailedError:
    code, text = error.verify_code, error.verify_message.rstrip(".")
    if code in _WRONG_NAME:
        return StepFailedError(
            f"the certificate is for another name: {address.host} is not among"
            f" {_names(chain[0]) if chain else 'its names'}",
            [
                "client: bootstrap.servers, one of these names",
                f"broker: a certificate with {address.host} among its subjectAltNames"
                " (ssl.keystore.location); the CN alone does not count",
                f"client, for tests only: {_NO_NAME_CHECK}= (empty; librdkafka: none)",
            ],
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        return StepFailedError(
            f"{text}: {_at_fault(chain)}",
            ["broker: ssl.keystore.location, a certificate that is valid; or a clock is wrong"],
        )
    if code in _NO_ISSUER:
        issuer = chain[-1].issuer.rfc4514_string() if chain else "its issuer"
        store = settings.truststore
        trusted = "the system's trust store" if store is None else store.setting
        change = (
            f"client: ssl.truststore.location (PEM; librdkafka: ssl.ca.location) with the"
            f" certificate of {issuer}"
        )
        return StepFailedError(
            f"the CA is not trusted: {trusted} has no certificate of {issuer} ({text})",
            [
                change,
                "broker: ssl.keystore.location with the whole chain, if that one is not the root",
            ],
        )
    return StepFailedError(
        f"the certificate is refused: {text}", ["broker: ssl.keystore.location, its certificate"]
    )


def _look(
    step: Step, target: Address, address: Address, settings: TlsSettings
) -> list[x509.Certificate]:
    """Return the certificate chain of a broker whose handshake failed.

    Opens a second connection that does not verify certificates.
    """
    try:
        plain = socket.create_connection(target, step.left_s() / 3)
        with handshake(plain, address, unchecked_context(settings), step.left_s() / 3) as secured:
            return _chain(secured)
    except OSError:
        return []


def _chain(secured: ssl.SSLSocket) -> list[x509.Certificate]:
    """Return the certificates that the broker sent, starting with its own."""
    from cryptography import x509

    inside: Any = secured
    if hasattr(inside, "get_unverified_chain"):  # Python 3.13 and newer have this method
        encoded = inside.get_unverified_chain()
    else:
        der = 2  # the value of _ssl.ENCODING_DER
        encoded = [
            certificate.public_bytes(der)
            for certificate in inside._sslobj.get_unverified_chain() or ()
        ]
    return [x509.load_der_x509_certificate(content) for content in encoded]


def _describe(step: Step, chain: Sequence[x509.Certificate]) -> None:
    for place, certificate in enumerate(chain):
        step.details.append(
            f"certificate {place + 1}: {certificate.subject.rfc4514_string()}, by"
            f" {certificate.issuer.rfc4514_string()}, {certificate.not_valid_before_utc:%Y-%m-%d}"
            f" to {certificate.not_valid_after_utc:%Y-%m-%d} ({_left(certificate)})"
        )
        if place == 0:
            step.details.append(f"               its names: {_names(certificate)}")


def _left(certificate: x509.Certificate) -> str:
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    if left.total_seconds() < 0:
        return f"EXPIRED {(-left).days} days ago"
    return f"{'only ' if left.days < _SOON_DAYS else ''}{left.days} days left"


def _name_check(chain: Sequence[x509.Certificate], address: Address, settings: TlsSettings) -> str:
    if not settings.verifies_chain:
        return "certificates are NOT checked (enable.ssl.certificate.verification=false)"
    if not settings.verifies_name:
        return f"the name is NOT checked ({_NO_NAME_CHECK} is empty)"
    return f"{address.host} is among the names of the certificate ({_NO_NAME_CHECK}=https)"


def _names(certificate: x509.Certificate) -> str:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "none (no subjectAltName)"
    shown = [str(name.value) for name in names]
    return ", ".join(shown) or "none"


def _at_fault(chain: Sequence[x509.Certificate]) -> str:
    """Return a description of the certificate that has expired or is not yet valid."""
    now = datetime.now(UTC)
    for certificate in chain:
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            return (
                f"{certificate.subject.rfc4514_string()}, valid from"
                f" {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to"
                f" {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
            )
    return "one of the certificates of the chain, or of the trust store"
