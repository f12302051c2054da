"""The TLS context of a listener, recreated when the files of its stores change.

Kafka checks the files when their settings are altered, even to the same value. Here every new
connection checks their modification times, sizes and inodes, at the cost of two system calls. If a
new file is invalid, incomplete or names another broker, the old context stays in use and an event
is logged. Open connections keep their context.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from coordinator_server.config.config import ConfigError
from coordinator_server.events.log import LOG
from coordinator_server.security.credentials.certificate_strength import accept_old_algorithms
from coordinator_server.security.tls import cipher_suites, key_stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.config.config import Config
    from coordinator_server.security.tls.key_stores import KeyEntry

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_KEY_STORE = ("ssl.keystore.location", "ssl.keystore.certificate.chain")
_TRUST_STORE = ("ssl.truststore.location", "ssl.truststore.certificates")

_UNUSABLE = (
    OSError,  # includes ssl.SSLError, and a failure to write a temporary file
    ValueError,
    UnsupportedAlgorithm,
    x509.AttributeNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions that the libraries raise for invalid files, besides the expected ones."""

_Stamp = tuple[int, int, int] | None


class ReloadingContext:
    """The context of one listener. Raises ConfigError if the first context cannot be created."""

    def __init__(self, config: Config, listener_name: str, client_auth: str) -> None:
        self._config = config
        self._listener_name = listener_name
        self._client_auth = client_auth
        self._files = key_stores.files(config)
        self._stamps = self._look()
        self._entry, self._context = self._make()
        self._warn_of_expiry()

    def current(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            self._reload()
        return self._context

    def check(self, config: Config) -> None:
        """Check that the stores of these settings can be used. Raises ConfigError."""
        before, self._config = self._config, config
        try:
            entry, _ = self._make()
            with _naming(_KEY_STORE, config):
                self._check_change(entry)
        finally:
            self._config = before

    def reconfigure(self, config: Config) -> None:
        """Use the stores of these settings for new connections."""
        self._config = config
        self._files = key_stores.files(config)
        self._stamps = self._look()
        self._reload()

    def _look(self) -> list[_Stamp]:
        return [_stamp(name) for name in self._files]

    def _reload(self) -> None:
        try:
            entry, context = self._make()
            with _naming(_KEY_STORE, self._config):
                self._check_change(entry)
                until = entry.chain[0].not_valid_after_utc.isoformat()
        except ConfigError as error:
            LOG.emit("certificates.refused", listener=self._listener_name, reason=str(error))
            return
        self._entry, self._context = entry, context
        LOG.emit("certificates.reloaded", listener=self._listener_name, valid_until=until)
        self._warn_of_expiry()

    def _warn_of_expiry(self) -> None:
        """Log certificates that are not valid now; they are served anyway, as in Kafka."""
        now = datetime.now(UTC)
        for certificate in self._entry.chain:
            start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if not start <= now <= end:
                subject = certificate.subject.rfc4514_string()
                period = f"{subject} is valid from {start.isoformat()} to {end.isoformat()}"
                LOG.emit("certificates.expired", listener=self._listener_name, reason=period)

    def _make(self) -> tuple[KeyEntry, ssl.SSLContext]:
        with _naming(_KEY_STORE, self._config):
            entry = key_stores.key_entry(self._config)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        accept_old_algorithms(context)
        _set_versions(context, self._config)
        with _naming(_KEY_STORE, self._config):
            _load_key(context, entry)
        context.verify_mode = _VERIFY_MODES[self._client_auth]
        # As in Java, every certificate in the trust store is trusted, even without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        with _naming(_TRUST_STORE, self._config):
            trusted = key_stores.trusted_certificates(self._config)
            if context.verify_mode is not ssl.CERT_NONE:
                if trusted is None:
                    context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
                else:
                    context.load_verify_locations(cadata=b"".join(trusted))
        return entry, context

    def _check_change(self, entry: KeyEntry) -> None:
        """Check that a new certificate names the same broker (SslFactory, KIP-978)."""
        old, new = self._entry.chain[0], entry.chain[0]
        if not self._config.boolean("ssl.allow.dn.changes") and old.subject != new.subject:
            raise ConfigError(
                f"ssl.allow.dn.changes: the subject was {old.subject.rfc4514_string()}, "
                f"now it is {new.subject.rfc4514_string()}"
            )
        if not self._config.boolean("ssl.allow.san.changes") and not _names(old) <= _names(new):
            raise ConfigError(
                "ssl.allow.san.changes: the new certificate lacks names that the old one has: "
                + ", ".join(sorted(_names(old) - _names(new)))
            )


@contextmanager
def _naming(settings: tuple[str, str], config: Config) -> Iterator[None]:
    """Turn library errors into a ConfigError that names the setting and the file."""
    try:
        yield
    except _UNUSABLE as error:
        location, text = settings
        name = config.optional_text(location)
        where = text if name is None else f"{location}: {name}"
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{where}: {reason or type(error).__name__}") from error


def _stamp(name: str) -> _Stamp:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _names(certificate: x509.Certificate) -> set[str]:
    """Return the subject alternative names of a certificate."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


def _set_versions(context: ssl.SSLContext, config: Config) -> None:
    """Set the protocol versions of ssl.enabled.protocols. Raises ConfigError."""
    names = config.items("ssl.enabled.protocols") or tuple(_VERSIONS)
    versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if not versions:
        raise ConfigError(
            f"ssl.enabled.protocols: {', '.join(names)}: only TLSv1.2 and TLSv1.3 are served"
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    suites = config.items("ssl.cipher.suites")
    if suites:
        try:
            cipher_suites.apply(context, suites)
        except ValueError as error:
            raise ConfigError(f"ssl.cipher.suites: {error}") from None
        if context.minimum_version > context.maximum_version:
            raise ConfigError(
                f"ssl.cipher.suites: none of {', '.join(suites)} is of {', '.join(names)}"
            )


def _load_key(context: ssl.SSLContext, entry: KeyEntry) -> None:
    """Load the key into a context. Raises ConfigError.

    Python's ssl module reads keys only from files, so a temporary file is written, with the key
    encrypted under a random password.
    """
    password = secrets.token_hex(16)
    encryption = BestAvailableEncryption(password.encode())
    parts = [entry.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)]
    parts += [certificate.public_bytes(Encoding.PEM) for certificate in entry.chain]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "key.pem")
        path.write_bytes(b"".join(parts))
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            reason = error.reason or "OpenSSL refuses it"
            raise ConfigError(f"ssl.keystore: the key cannot be used for TLS: {reason}") from None
