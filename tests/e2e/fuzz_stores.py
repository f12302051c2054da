"""Surfaces for tests/e2e/fuzz_parsers.py: parsers of certificates and key stores."""

from __future__ import annotations

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from coordinator_server.client.errors import ClientError
from coordinator_server.client.security import CertificateStore, Secret, TlsSettings
from coordinator_server.client.tls import context_of
from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security.credentials.jks import WrongPasswordError, read_jks, reveal_key
from coordinator_server.security.tls.distinguished_name import rfc2253, subject_of
from coordinator_server.security.tls.key_stores import key_entry, trusted_certificates
from coordinator_server.security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapper
from coordinator_server.security.tls.reloading_context import _KEY_STORE, _TRUST_STORE, _naming
from tests.certificates import Authority, Identity, jks, jks_trusted
from tests.e2e.mutations import Mutator, Surface

MOST_FILE = 262_144
MOST_CERTIFICATE = 102_400
"""The longest certificate chain that OpenSSL accepts from a client (SSL_MAX_CERT_LIST_DEFAULT)."""
MOST_RULES = 1024
MOST_SUBJECT = 4096
"""Longest subject. The cost of a mapping rule's pattern is the responsibility of its author."""
_PASSWORD = "secret"
_DER_WORDS = (
    b"\x30\x80",
    b"\x30\x82\xff\xff",
    b"\x30\x84\xff\xff\xff\xff",
    b"\x06\x03\x55\x04\x03",
    b"\x31\x00",
    b"\x05\x00",
    b"\xff",
    b"\x80",
    b"\0",
    b"\x0c\x01a",
    b"\x1e\x02\0a",
    b"\x06\x01\xff",
    b"\xa0\x03",
    b"\x30" + b"\x82\x01\x00" * 40,
    b"\x02\x01\x7f",
    b"\x8f" + b"\xff" * 15,
    b"\xff" * 200,
)


def _der(mutator: Mutator, seeds: tuple[bytes, ...], most: int) -> bytes:
    if mutator.random.random() < 0.6:
        return mutator.bits(mutator.random.choice(seeds))
    return mutator.sequence(seeds, _DER_WORDS, most)


# --- names ---------------------------------------------------------------------------------------

_RULES = (
    "RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L",
    "RULE:^cn=(?<name>[a-z]+).*$/${name}/U, DEFAULT",
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/,RULE:CN=\/(a)/\$1/,DEFAULT",
)
_RULE_WORDS = (
    "RULE:",
    "/",
    "//",
    "\\",
    "$",
    "$1",
    "$99",
    "${",
    "}",
    "(",
    ")",
    "(.*)",
    "[",
    "]",
    "*",
    "+",
    "?",
    "{2}",
    "{9}",
    "|",
    "^",
    ",",
    "DEFAULT",
    "L",
    "U",
    " ",
    "\\d",
    "(?<n>",
    "(?i)",
    "(?=",
    "\\1",
    "a",
    ".",
    "é",
)
_SUBJECT = "CN=alice,OU=Tests,O=Coordinators,C=DE"


def mapping_rules() -> Surface:
    """ssl.principal.mapping.rules, applied to a very short subject."""

    def parse(rules: str) -> None:
        # The subject is short, so that most of the time is spent on parsing rules, not on
        # matching.
        PrincipalMapper(rules).name("a")

    return Surface(
        "mapping rules",
        lambda mutator: mutator.sequence(_RULES, _RULE_WORDS, MOST_RULES),
        parse,
        (ValueError, NoMatchingRuleError),
        1,
    )


def subjects() -> Surface:
    """Certificate subjects that rules map to principals."""
    mapper = PrincipalMapper(",".join(_RULES).replace("DEFAULT", "RULE:(CN=[a-z]+),.*/$1/"))
    words = (",", "CN=", "OU=", "+", "\\,", "#", "a", "aliceCN=", " ", "\n", "é", '"')

    return Surface(
        "subjects",
        lambda mutator: mutator.sequence((_SUBJECT, "CN=a"), words, MOST_SUBJECT),
        mapper.name,
        (NoMatchingRuleError,),
        1,
    )


def _name() -> x509.Name:
    attributes = (
        (NameOID.COMMON_NAME, "alice, with = and é"),
        (NameOID.EMAIL_ADDRESS, "a@b"),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.USER_ID, "u"),
    )
    return x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")]),
            x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in attributes]),
        ]
    )


def names() -> Surface:
    """Names in DER."""
    seeds = (_name().public_bytes(), b"\x30\x00")
    return Surface(
        "names in DER",
        lambda mutator: _der(mutator, seeds, MOST_CERTIFICATE),
        rfc2253,
        (ValueError,),
        3,
    )


def certificates() -> Surface:
    """Subjects of certificates in DER."""
    identity = Authority().issue(_name())
    seeds = (identity.certificate.public_bytes(Encoding.DER),)
    return Surface(
        "subjects in DER",
        lambda mutator: _der(mutator, seeds, MOST_CERTIFICATE),
        subject_of,
        (ValueError,),
        2,
    )


