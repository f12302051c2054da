"""TLS handshakes with a broker, valid and invalid; the outcome of each is a short text.

The same conversations run against our broker (tests/e2e/test_tls.py) and against Kafka
(tests/oracle/test_tls.py). An outcome is "answered", OpenSSL's reason for an alert, "alert N" if
the client did not speak TLS, or "closed".
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.certificates import OLD_CERTIFICATES, Authority, Identity, OldAuthority, name

API_VERSIONS = bytes.fromhex("00000010 0012 0000 00000007 0006") + b"wordy!"
SECONDS = 20.0
LISTENERS = {"REQUIRED": "SSL", "REQUESTED": "SSL", "NONE": "SSL", "PLAIN": "PLAINTEXT"}
"""Name and security protocol of the listeners; one listener for each ssl.client.auth."""


@dataclass
class Papers:
    """A directory with the certificates of the conversations."""

    directory: Path
    authority: Authority = field(default_factory=Authority)
    stranger: Authority = field(default_factory=lambda: Authority("stranger"))
    identities: dict[str, Identity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        friend = Authority("friend").alone()
        self.identities = {
            "alice": self.authority.issue("alice"),
            "expired": self.authority.issue("expired", days=-1),
            "unknown": self.stranger.issue("unknown"),
            "friend": friend,
            "server": self.authority.issue("server", usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
        }
        self.authority.issue("broker").write(self.directory / "broker.pem")
        old_authority = OldAuthority(self.directory)
        for name_ in OLD_CERTIFICATES:
            old_authority.issue(name_)
        trusted = self.authority.pem() + friend.chain_pem() + old_authority.pem()
        (self.directory / "trusted.pem").write_bytes(trusted)
        self.authority.write(self.directory / "ca.pem")
        for name_, identity in self.identities.items():
            identity.write(self.directory / f"{name_}.pem")

    def add(self, name_: str, subject: x509.Name | None = None) -> Identity:
        """Issue a certificate for one more client."""
        identity = self.authority.issue(subject or name(name_))
        identity.write(self.directory / f"{name_}.pem")
        self.identities[name_] = identity
        return identity

    def settings(self) -> dict[str, str]:
        """Return the TLS settings of a broker with all LISTENERS."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "trusted.pem"),
            "listener.name.required.ssl.client.auth": "required",
            "listener.name.requested.ssl.client.auth": "requested",
        }

    def client_context(self, name_: str | None = None) -> ssl.SSLContext:
        """Return the TLS context of a client."""
        context = ssl.create_default_context(cafile=self.directory / "ca.pem")
        if name_ in OLD_CERTIFICATES:
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
        if name_ is not None:
            context.load_cert_chain(self.directory / f"{name_}.pem")
        return context


Addresses = Mapping[str, tuple[str, int]]
Conversation = Callable[[Papers, Addresses], str]


def over_tls(address: tuple[str, int], context: ssl.SSLContext) -> str:
    """Shake hands, send ApiVersions, and return the outcome."""
    with socket.create_connection(address, timeout=SECONDS) as raw:
        try:
            with context.wrap_socket(raw, server_hostname="localhost") as wire:
                wire.sendall(API_VERSIONS)
                return "answered" if wire.recv(4) else "closed"
        except ssl.SSLError as error:
            return error.reason or "closed"
        except OSError:
            return "closed"


def in_plain(address: tuple[str, int], data: bytes) -> str:
    """Send bytes without TLS and return the outcome."""
    with socket.create_connection(address, timeout=SECONDS) as wire:
        try:
            wire.sendall(data)
            answer = wire.recv(1000)
        except OSError:
            return "closed"
    if answer[:2] == b"\x15\x03" and len(answer) >= 7:
        return f"alert {answer[6]}"
    return "answered" if answer else "closed"


def _with(
    listener: str,
    identity: str | None,
    version: ssl.TLSVersion,
    ciphers: str | None = None,
) -> Conversation:
    def converse(papers: Papers, addresses: Addresses) -> str:
        context = papers.client_context(identity)
        with warnings.catch_warnings():  # deliberately tests TLS 1.0 and 1.1, which are deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        if ciphers is not None:
            context.set_ciphers(ciphers)
        return over_tls(addresses[listener], context)

    return converse


def _plain(listener: str, data: bytes) -> Conversation:
    return lambda papers, addresses: in_plain(addresses[listener], data)


