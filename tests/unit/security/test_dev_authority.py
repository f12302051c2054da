"""The authority of --dev-security: persistence, and renewal of certificates."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from coordinator_server.security import dev_authority
from coordinator_server.security.client_settings import CLIENTS, ClientAccess, client_settings
from coordinator_server.security.dev_authority import DevAuthority

HOSTS = ("localhost", "127.0.0.1")


def issue(directory: Path, *hosts: str) -> bytes:
    """Return the file of an identity, issued by the authority of a directory."""
    return DevAuthority(directory).issue("one.pem", "one", hosts).read_bytes()


def test_what_is_there_stays(tmp_path: Path) -> None:
    """The authority and a certificate for all hosts are used again at the next start.

    A certificate that lacks a host is replaced.
    """
    first = issue(tmp_path, *HOSTS, "broker")
    authority = (tmp_path / "ca.pem").read_bytes()
    assert issue(tmp_path, *HOSTS) == first
    assert issue(tmp_path, *HOSTS, "::1") != first
    assert (tmp_path / "ca.pem").read_bytes() == authority


def test_an_authority_that_is_new_signs_anew(tmp_path: Path) -> None:
    """Without its key the authority is created again and issues all certificates again."""
    first = issue(tmp_path, *HOSTS)
    (tmp_path / "ca.key").unlink()
    second = issue(tmp_path, *HOSTS)
    assert second != first
    authority, certificate = (
        x509.load_pem_x509_certificate(content)
        for content in ((tmp_path / "ca.pem").read_bytes(), second)
    )
    certificate.verify_directly_issued_by(authority)


@pytest.mark.parametrize(("days", "stays"), [(6, False), (8, True)])
@pytest.mark.parametrize("hosts", [HOSTS, ()])
def test_a_certificate_that_ends_soon_is_renewed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    stays: bool,
    hosts: tuple[str, ...],
) -> None:
    """A certificate is renewed within seven days of its end."""
    monkeypatch.setattr(dev_authority, "_LIFE", datetime.timedelta(days=days))
    first = issue(tmp_path, *hosts)
    assert (issue(tmp_path, *hosts) == first) is stays


def test_the_settings_show_no_password_by_accident() -> None:
    """repr() of the settings contains no password."""
    access = ClientAccess("SASL_SSL", "PLAIN", "alice", "geheim", "/dir")
    assert "geheim" not in repr(access)
    assert all("geheim" in str(client_settings(client, access)) for client in CLIENTS)
    assert "PlainLoginModule" in client_settings("java", access)["sasl.jaas.config"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_settings_without_a_password(client: str, protocol: str) -> None:
    """Settings without a password contain no SASL settings."""
    settings = client_settings(client, ClientAccess(protocol, "PLAIN", "alice", "", "/dir"))
    assert not [name for name in settings if "sasl" in name]
