"""The client side of TLS: the context from the settings, the handshake, and error texts.

PEM stores are read by the standard library, JKS stores by `credentials.jks`, and PKCS12 stores by
the library `cryptography`.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from base64 import encodebytes
from functools import lru_cache
from pathlib import Path

from coordinator_server.client.errors import ClientError, TlsError, UnsupportedSettingError
from coordinator_server.client.security import CertificateStore, Secret, TlsSettings, invalid
from coordinator_server.client.settings import Address
from coordinator_server.security.credentials.certificate_strength import (
    accept_old_algorithms,
    chain_weakness,
)
from coordinator_server.security.credentials.jks import (
    MAGIC,
    JksEntry,
    WrongPasswordError,
    read_jks,
    reveal_key,
)
from protocol.errors import ErrorCode

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@lru_cache(maxsize=4)
def context_of(settings: TlsSettings) -> ssl.SSLContext:
    """Return the cached context for these settings. Raises ClientError (INVALID_CONFIG)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accept_old_algorithms(context)
    versions = [_VERSIONS[name] for name in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = settings.verifies_name and settings.verifies_chain
    if not settings.verifies_chain:
        context.verify_mode = ssl.CERT_NONE
    elif settings.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, settings.truststore)
    if settings.keystore is not None:
        _identify(context, settings.keystore)
    return context


def unchecked_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context that accepts any certificate, to inspect a rejected server certificate.

    The client's own certificate is still presented.
    """
    return context_of(settings._replace(verifies_chain=False, truststore=None))


def handshake(
    plain: socket.socket, address: Address, context: ssl.SSLContext, timeout_s: float
) -> ssl.SSLSocket:
    """Do the TLS handshake and return the socket.

    Raises OSError, such as ssl.SSLError and TimeoutError; the plain socket is then closed.
    """
    plain.settimeout(timeout_s)
    try:
        wire = context.wrap_socket(plain, server_hostname=address.host)
    except OSError:
        plain.close()
        raise
    except ValueError as error:  # ssl rejects names that no certificate can contain
        plain.close()
        raise OSError(str(error)) from error
    if context.verify_mode is ssl.CERT_NONE:
        return wire
    try:
        weakness = chain_weakness(wire)
    except ValueError as error:  # a certificate is malformed DER
        weakness = str(error)
    if weakness is not None:
        wire.close()
        raise ssl.SSLError(f"the broker's certificate is refused: {weakness}")
    return wire


def failure(error: OSError, where: str) -> ClientError:
    """Return the client's error for a failed handshake or a failed read.

    A closed connection or a socket error is a NETWORK_EXCEPTION, which can be retried. A TLS error
    is a TlsError, which ends the client, as in Java (SslAuthenticationException).
    """
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ClientError(ErrorCode.NETWORK_EXCEPTION, f"{where} closed the connection")
    if isinstance(error, ssl.SSLError):
        return TlsError(f"SSL handshake failed: {explain(error)} (more: coordinator-server doctor)")
    reason = error.strerror or str(error)
    return ClientError(ErrorCode.NETWORK_EXCEPTION, f"{where}: SSL handshake failed: {reason}")


def explain(error: ssl.SSLError) -> str:
    """Return a TLS error as one line of text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    if error.reason:
        words = error.reason.replace("_", " ").lower()
        return re.sub("^(?:ssl|tls)v[0-9]+ alert", "alert of the broker:", words)
    return str(error)


def _trust(context: ssl.SSLContext, store: CertificateStore) -> None:
    try:
        if store.location is None:
            context.load_verify_locations(cadata=store.certificates)
            return
        if os.path.isdir(store.location):
            context.load_verify_locations(capath=store.location)
            return
        content = _content(store)
        if content[:4] != MAGIC and b"-----BEGIN" in content:
            context.load_verify_locations(cafile=store.location)
        else:
            texts = _jks_trusted if content[:4] == MAGIC else _pkcs12_trusted
            context.load_verify_locations(cadata="".join(texts(store, content)))
    # ssl.SSLError is an OSError. Non-ASCII text in a PEM file raises TypeError.
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(store, error, "PEM certificates") from None


