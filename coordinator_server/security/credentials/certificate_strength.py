"""The certificates that TLS accepts: the same as in Java.

Python's default security level rejects SHA-1 signatures and 1024-bit RSA keys, which old key stores
for Kafka still have. Level 0 accepts them, but also accepts certificates that Java rejects;
`weakness` detects these. Source: `jdk.certpath.disabledAlgorithms` and the named curves of Java 17.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from coordinator_server.security.credentials.der import elements

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST_RSA_KEY_BITS = 1024

_OID, _BIT_STRING, _VERSION = 0x06, 0x03, 0xA0
_REFUSED_SIGNATURES = {
    bytes.fromhex("2a864886f70d010102"): "MD2withRSA",
    bytes.fromhex("2a864886f70d010103"): "MD4withRSA",
    bytes.fromhex("2a864886f70d010104"): "MD5withRSA",
}
_RSA_KEYS = (bytes.fromhex("2a864886f70d010101"), bytes.fromhex("2a864886f70d01010a"))
"""The object identifiers of rsaEncryption and RSASSA-PSS."""
_EC = bytes.fromhex("2a8648ce3d0201")
_CURVES = frozenset(
    bytes.fromhex(curve) for curve in ("2a8648ce3d030107", "2b81040022", "2b81040023")
)
"""P-256, P-384 and P-521: the curves that Java's TLS supports for certificates."""


def accept_old_algorithms(context: ssl.SSLContext) -> None:
    """Accept certificates with SHA-1 signatures or short keys; cipher suites stay the same."""
    older = [
        str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"
    ]
    context.set_ciphers(":".join(["@SECLEVEL=0", *older]))


def chain_weakness(session: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """Return why Java rejects the peer's certificates; None if Java accepts them.

    The trust anchor is not checked. In a resumed session only the peer's own certificate is
    checked. Raises ValueError for malformed DER.
    """
    own = session.getpeercert(binary_form=True)
    chain = [] if own is None else [own, *_verified_chain(session)[1:-1]]
    return next(filter(None, map(weakness, chain)), None)


def weakness(certificate: bytes) -> str | None:
    """Return why Java rejects a DER certificate; None if accepted.

    Raises ValueError if malformed.
    """
    parts = [content for _, content, _ in elements(_first(certificate)[1])]
    if len(parts) != 3:
        raise ValueError("no certificate")
    signature = _REFUSED_SIGNATURES.get(_first(parts[1])[1])
    if signature is not None:
        return f"the signature is {signature}"
    fields = [content for tag, content, _ in elements(parts[0]) if tag != _VERSION]
    if len(fields) < 6:
        raise ValueError("no certificate")
    algorithm, key = [content for _, content, _ in elements(fields[5])][:2]
    identifiers = [content for tag, content, _ in elements(algorithm) if tag == _OID]
    if identifiers and identifiers[0] in _RSA_KEYS:
        bits = int.from_bytes(_first(_first(key[1:])[1])[1]).bit_length()
        return f"the RSA key has {bits} bits" if bits < SHORTEST_RSA_KEY_BITS else None
    # A key with explicit parameters has no named curve.
    if identifiers[:1] == [_EC] and (
        not identifiers[1:] or not _CURVES.issuperset(identifiers[1:])
    ):
        return "the curve of the key is not supported"
    return None


def _verified_chain(session: Any) -> Sequence[bytes]:
    """Return the chain from the peer's certificate to the trust anchor.

    The chain is empty in a resumed session.
    """
    if hasattr(session, "get_verified_chain"):  # Python 3.13 and newer have this method
        return session.get_verified_chain() or ()
    chain = session._sslobj.get_verified_chain() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]


def _first(encoded: bytes) -> tuple[int, bytes]:
    """Return tag and content of the first element. Raises ValueError if there is none."""
    for tag, content, _ in elements(encoded):
        return tag, content
    raise ValueError("an element is missing")
