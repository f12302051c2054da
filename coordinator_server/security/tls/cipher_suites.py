"""Java's names of cipher suites (those of IANA) and OpenSSL's."""

from __future__ import annotations

import re
import ssl

TLS13_SUITES = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
"""The suites of TLS 1.3 that OpenSSL has on; both call them the same."""

_NAME = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA|DSS)_WITH_(.+)_(SHA|SHA256|SHA384)")
_CIPHER = re.compile(r"(AES|CAMELLIA|ARIA)_(128|256)_(CBC|GCM)")


def openssl_name(name: str) -> str | None:
    """The name that OpenSSL has for a suite before TLS 1.3; None if it has none."""
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
        parts = parts[2:]  # AES128-SHA: both by RSA
    return "-".join(parts)


def apply(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Let a context serve these suites only. Raises ValueError for one that there is not.

    Python before 3.15 cannot choose among those of TLS 1.3: who asks for one of them has all three
    offered, and ListenerSecurity refuses a connection that took another.
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
