"""Reads and checks the key stores and trust stores of the settings.

Source: DefaultSslEngineFactory. Errors name the setting and the file, never a password. Stores are
parsed by the library `cryptography`, which is imported with the first TLS listener.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
    pkcs12,
)

from coordinator_server.config.config import ConfigError
from coordinator_server.security.credentials.jks import (
    MAGIC,
    JksEntry,
    WrongPasswordError,
    read_jks,
    reveal_key,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from coordinator_server.config.config import Config

_BEGIN = re.compile(r"-BEGIN ([A-Z0-9 ]*(?:CERTIFICATE|PRIVATE KEY))-++(?=\s)")
_NO_SPACE = re.compile(r"\S")
_HEADER_NAME_END = re.compile(r"[:\r\n]|-(?=-|BEGIN|END)")
_LINE_END = re.compile(r"[\r\n]")
_BODY = re.compile(r"[a-zA-Z0-9/+=\s]*")
_END = re.compile(r"-+END ([A-Z0-9 ]+)-")
_KEY_STORE = ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password")
_TRUST_STORE = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password")
_DER_SEQUENCE = b"\x30"
"""First byte of a PKCS12 file."""
_PKCS8 = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")


class KeyEntry(NamedTuple):
    """A private key and its certificate chain, the key's own certificate first."""

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]


class _Store(NamedTuple):
    """The settings of a key store (`ssl.keystore`) or trust store (`ssl.truststore`)."""

    stem: str
    type: str
    location: str | None
    password: str | None

    def error(self, suffix: str, reason: str) -> ConfigError:
        """Return an error for one of the store's settings, with the file if there is one."""
        of_file = "" if self.location is None else f"{self.location}: "
        return ConfigError(f"{self.stem}.{suffix}: {of_file}{reason}")

    def read(self) -> bytes:
        """Return the content of the file. Raises ConfigError."""
        assert self.location is not None
        try:
            return Path(self.location).read_bytes()
        except OSError as error:
            raise self.error("location", str(error.strerror)) from None


def key_entry(config: Config) -> KeyEntry:
    """Return the private key and certificates of a listener's key store. Raises ConfigError."""
    store = _store(config, *_KEY_STORE)
    key_password = config.optional_text("ssl.key.password")
    key_text = config.optional_text("ssl.keystore.key")
    chain_text = config.optional_text("ssl.keystore.certificate.chain")
    if problem := _problem_of_type(store) or _problem_of_key_store(store, key_text, chain_text):
        raise store.error(*problem)
    if key_text is not None and chain_text is not None:
        entry = _pem_key(key_text, chain_text, store, key_password)
    elif store.type == "PEM":
        text = _text(store)
        entry = _pem_key(text, text, store, key_password)
    else:
        data = store.read()
        if data[:4] == MAGIC:
            entry = _jks_key(data, store, key_password)
        else:
            entry = _pkcs12_key(data, store, key_password)
    if _public(entry.key.public_key()) != _public(entry.chain[0].public_key()):
        suffix = "certificate.chain" if chain_text is not None else "location"
        raise store.error(suffix, "the first certificate is not that of the private key")
    return entry


def trusted_certificates(config: Config) -> list[bytes] | None:
    """Return the trusted certificates of a listener in DER; None without a trust store.

    Raises ConfigError.
    """
    store = _store(config, *_TRUST_STORE)
    text = config.optional_text("ssl.truststore.certificates")
    if problem := _problem_of_type(store) or _problem_of_trust_store(store, text):
        raise store.error(*problem)
    if text is not None:
        certificates = _pem_certificates(text, store, "certificates")
    elif store.location is None:
        return None
    elif store.type == "PEM":
        certificates = _pem_certificates(_text(store), store, "location")
    else:
        data = store.read()
        if data[:4] == MAGIC:
            # Java trusts the first certificate of each key's chain (TrustStoreUtil).
            chains = [entry.chain[:1] for entry in _jks(data, store)]
            certificates = [_certificate(content, store) for chain in chains for content in chain]
        else:
            opened = _pkcs12(data, store)
            certificates = [entry.certificate for entry in opened.additional_certs]
            if opened.key is not None and opened.cert is not None:
                own = opened.cert.certificate
                chain_of_key = _chain(own, certificates)
                certificates = [
                    own,
                    *(
                        certificate
                        for certificate in certificates
                        if certificate not in chain_of_key
                    ),
                ]
    if not certificates:
        raise store.error("location", "there is no trusted certificate in it")
    return [certificate.public_bytes(Encoding.DER) for certificate in certificates]


