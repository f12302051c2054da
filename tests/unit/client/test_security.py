"""A client's security settings with the names of Java and librdkafka, and invalid settings."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from coordinator_server.client import ClientError, UnsupportedSettingError, read_settings
from coordinator_server.client.security import (
    SaslSettings,
    jaas_options,
    read_sasl,
    read_security,
    read_tls,
)
from coordinator_server.client.tls import context_of, unchecked_context
from tests.certificates import Authority, jks, jks_trusted

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{}";'
)
SECRET = "not-to-be-shown"


def test_plain_text_is_the_default() -> None:
    """Without security.protocol a client uses PLAINTEXT, even if the file has security settings."""
    assert read_security({}) is None
    assert read_security({"security.protocol": "plaintext", "sasl.mechanism": "X"}) is None
    assert read_settings({"security.protocol": " PLAINTEXT"}).security is None


def test_users_by_either_spelling() -> None:
    """Users come from sasl.jaas.config, or from sasl.username and sasl.password."""
    java = read_sasl({"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.format(SECRET)})
    rdkafka = read_sasl({"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": SECRET})
    for sasl in (java, rdkafka):
        assert (sasl.mechanism, sasl.username) == ("PLAIN", "a")
        assert sasl.password is not None
        assert sasl.password.value == SECRET
        assert SECRET not in repr(sasl)
    settings = read_settings(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a",
         "sasl.password": SECRET}
    )  # fmt: skip
    assert settings.security is not None
    assert settings.security.tls is None
    assert SECRET not in repr(settings)


def test_jaas_text() -> None:
    """JAAS text may have both kinds of quotes, escapes, and plain words."""
    assert jaas_options(' m.M required a="b;\\"c" d=\'e f\' tokenauth=true ; ') == {
        "a": 'b;"c',
        "d": "e f",
        "tokenauth": "true",
    }
    assert jaas_options('m required a="\\101\\n" /* c */ b="c"; // d') == {"a": "A\n", "b": "c"}
    assert jaas_options("") == {}
    two = f'm required password="{SECRET}";' * 2
    for wrong in ("m", f"m required password={SECRET}", f'm required password="{SECRET};', two):
        with pytest.raises(ClientError, match=r"^sasl\.jaas\.config") as raised:
            jaas_options(wrong)
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "SSH"}, "Allowed values: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI is not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs a user"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "X"}, "ssl.cipher.suites is not"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "=TLSv1.1 is not"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/none"}, "/none: No such file"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "x"}, "certificates: "),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "é"}, "certificates: "),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/none"}, "/none: No such file"),
    ],
)
def test_what_cannot_be_used_is_named(properties: dict[str, str], message: str) -> None:
    """An invalid setting is refused at once, with its name and value."""
    with pytest.raises(ClientError) as raised:
        read_security(properties)
    assert message in str(raised.value)


def test_tokens() -> None:
    """OAuth tokens are given, read from a file, or made from unsecured claims."""
    common = {"sasl.mechanism": "OAUTHBEARER"}
    given = read_sasl({**common, "sasl.oauthbearer.token": "t"})
    assert given.token is not None
    assert given.token.value == "t"
    file = read_sasl({**common, "sasl.oauthbearer.token.endpoint.url": "file:///tmp/t"})
    assert file.token_file == "/tmp/t"
    with pytest.raises(UnsupportedSettingError):
        read_sasl({**common, "sasl.oauthbearer.token.endpoint.url": "https://x/"})
    jaas = (
        'M required unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_n="5"'
        ' unsecuredLoginListClaim_scope=",r,w";'
    )
    unsecured: SaslSettings = read_sasl({**common, "sasl.jaas.config": jaas})
    assert dict(unsecured.unsecured_claims) == {"sub": "a", "n": 5, "scope": ["r", "w"]}


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    """A key that does not match its certificate is refused with the names of both files."""
    authority = Authority()
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(authority.issue("client").chain_pem())
    key.write_bytes(authority.issue("client").key_pem())
    tls = read_tls({"ssl.certificate.location": str(chain), "ssl.key.location": str(key)})
    expected = f"ssl.certificate.location={chain}: there is no PEM key for it in {key} "
    with pytest.raises(ClientError, match=re.escape(expected)):
        context_of(tls)


def test_stores_of_each_kind(tmp_path: Path) -> None:
    """PEM files, PEM texts, PKCS12 and JKS stores can be read."""
    authority = Authority()
    identity = authority.issue("client")
    authority.write(tmp_path / "ca.pem")
    (tmp_path / "key.pem").write_bytes(identity.key_pem())
    (tmp_path / "chain.pem").write_bytes(identity.chain_pem())
    identity.write(tmp_path / "both.pem")
    identity.write(tmp_path / "locked.pem", SECRET)
    identity.write_pkcs12(tmp_path / "both.p12", SECRET)
    (tmp_path / "ca.jks").write_bytes(jks([jks_trusted(authority.certificate)], SECRET))
    identity.write_jks(tmp_path / "key.jks", SECRET)
    identity.write_jks(tmp_path / "other.jks", SECRET, "another")
    (tmp_path / "cut.jks").write_bytes((tmp_path / "key.jks").read_bytes()[:100])
    keystore = str(tmp_path / "both.pem")
    for properties in (
        {"ssl.truststore.location": str(tmp_path / "ca.pem"), "ssl.keystore.location": keystore},
        {
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.location": str(tmp_path / "chain.pem"),
            "ssl.key.location": str(tmp_path / "key.pem"),
        },
        {
            "ssl.truststore.certificates": authority.pem().decode(),
            "ssl.keystore.certificate.chain": identity.chain_pem().decode(),
            "ssl.keystore.key": identity.key_pem(SECRET).decode(),
            "ssl.key.password": SECRET,
        },
        {
            "ssl.truststore.location": str(tmp_path / "both.p12"),
            "ssl.truststore.password": SECRET,
            "ssl.keystore.location": str(tmp_path / "both.p12"),
            "ssl.keystore.password": SECRET,
        },
        {
            "ssl.truststore.location": str(tmp_path / "ca.jks"),
            "ssl.truststore.type": "JKS",
            "ssl.truststore.password": SECRET,
            "ssl.keystore.location": str(tmp_path / "key.jks"),
            "ssl.keystore.type": "JKS",
            "ssl.keystore.password": SECRET,
        },
        {
            # As in Java, the integrity of a truststore without a password is not verified.
            "ssl.truststore.location": str(tmp_path / "ca.jks"),
            "ssl.keystore.location": str(tmp_path / "other.jks"),
            "ssl.keystore.password": SECRET,
            "ssl.key.password": "another",
        },
    ):
        context = context_of(read_tls(properties))
        assert [one["subject"] for one in context.get_ca_certs()]
        assert context.check_hostname
    _refused_stores(tmp_path)


def _refused_stores(tmp_path: Path) -> None:
    """Check that wrong or missing passwords, other formats and truncated files are refused."""
    for properties in (
        {"ssl.keystore.location": str(tmp_path / "locked.pem")},
        {"ssl.keystore.location": str(tmp_path / "both.p12"), "ssl.keystore.password": "x"},
        {"ssl.keystore.location": str(tmp_path / "ca.pem")},
        {"ssl.keystore.location": str(tmp_path / "ca.jks"), "ssl.keystore.password": SECRET},
        {"ssl.keystore.location": str(tmp_path / "key.jks"), "ssl.keystore.password": "x"},
        {"ssl.keystore.location": str(tmp_path / "key.jks")},
        {"ssl.keystore.location": str(tmp_path / "other.jks"), "ssl.keystore.password": SECRET},
        {"ssl.keystore.location": str(tmp_path / "cut.jks")},
    ):
        with pytest.raises(ClientError, match=r"^ssl\.keystore\.location=") as raised:
            context_of(read_tls(properties))
        assert SECRET not in str(raised.value)
    for name, password in (("ca.jks", "x"), ("key.jks", SECRET)):
        trust = {
            "ssl.truststore.location": str(tmp_path / name),
            "ssl.truststore.password": password,
        }
        with pytest.raises(ClientError, match=r"^ssl\.truststore\.location="):
            context_of(read_tls(trust))


def test_what_is_checked() -> None:
    """The host name is checked unless the algorithm is empty or none.

    The certificate chain is checked unless librdkafka's switch is off.
    """
    assert context_of(read_tls({})).verify_mode is ssl.CERT_REQUIRED
    for off in ("", "none"):
        tls = read_tls({"ssl.endpoint.identification.algorithm": off})
        context = context_of(tls)
        assert not context.check_hostname
        assert context.verify_mode is ssl.CERT_REQUIRED
    tls = read_tls({"enable.ssl.certificate.verification": "false"})
    assert context_of(tls).verify_mode is ssl.CERT_NONE
    assert unchecked_context(read_tls({})).verify_mode is ssl.CERT_NONE
    tls = read_tls({"ssl.enabled.protocols": "TLSv1.2"})
    assert context_of(tls).maximum_version is ssl.TLSVersion.TLSv1_2