def client_hello(papers: Papers) -> bytes:
    """Return a client's first bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = papers.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def renegotiate(address: tuple[str, int]) -> str:
    """Return the outcome of a TLS 1.2 renegotiation with `openssl s_client`."""
    command = ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", "-tls1_2"]
    with subprocess.Popen(
        [*command, "-legacy_renegotiation"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stderr is not None
        client.stdin.write("R\n")
        client.stdin.flush()
        try:
            client.wait(SECONDS)
        except subprocess.TimeoutExpired:
            client.kill()
            return "nothing"
        said = client.stderr.read()
    words = ("no renegotiation", "handshake failure", "unexpected message", "unexpected eof")
    return next((word for word in words if word in said), "closed")


def _cases() -> dict[str, Conversation]:
    cases: dict[str, Conversation] = {}
    for title, version in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
        for listener in ("REQUIRED", "REQUESTED", "NONE"):
            for identity in (None, "alice", "expired", "unknown", "friend", "server"):
                cases[f"{listener} {identity} {title}"] = _with(listener, identity, version)
        for identity in OLD_CERTIFICATES:
            cases[f"REQUIRED {identity} {title}"] = _with("REQUIRED", identity, version)
    old = "ALL:@SECLEVEL=0"
    cases["only 1.1"] = _with("NONE", None, ssl.TLSVersion.TLSv1_1, old)
    cases["only 1.0"] = _with("NONE", None, ssl.TLSVersion.TLSv1, old)
    cases["no common cipher"] = _with("NONE", None, ssl.TLSVersion.TLSv1_2, "AES128-SHA")
    cases["plain text to TLS"] = _plain("NONE", API_VERSIONS)
    cases["HTTP to TLS"] = _plain("NONE", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    cases["nonsense to TLS"] = _plain("NONE", bytes(range(200, 256)))
    cases["a broken record to TLS"] = _plain("NONE", b"\x16\x03\x01\x00\x05hello")
    cases["data before the handshake"] = _plain("NONE", b"\x17\x03\x03\x00\x05hello")
    cases["TLS to plain text"] = lambda papers, addresses: in_plain(
        addresses["PLAIN"], client_hello(papers)
    )
    return cases


CASES = _cases()


class Outcome(NamedTuple):
    """The outcome of a conversation with Kafka, and with our broker."""

    kafka: str
    ours: str


def _outcomes() -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for title in CASES:
        listener, identity, version = [*title.split(" "), "", ""][:3]
        outcome = Outcome("answered", "answered")
        if title in _OTHERS:
            outcome = _OTHERS[title]
        elif identity in _REFUSED and listener != "NONE":
            outcome = _REFUSED[identity]
        elif identity == "None" and listener == "REQUIRED":
            outcome = _WITHOUT_CERTIFICATE[version]
        outcomes[title] = outcome
    return outcomes


# Both brokers refuse these certificates. OpenSSL has an alert for each reason; Java has one alert
# for all reasons.
_REFUSED = {
    "expired": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    "unknown": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA"),
    "server": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"),
}
_WITHOUT_CERTIFICATE = {
    "1.2": Outcome("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    "1.3": Outcome("SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
}
# OpenSSL accepts these certificates, so this broker closes the connection after the handshake.
_OTHERS = {
    "REQUIRED md5 1.2": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "closed"),
    "REQUIRED md5 1.3": Outcome("SSLV3_ALERT_BAD_CERTIFICATE", "closed"),
    "REQUIRED rsa768 1.2": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "closed"),
    "REQUIRED rsa768 1.3": Outcome("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "closed"),
    # OpenSSL does not support the curve P-224.
    "REQUIRED p224 1.2": Outcome("SSLV3_ALERT_HANDSHAKE_FAILURE", "SSLV3_ALERT_ILLEGAL_PARAMETER"),
    "REQUIRED p224 1.3": _WITHOUT_CERTIFICATE["1.3"],
    "only 1.1": Outcome("TLSV1_ALERT_PROTOCOL_VERSION", "TLSV1_ALERT_PROTOCOL_VERSION"),
    "only 1.0": Outcome("TLSV1_ALERT_PROTOCOL_VERSION", "TLSV1_ALERT_PROTOCOL_VERSION"),
    "no common cipher": Outcome("SSLV3_ALERT_HANDSHAKE_FAILURE", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    "plain text to TLS": Outcome("alert 80", "alert 80"),
    "HTTP to TLS": Outcome("alert 80", "alert 80"),
    "nonsense to TLS": Outcome("alert 80", "alert 80"),
    "a broken record to TLS": Outcome("alert 10", "alert 10"),
    "data before the handshake": Outcome("alert 80", "alert 10"),
    "TLS to plain text": Outcome("closed", "closed"),
}
RENEGOTIATION = Outcome("closed", "no renegotiation")
OUTCOMES = _outcomes()
