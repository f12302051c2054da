"""Maps Java's cipher suite names (IANA names) to OpenSSL's names."""

from __future__ import annotations

import re
import ssl

TLS13_SUITES = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
"""The TLS 1.3 suites that OpenSSL enables; Java uses the same names."""

_NAME = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA|DSS)_WITH_(.+)_(SHA|SHA256|SHA384)")
_CIPHER = re.compile(r"(AES|CAMELLIA|ARIA)_(128|256)_(CBC|GCM)")


def openssl_name(name: str) -> str | None:
    """Return OpenSSL's name of a suite before TLS 1.3, or None."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    exchange, signature, cipher_name, digest = match.groups()
    if cipher_name == "CHACHA20_POLY1305":
        parts = [exchange, signature, "CHACHA20", "POLY1305"]
    else:
        cipher = _CIPHER.fullmatch(cipher_name)
        if cipher is None:
            return None
        mode = ["GCM"] if cipher.group(3) == "GCM" else []
        parts = [exchange, signature, cipher.group(1) + cipher.group(2), *mode, digest]
    if exchange is None:
        if signature != "RSA":
            return None
        # OpenSSL omits RSA if it is both key exchange and signature, as in AES128-SHA.
        parts = parts[2:]
    return "-".join(parts)


def apply(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Restrict a context to these suites. Raises ValueError for an unknown suite.

    Python before 3.15 cannot select TLS 1.3 suites: if any is requested, all three are offered, and
    ListenerSecurity refuses connections that negotiate another suite.
    """
    older = [name for name in names if name not in TLS13_SUITES]
    for name in older:
        known = openssl_name(name)
        try:
            if known is None:
                raise ssl.SSLError
            context.set_ciphers(known)
        except ssl.SSLError:
            raise ValueError(f"{name}: there is no such cipher suite here") from None
    if older:
        context.set_ciphers(":".join(str(openssl_name(name)) for name in older))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if len(older) == len(names):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(":".join(name for name in names if name in TLS13_SUITES))
