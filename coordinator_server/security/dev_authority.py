"""The certificate authority of --dev-security, stored in a directory; uses fast EC keys."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Collection
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coordinator_server.config.config import ConfigError
from coordinator_server.security.client_settings import AUTHORITY_FILE

AUTHORITY_KEY_FILE = "ca.key"
_DAY = datetime.timedelta(days=1)
_AUTHORITY_LIFE = 3650 * _DAY
_LIFE = 365 * _DAY
_RENEWAL = 7 * _DAY
"""A certificate is reissued when it expires within this time."""

SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""The key usage of a certificate authority."""


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Atomically write a file that only its owner may read, or with another mode."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as stream:
        stream.write(content)
    new.replace(path)


class DevAuthority:
    """The authority of a directory, created if missing. Raises ConfigError, OSError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / AUTHORITY_FILE
        key_path = directory / AUTHORITY_KEY_FILE
        self._now = datetime.datetime.now(datetime.UTC)
        if self._path.exists() and key_path.exists():
            self._certificate = _read_certificate(self._path)
            self._key = _read_key(key_path)
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "coordinator-server dev CA")])
        builder = self._builder(name, name, self._key.public_key(), _AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
        builder = builder.add_extension(SIGNS_CERTIFICATES, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        write_private(key_path, _pem_of_key(self._key))
        # The file mode does not depend on the umask.
        write_private(self._path, _pem(self._certificate), 0o644)

    def issue(self, file_name: str, common_name: str, hosts: Collection[str] = ()) -> Path:
        """Return the path of a file with a key and a certificate, for a broker if `hosts` is given.

        An existing file is kept, unless its certificate expires soon or lacks a host.
        """
        path = self._directory / file_name
        if not path.exists() or not self._is_good(_read_certificate(path), hosts):
            write_private(path, self._new_identity(common_name, hosts))
        return path

    def _is_good(self, certificate: x509.Certificate, hosts: Collection[str]) -> bool:
        """Return whether a certificate has the right issuer and hosts and does not expire soon."""
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError):
            return False
        if certificate.not_valid_after_utc <= self._now + _RENEWAL:
            return False
        if not hosts:
            return True
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return set(map(general_name, hosts)) <= set(names)

    def _new_identity(self, common_name: str, hosts: Collection[str]) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        life = min(_LIFE, self._certificate.not_valid_after_utc - self._now)
        builder = self._builder(name, self._certificate.subject, key.public_key(), life)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName(map(general_name, hosts))
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return _pem_of_key(key) + _pem(certificate) + _pem(self._certificate)

    def _builder(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        life: datetime.timedelta,
    ) -> x509.CertificateBuilder:
        authority_key = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            # Tolerate clients whose clock is behind by up to a day.
            .not_valid_before(self._now - _DAY)
            .not_valid_after(self._now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), critical=False
            )
        )


def _read_certificate(path: Path) -> x509.Certificate:
    """Return the first certificate of a file. Raises ConfigError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise _unreadable(path, "certificate") from None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        raise _unreadable(path, "private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _unreadable(path, "private key of an elliptic curve")
    return key


def _unreadable(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"dev.security.dir: {path}: no {what} can be read; remove the directory to have it anew"
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def general_name(host: str) -> x509.GeneralName:
    """Return a host name or address as a certificate's GeneralName."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
