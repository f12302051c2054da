"""Java's names of cipher suites, mapped to those of OpenSSL."""

from __future__ import annotations

import ssl

import pytest

from coordinator_server.security.tls.cipher_suites import apply, openssl_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_ECDSA_WITH_AES_256_CBC_SHA", None),
        ("TLS_RSA_WITH_RC4_128_SHA", None),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", None),
        ("ECDHE-RSA-AES128-SHA", None),
    ],
)
def test_names(name: str, expected: str | None) -> None:
    """Each supported suite has an OpenSSL name; other suites have no name."""
    assert openssl_name(name) == expected


def test_a_context_serves_these_only() -> None:
    """A context offers only the given suites.

    TLS 1.3 is off if no TLS 1.3 suite is given, and so is TLS 1.2 without a TLS 1.2 suite.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    apply(context, ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",))
    older = {one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert older == {"ECDHE-RSA-AES128-GCM-SHA256"}
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    apply(context, ("TLS_AES_128_GCM_SHA256",))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("name", ["TLS_NOTHING", "TLS_ECDHE_RSA_WITH_ARIA_256_CBC_SHA"])
def test_an_unknown_suite(name: str) -> None:
    """An unknown suite is refused, by our table or by OpenSSL."""
    with pytest.raises(ValueError, match=name):
        apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), (name,))