def _identify(context: ssl.SSLContext, store: CertificateStore) -> None:
    password = store.key_password
    try:
        if store.location is None:
            assert store.key is not None
            texts = store.key.value + "\n" + (store.certificates or "")
        else:
            content = _content(store)
            if content[:4] != MAGIC and b"-----BEGIN" in content:
                secret = "" if password is None else password.value
                context.load_cert_chain(store.location, store.key_location, secret)
                return
            read = _jks_key if content[:4] == MAGIC else _pkcs12
            texts, password = "".join(read(store, content)), None
        _load_texts(context, texts, password)
    except (OSError, ValueError) as error:
        what = "PEM key with its certificates (ssl.key.password, if it is encrypted)"
        if store.key_location is not None:
            what = f"PEM key for it in {store.key_location} (ssl.key.password, if it is encrypted)"
        raise _unreadable(store, error, what) from None


def _load_texts(context: ssl.SSLContext, texts: str, password: Secret | None) -> None:
    """Load a key through a temporary file, because the `ssl` module reads keys only from files."""
    from tempfile import mkstemp

    descriptor, path = mkstemp(suffix=".pem")
    try:
        with open(descriptor, "w") as stream:
            stream.write(texts)
        context.load_cert_chain(path, None, "" if password is None else password.value)
    finally:
        Path(path).unlink()


def _content(store: CertificateStore) -> bytes:
    assert store.location is not None
    return Path(store.location).read_bytes()


def _jks(store: CertificateStore, content: bytes) -> list[JksEntry]:
    """Return the entries of a JKS store. Raises ValueError."""
    try:
        return read_jks(content, None if store.password is None else store.password.value)
    except WrongPasswordError:
        stem = store.setting.removesuffix(".location")
        raise ValueError(f"damaged, or {stem}.password is wrong") from None


def _jks_trusted(store: CertificateStore, content: bytes) -> list[str]:
    """Return the trusted certificates of a JKS store as PEM. Raises ValueError."""
    entries = [entry for entry in _jks(store, content) if entry.protected_key is None]
    if not entries:
        raise ValueError("there is no trusted certificate in it")
    return [ssl.DER_cert_to_PEM_cert(der) for entry in entries for der in entry.chain]


def _jks_key(store: CertificateStore, content: bytes) -> list[str]:
    """Return the key of a JKS store and its certificates as PEM. Raises ValueError."""
    for entry in _jks(store, content):
        if entry.protected_key is not None:
            break
    else:
        raise ValueError("there is no private key in it")
    password = store.key_password or store.password
    if password is None:
        raise ValueError("ssl.keystore.password is needed")
    try:
        key = reveal_key(entry.protected_key, password.value)
    except WrongPasswordError:
        raise ValueError(f"ssl.key.password does not open the key {entry.alias}") from None
    encoded = encodebytes(key).decode()
    chain = map(ssl.DER_cert_to_PEM_cert, entry.chain)
    return [f"-----BEGIN PRIVATE KEY-----\n{encoded}-----END PRIVATE KEY-----\n", *chain]


def _pkcs12_trusted(store: CertificateStore, content: bytes) -> list[str]:
    """Return the certificates of a PKCS12 store as PEM. Raises ValueError."""
    return _pkcs12(store, content)[1:]


def _pkcs12(store: CertificateStore, content: bytes) -> list[str]:
    """Return the key and the certificates of a PKCS12 store as PEM. Raises ValueError."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError:
        raise UnsupportedSettingError(
            f"{store.setting}={store.location}: only PEM can be read without the package"
            " cryptography"
        ) from None
    secret = None if store.password is None else store.password.value.encode()
    entries = pkcs12.load_pkcs12(content, secret)
    key = ""
    if entries.key is not None:
        key = entries.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
    certificates = [
        *([entries.cert] if entries.cert is not None else []),
        *entries.additional_certs,
    ]
    encoding = serialization.Encoding.PEM
    return [key, *(entry.certificate.public_bytes(encoding).decode() for entry in certificates)]


def _unreadable(store: CertificateStore, error: Exception, what: str) -> ClientError:
    where = store.setting if store.location is None else f"{store.setting}={store.location}"
    if isinstance(error, ssl.SSLError):
        return invalid(f"{where}: there is no {what} that can be read: {explain(error)}")
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return invalid(f"{where}: {reason}")
