"""Certificates that change while the broker runs."""

from __future__ import annotations

import errno
import os
import ssl
import tempfile
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.events.log import LOG
from coordinator_server.security.tls import key_stores, reloading_context
from coordinator_server.security.tls.reloading_context import ReloadingContext
from tests.certificates import Authority, Identity

AUTHORITY = Authority()


def served(context: ssl.SSLContext) -> bytes | None:
    """Return the certificate that a client gets, in DER."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    trusting = ssl.create_default_context(cadata=AUTHORITY.pem().decode())
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    for one in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            one.do_handshake()
    return client.getpeercert(binary_form=True)


class Stores:
    """A key store whose file changes, and the log of its reloads."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.log = StringIO()
        LOG.configure(stream=self.log)
        self.path = directory / "broker.pem"
        self._version = 0
        self.put(AUTHORITY.issue("broker"))
        overrides = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.path)}
        overrides |= {f"ssl.{name.replace('_', '.')}": value for name, value in settings.items()}
        client_auth = settings.get("client_auth", "none")
        self.context = ReloadingContext(Config(overrides=overrides), "SSL", client_auth)

    def put(self, identity: Identity | bytes) -> None:
        """Write another identity, with a modification time 1 s later."""
        self._version += 1
        if isinstance(identity, bytes):
            self.path.write_bytes(identity)
        else:
            identity.write(self.path)
        os.utime(self.path, (self._version, self._version))


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """Return stores with Kafka's defaults."""
    return Stores(tmp_path)


def test_a_file_that_changes(stores: Stores) -> None:
    """New connections get a changed certificate; existing connections keep the old one.

    The change is one log line.
    """
    first = stores.context.current()
    assert stores.context.current() is first
    again = AUTHORITY.issue("broker")
    stores.put(again)
    second = stores.context.current()
    assert second is not first
    assert stores.context.current() is second
    assert served(second) == again.certificate.public_bytes(Encoding.DER)
    assert stores.log.getvalue().count("certificates.reloaded") == 1


def test_a_broken_file(stores: Stores) -> None:
    """If a file becomes unreadable, the old context is used until the file is valid again.

    The failure is one log line.
    """
    first = stores.context.current()
    stores.put(b"half a file")
    assert stores.context.current() is first
    assert stores.context.current() is first
    stores.path.unlink()
    assert stores.context.current() is first
    assert stores.log.getvalue().count("certificates.refused") == 2
    assert "no certificate in PEM" in stores.log.getvalue()
    stores.put(AUTHORITY.issue("broker"))
    assert stores.context.current() is not first


def test_an_expired_certificate(stores: Stores) -> None:
    """An expired certificate is served, as in Kafka, with a warning."""
    first = stores.context.current()
    assert "certificates.expired" not in stores.log.getvalue()
    expired = AUTHORITY.issue("broker", days=-1)
    stores.put(expired)
    assert stores.context.current() is not first
    (line,) = [one for one in stores.log.getvalue().splitlines() if "certificates.expired" in one]
    assert "CN=broker" in line
    assert f"to {expired.certificate.not_valid_after_utc.isoformat()}" in line
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(stores.path)}
    ReloadingContext(Config(overrides=settings), "SSL", "none")
    assert stores.log.getvalue().count("certificates.expired") == 2


def test_another_subject(stores: Stores, tmp_path: Path) -> None:
    """A certificate with another subject is used only with ssl.allow.dn.changes (KIP-978)."""
    first = stores.context.current()
    stores.put(AUTHORITY.issue("somebody else"))
    assert stores.context.current() is first
    assert "ssl.allow.dn.changes: the subject was" in stores.log.getvalue()
    other = Stores(tmp_path, allow_dn_changes="true")
    first = other.context.current()
    other.put(AUTHORITY.issue("somebody else"))
    assert other.context.current() is not first