def files(config: Config) -> tuple[str, ...]:
    """Return the paths of the configured stores."""
    names = ("ssl.keystore.location", "ssl.truststore.location")
    return tuple(name for name in map(config.optional_text, names) if name is not None)


def _store(config: Config, store_type: str, location: str, password: str) -> _Store:
    """Return the store configured by settings of these names. Raises ConfigError."""
    kind = config.text(store_type)
    # The case of Java's type names is ignored, but Kafka accepts only PEM in upper case.
    if kind.upper() in ("JKS", "PKCS12"):
        kind = kind.upper()
    elif kind != "PEM":
        raise ConfigError(f"{store_type}: {kind!r}: only JKS, PKCS12 and PEM are read")
    return _Store(
        store_type.removesuffix(".type"),
        kind,
        config.optional_text(location),
        config.optional_text(password),
    )


def _problem_of_type(store: _Store) -> tuple[str, str] | None:
    """Return (setting, reason) if the file's type differs from the setting, or None.

    JKS is the default, so PEM must be set explicitly.
    """
    if store.location is None:
        return None
    try:
        data = Path(store.location).read_bytes()
    except OSError:
        return None  # reading the file reports the error
    is_pem = b"-----BEGIN " in data
    is_binary = data[:4] == MAGIC or data[:1] == _DER_SEQUENCE
    if store.type != "PEM" and is_pem and not is_binary:
        return "type", f"the file is PEM, the type is {store.type}; {store.stem}.type=PEM"
    if store.type == "PEM" and is_binary and not is_pem:
        kind = "JKS" if data[:4] == MAGIC else "PKCS12"
        return "type", f"the file is no PEM, but looks like {kind}; {store.stem}.type={kind}"
    return None


def _problem_of_key_store(
    store: _Store, key: str | None, chain: str | None
) -> tuple[str, str] | None:
    """Return (setting, reason) for conflicting settings (Kafka's createKeystore), or None."""
    if (key is None) != (chain is None):
        missing = "key" if key is None else "certificate.chain"
        return missing, "the key and its certificates are given together, or in a file"
    if key is not None and store.type != "PEM":
        return "type", f"a key as text has to be PEM, not {store.type}"
    if key is not None and store.location is not None:
        return "location", "the key is given as text already"
    if store.type == "PEM" and store.password is not None:
        return "password", "a PEM file has no password, ssl.key.password is that of the key"
    if key is None and store.location is None:
        return "location", "a listener that uses TLS needs a key store"
    if store.type != "PEM" and store.password is None:
        return "password", "the key store needs its password"
    return None


def _problem_of_trust_store(store: _Store, text: str | None) -> tuple[str, str] | None:
    """Return (setting, reason) for conflicting settings (Kafka's createTruststore), or None."""
    if text is not None and store.type != "PEM":
        return "type", f"certificates as text have to be PEM, not {store.type}"
    if text is not None and store.location is not None:
        return "location", "the certificates are given as text already"
    if store.type == "PEM" and store.password is not None:
        return "password", "a PEM file has no password"
    if text is None and store.location is None and store.password is not None:
        return "location", "there is a password, but no trust store"
    return None


def _text(store: _Store) -> str:
    return store.read().decode("latin-1")