# --- stores --------------------------------------------------------------------------------------


class _Settings:
    """The settings of stores, with the methods of a `Config`."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None."""
        return self._values.get(name)

    def text(self, name: str) -> str:
        """Return a text."""
        return self._values[name]


def _read_key(values: dict[str, str]) -> None:
    config = cast(Config, _Settings({"ssl.keystore.type": "PEM", **values}))
    with _naming(_KEY_STORE, config):
        key_entry(config)


def _read_trust(values: dict[str, str]) -> None:
    """Read trusted certificates and load them into OpenSSL, as `ReloadingContext` does."""
    config = cast(Config, _Settings({"ssl.truststore.type": "PEM", **values}))
    with _naming(_TRUST_STORE, config):
        trusted = trusted_certificates(config)
        if trusted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_verify_locations(cadata=b"".join(trusted))


_PEM_WORDS = (
    "-----BEGIN CERTIFICATE-----",
    "-----END CERTIFICATE-----",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "-----BEGIN ",
    "-----",
    "-",
    "\n",
    "\r\n",
    " ",
    "=",
    "A",
    "AAAA",
    "a: b\n",
    ":",
    "Proc-Type: 4\n",
    "BEGIN CERTIFICATE-----\n",
    "é",
    "M",
)


def pem_keys() -> Surface:
    """PEM keys with their certificates."""
    identity = Authority().issue("broker")
    key, chain = identity.key_pem().decode(), identity.chain_pem().decode()

    def make(mutator: Mutator) -> dict[str, str]:
        texts = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
        name = mutator.random.choice(list(texts))
        texts[name] = mutator.sequence((texts[name], chain), _PEM_WORDS, MOST_FILE)
        return texts

    return Surface("PEM of a key", make, _read_key, (ConfigError,), 1.5)


def pem_certificates() -> Surface:
    """Trusted PEM certificates."""
    chain = Authority().issue("broker").chain_pem().decode()

    def make(mutator: Mutator) -> dict[str, str]:
        text = mutator.sequence((chain, ""), _PEM_WORDS, MOST_FILE)
        return {"ssl.truststore.certificates": text}

    return Surface("PEM of trust", make, _read_trust, (ConfigError,), 1)


def client_pem() -> Surface:
    """PEM texts of a client."""
    identity = Authority().issue("alice")
    chain, key = identity.chain_pem().decode(), identity.key_pem().decode()

    def make(mutator: Mutator) -> TlsSettings:
        damaged = mutator.sequence((chain, key), _PEM_WORDS, MOST_FILE)
        if mutator.random.random() < 0.5:
            return TlsSettings(
                truststore=CertificateStore("ssl.truststore.certificates", certificates=damaged)
            )
        return TlsSettings(
            truststore=CertificateStore("ssl.truststore.certificates", certificates=chain),
            keystore=CertificateStore(
                "ssl.keystore.certificate.chain", certificates=damaged, key=Secret(key)
            ),
        )

    return Surface("PEM of a client", make, context_of, (ClientError,), 0.2)


def _identity() -> Identity:
    return Authority().issue("broker")


def jks_stores() -> Surface:
    """JKS stores with changed bytes; a digest of the changed file is appended."""
    identity = _identity()
    with TemporaryDirectory() as directory:
        file = identity.write_jks(Path(directory, "a"), _PASSWORD).read_bytes()
    trusted = jks([jks_trusted(one) for one in identity.chain], _PASSWORD)
    # Leave out the digest at the end of each file, because every damaged input gets a new digest.
    seeds = tuple(one[:-20] for one in (file, trusted))

    def make(mutator: Mutator) -> tuple[bytes, str | None]:
        damaged = _der(mutator, seeds, MOST_FILE)
        password = mutator.random.choice((None, _PASSWORD))
        content = jks([damaged[12:]], _PASSWORD)
        return damaged[:12] + content[12:], password

    def parse(value: tuple[bytes, str | None]) -> None:
        for entry in read_jks(*value):
            if entry.protected_key is not None:
                reveal_key(entry.protected_key, _PASSWORD)

    return Surface("JKS", make, parse, (ValueError, WrongPasswordError), 2)


def pkcs12_stores() -> Surface:
    """PKCS12 stores with a cheap key derivation."""
    identity = _identity()
    encryption = (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(1)
        .hmac_hash(SHA256())
        .build(_PASSWORD.encode())
    )
    certificate, *others = identity.chain
    seeds = tuple(
        pkcs12.serialize_key_and_certificates(b"k", key, certificate, others, way)
        for key in (identity.key, None)
        for way in (encryption, NoEncryption())
    )
    directory = TemporaryDirectory()
    path = Path(directory.name, "a")

    def parse(data: bytes) -> None:
        assert directory
        path.write_bytes(data)
        of = {"type": "PKCS12", "location": str(path), "password": _PASSWORD}
        _read_key({f"ssl.keystore.{name}": value for name, value in of.items()})

    return Surface(
        "PKCS12", lambda mutator: _der(mutator, seeds, MOST_FILE), parse, (ConfigError,), 1
    )