def test_names_that_are_gone(stores: Stores, tmp_path: Path) -> None:
    """A certificate without an earlier name is used only with ssl.allow.san.changes.

    Additional names are always allowed.
    """
    first = stores.context.current()
    stores.put(AUTHORITY.issue("broker", hosts=["localhost"]))
    assert stores.context.current() is first
    assert "lacks names that the old one has: 127.0.0.1" in stores.log.getvalue()
    stores.put(AUTHORITY.issue("broker", hosts=["localhost", "127.0.0.1", "more.example"]))
    assert stores.context.current() is not first
    other = Stores(tmp_path, allow_san_changes="true")
    first = other.context.current()
    other.put(AUTHORITY.issue("broker", hosts=()))
    assert other.context.current() is not first


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"enabled_protocols": "TLSv1.1,TLSv1"}, "ssl.enabled.protocols: TLSv1.1, TLSv1: only"),
        ({"cipher_suites": "TLS_NOTHING"}, "ssl.cipher.suites: TLS_NOTHING: there is no such"),
        (
            {"cipher_suites": "TLS_AES_128_GCM_SHA256", "enabled_protocols": "TLSv1.2"},
            "ssl.cipher.suites: none of TLS_AES_128_GCM_SHA256 is of TLSv1.2",
        ),
        (
            {
                "cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "enabled_protocols": "TLSv1.3",
            },
            "ssl.cipher.suites: none of",
        ),
    ],
)
def test_protocols_and_suites_that_cannot_be_used(
    tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    """Invalid protocols and cipher suites are refused at the start."""
    with pytest.raises(ConfigError, match=expected):
        Stores(tmp_path, **settings)


def test_protocols(tmp_path: Path) -> None:
    """Protocols before TLS 1.2 are off even if they are named, as in Java."""
    context = Stores(tmp_path, enabled_protocols="TLSv1.2,TLSv1.1").context.current()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2


def no_room(*_: object, **__: object) -> None:
    """Raise the error of a full disk of temporary files."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "error",
    [
        x509.DuplicateExtension("twice", x509.SubjectAlternativeName.oid),
        x509.InvalidVersion("9 is not a valid X509 version", 9),
        UnsupportedAlgorithm("unknown curve"),
        ValueError("error parsing asn1 value"),
    ],
)
@pytest.mark.parametrize("place", ["key_entry", "trusted_certificates"])
def test_what_the_libraries_refuse(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    """Errors of the libraries are logged with the setting and not raised for a client."""

    def fail(_: object) -> None:
        raise error

    first = stores.context.current()
    monkeypatch.setattr(key_stores, place, fail)
    stores.put(AUTHORITY.issue("broker"))
    assert stores.context.current() is first
    setting = "keystore.location" if place == "key_entry" else "truststore.certificates"
    assert f"ssl.{setting}: " in stores.log.getvalue()
    assert str(error) in stores.log.getvalue()


def test_an_extension_that_is_there_twice(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of a certificate are read only when the certificate changes."""

    def fail(_: object) -> None:
        raise x509.DuplicateExtension("twice", x509.SubjectAlternativeName.oid)

    first = stores.context.current()
    monkeypatch.setattr(reloading_context, "_names", fail)
    stores.put(AUTHORITY.issue("broker"))
    assert stores.context.current() is first
    assert f"ssl.keystore.location: {stores.path}: twice" in stores.log.getvalue()


def test_no_room_for_a_temporary_file(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk of temporary files is reported at the start and at run time."""
    first = stores.context.current()
    monkeypatch.setattr(tempfile, "TemporaryDirectory", no_room)
    stores.put(AUTHORITY.issue("broker"))
    assert stores.context.current() is first
    expected = f"ssl.keystore.location: {stores.path}: No space left on device"
    assert expected in stores.log.getvalue()
    with pytest.raises(ConfigError, match=expected):
        Stores(tmp_path)


def test_trusted_certificates_that_openssl_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If OpenSSL refuses a trusted certificate, the error has the setting and the file."""
    monkeypatch.setattr(key_stores, "trusted_certificates", lambda _: [b"no certificate"])
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: /trusted\.pem: "):
        Stores(tmp_path, client_auth="required", truststore_location="/trusted.pem")
