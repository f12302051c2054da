"""Make certificates for tests on demand: a CA, keys, and the key store files that brokers read."""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import pack

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from coordinator_server.security.dev_authority import SIGNS_CERTIFICATES, general_name

_DAY = datetime.timedelta(days=1)


def name(common_name: str, organization: str = "Tests") -> x509.Name:
    """Return a subject with a common name and an organization."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


@dataclass
class Identity:
    """A private key and its certificate chain, leaf first."""

    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    chain: Sequence[x509.Certificate]

    @property
    def certificate(self) -> x509.Certificate:
        """Return the leaf certificate."""
        return self.chain[0]

    def key_pem(self, password: str | None = None) -> bytes:
        """Return the key as PKCS#8 PEM."""
        encryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def chain_pem(self) -> bytes:
        """Return the certificate chain as PEM."""
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)

    def write(self, path: Path, password: str | None = None) -> Path:
        """Write a PEM key store and return its path."""
        path.write_bytes(self.key_pem(password) + self.chain_pem())
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Write a PKCS12 key store and return its path."""
        encryption = BestAvailableEncryption(password.encode())
        certificate, *others = self.chain
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"k", self.key, certificate, others, encryption)
        )
        return path

    def write_jks(self, path: Path, password: str, key_password: str | None = None) -> Path:
        """Write a JKS key store and return its path."""
        key = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        hidden = _hidden(key, key_password or password)
        chain = b"".join(_jks_certificate(one) for one in self.chain)
        entry = pack(">IH1sQI", 1, 1, b"k", 0, len(hidden)) + hidden
        entry += pack(">I", len(self.chain)) + chain
        path.write_bytes(jks([entry], password))
        return path


def jks(entries: Sequence[bytes], password: str) -> bytes:
    """Return a key store or trust store in JKS format."""
    content = pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    digest = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + content)
    return content + digest.digest()


def jks_trusted(certificate: x509.Certificate) -> bytes:
    """Return a trust store entry in JKS format."""
    return pack(">IH1sQ", 2, 1, b"t", 0) + _jks_certificate(certificate)


def _jks_certificate(certificate: x509.Certificate) -> bytes:
    encoded = certificate.public_bytes(Encoding.DER)
    return pack(">H5sI", 5, b"X.509", len(encoded)) + encoded


def _hidden(key: bytes, password: str) -> bytes:
    """Return the key encrypted as by Java's KeyProtector, in an EncryptedPrivateKeyInfo."""
    secret = password.encode("utf-16-be")
    salt = last = os.urandom(20)
    stream = b""
    while len(stream) < len(key):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    covered = bytes(one ^ other for one, other in zip(key, stream, strict=False))
    octets = salt + covered + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    return _long(0x30, algorithm + _long(0x04, octets))


def _long(tag: int, content: bytes) -> bytes:
    """Return a DER element with a two-byte length."""
    return pack(">BBH", tag, 0x82, len(content)) + content


OLD_CERTIFICATES = {
    "sha1": ("sha1", "rsa:2048"),
    "rsa1024": ("sha256", "rsa:1024"),
    "md5": ("md5", "rsa:2048"),
    "rsa768": ("sha256", "rsa:768"),
    "p224": ("sha256", "ec:secp224r1"),
}
"""Weak certificates by name: the signature digest and the key type of each."""


class OldAuthority:
    """A certificate authority that runs `openssl`, which still signs with weak digests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._run(
            "req", "-x509", "-new", "-sha1", "-subj", "/CN=old", *self._key("old", "rsa:2048")
        )

    def pem(self) -> bytes:
        """Return the authority's certificate as PEM."""
        return (self._directory / "old.crt").read_bytes()

    def issue(self, name_: str) -> Path:
        """Write a PEM key store for an entry of OLD_CERTIFICATES and return its path."""
        digest, key = OLD_CERTIFICATES[name_]
        request, extensions = f"{name_}.csr", self._directory / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
        self._run("req", "-new", "-subj", f"/CN={name_}", *self._key(name_, key), out=request)
        signer = ("-CA", "old.crt", "-CAkey", "old.key", "-CAcreateserial")
        options = ("-days", "2", f"-{digest}", "-extfile", "extensions")
        self._run("x509", "-req", "-in", request, *signer, *options, out=f"{name_}.crt")
        store = self._directory / f"{name_}.pem"
        parts = (self._directory / f"{name_}.{part}" for part in ("key", "crt"))
        store.write_bytes(b"".join(part.read_bytes() for part in parts))
        return store

    def _key(self, name_: str, key: str) -> tuple[str, ...]:
        """Generate a key and return the `openssl req` options that select it."""
        algorithm, size = key.split(":")
        option = "rsa_keygen_bits" if algorithm == "rsa" else "ec_paramgen_curve"
        options = ("-algorithm", algorithm, "-pkeyopt", f"{option}:{size}")
        self._run("genpkey", *options, out=f"{name_}.key")
        return "-key", f"{name_}.key"

    def _run(self, *arguments: str, out: str = "old.crt") -> None:
        command = ["openssl", *arguments, "-out", out]
        subprocess.run(command, cwd=self._directory, check=True, capture_output=True)


class Authority:
    """A self-signed certificate authority."""

    def __init__(self, common_name: str = "CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name(common_name)
        self.certificate = self._sign(self._name, self._key.public_key(), is_authority=True)

    def pem(self) -> bytes:
        """Return the authority's certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    def write(self, path: Path) -> Path:
        """Write a PEM trust store and return its path."""
        path.write_bytes(self.pem())
        return path

    def alone(self) -> Identity:
        """Return a key with a self-signed certificate, which no authority has signed."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(self._name, key.public_key(), issuer=(self._name, key))
        return Identity(key, [certificate])

    def issue(
        self,
        subject: str | x509.Name,
        *,
        days: int = 1,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        is_rsa: bool = False,
        usages: Sequence[x509.ObjectIdentifier] = (),
    ) -> Identity:
        """Issue a key with a certificate; with negative `days` the certificate has expired."""
        key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = (
            rsa.generate_private_key(65537, 2048)
            if is_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        if isinstance(subject, str):
            subject = name(subject)
        certificate = self._sign(subject, key.public_key(), days=days, hosts=hosts, usages=usages)
        return Identity(key, [certificate, self.certificate])

    def _sign(
        self,
        subject: x509.Name,
        public_key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
        *,
        days: int = 1,
        hosts: Sequence[str] = (),
        usages: Sequence[x509.ObjectIdentifier] = (),
        is_authority: bool = False,
        issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    ) -> x509.Certificate:
        issuer_name, issuer_key = issuer or (self._name, self._key)
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            # Python 3.13 and newer reject certificates without these key identifiers (RFC 5280).
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
                critical=False,
            )
        )
        if is_authority:
            builder = builder.add_extension(SIGNS_CERTIFICATES, critical=True)
        if hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return builder.sign(issuer_key, hashes.SHA256())