def _pem_key(key_text: str, chain_text: str, store: _Store, key_password: str | None) -> KeyEntry:
    of_chain, of_key = (
        ("location", "location") if store.location is not None else ("certificate.chain", "key")
    )
    chain = tuple(_pem_certificates(chain_text, store, of_chain))
    keys = [(label, body) for label, body in _pem(key_text) if label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise store.error(of_key, f"one private key is needed, there are {len(keys)}")
    label, body = keys[0]
    if label not in _PKCS8:
        reason = f"the key has to be PKCS#8 (openssl pkcs8 -topk8 makes it), not {label}"
        raise store.error(of_key, reason)
    is_encrypted = label == "ENCRYPTED PRIVATE KEY"
    if is_encrypted and key_password is None:
        raise store.error(of_key, "the private key is encrypted, ssl.key.password is not set")
    if not is_encrypted and key_password is not None:
        raise store.error(of_key, "ssl.key.password is set, but the private key is not encrypted")
    return KeyEntry(_key(body, store, of_key, key_password), chain)


def _key(der: bytes, store: _Store, suffix: str, password: str | None = None) -> PrivateKeyTypes:
    try:
        return load_der_private_key(der, None if password is None else password.encode())
    except (ValueError, TypeError):
        reason = "the private key cannot be read"
        if password is not None:
            reason += ", or ssl.key.password is wrong"
        raise store.error(suffix, reason) from None


def _jks(data: bytes, store: _Store) -> list[JksEntry]:
    try:
        return read_jks(data, store.password)
    except WrongPasswordError:
        reason = f"damaged, or {store.stem}.password is wrong"
        raise store.error("location", reason) from None
    except ValueError as error:
        raise store.error("location", str(error)) from None


def _jks_key(data: bytes, store: _Store, key_password: str | None) -> KeyEntry:
    entries = [entry for entry in _jks(data, store) if entry.protected_key is not None]
    if not entries or not entries[0].chain:
        raise store.error("location", "there is no private key in it")
    entry = entries[0]
    assert entry.protected_key is not None
    password = key_password or store.password
    assert password is not None
    try:
        key = reveal_key(entry.protected_key, password)
    except WrongPasswordError:
        reason = f"ssl.key.password does not open the key {entry.alias}"
        raise store.error("location", reason) from None
    except ValueError as error:
        raise store.error("location", str(error)) from None
    chain = tuple(_certificate(content, store) for content in entry.chain)
    return KeyEntry(_key(key, store, "location"), chain)


def _pkcs12(data: bytes, store: _Store) -> pkcs12.PKCS12KeyAndCertificates:
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError:
        reason = f"neither JKS nor PKCS12, or {store.stem}.password is wrong"
        raise store.error("location", reason) from None


def _pkcs12_key(data: bytes, store: _Store, key_password: str | None) -> KeyEntry:
    opened = _pkcs12(data, store)
    if key_password is not None and key_password != store.password:
        reason = "ssl.key.password has to be that of the store, a PKCS12 store has one for both"
        raise store.error("location", reason)
    if opened.key is None or opened.cert is None:
        raise store.error("location", "there is no private key with a certificate in it")
    others = [entry.certificate for entry in opened.additional_certs]
    return KeyEntry(opened.key, (opened.cert.certificate, *_chain(opened.cert.certificate, others)))


def _chain(certificate: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the certificates of `others` that lead from a certificate to its root, in order."""
    chain = [certificate]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [
            issuer
            for issuer in others
            if issuer.subject == chain[-1].issuer and issuer not in chain
        ]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain[1:]


def _pem(text: str) -> list[tuple[str, bytes]]:
    """Return label and bytes of the keys and certificates in a PEM text.

    Finds the same entries as Kafka's PemStore, but in linear time: Kafka's single regular
    expression backtracks endlessly on some texts. Raises ValueError.
    """
    entries = []
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        position = begin.end()
        while (end_of_header := _end_of_header(text, position)) is not None:
            position = end_of_header
        body = _BODY.match(text, position)
        # The match cannot fail, because the pattern also matches an empty text.
        assert body is not None
        position = body.end()
        end = _END.match(text, position)
        if end is not None and end.group(1) == begin.group(1):
            position = end.end()
            entries.append((begin.group(1), base64.b64decode("".join(body.group().split()))))
    return entries


def _end_of_header(text: str, position: int) -> int | None:
    """Return the end of a header line such as "Proc-Type: ..." of old files, or None."""
    start = _NO_SPACE.search(text, position)
    name_end = None if start is None else _HEADER_NAME_END.search(text, start.start())
    if name_end is None or name_end[0] != ":":
        return None
    end = _LINE_END.search(text, name_end.end())
    return None if end is None else end.start()


def _pem_certificates(text: str, store: _Store, suffix: str) -> list[x509.Certificate]:
    try:
        bodies = [body for label, body in _pem(text) if label == "CERTIFICATE"]
    except ValueError:
        raise store.error(suffix, "the PEM text is damaged") from None
    if not bodies:
        raise store.error(suffix, "there is no certificate in PEM")
    return [_certificate(body, store, suffix) for body in bodies]


def _certificate(der: bytes, store: _Store, suffix: str = "location") -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise store.error(suffix, "a certificate in it cannot be read") from None


def _public(key: object) -> bytes:
    """Return a public key as bytes, for comparison."""
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]  # all key types have this
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
