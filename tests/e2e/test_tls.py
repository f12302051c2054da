"""TLS listeners in the real process: valid and invalid handshakes, limits, new certificates."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from coordinator_server.client.security import CertificateStore, TlsSettings
from coordinator_server.client.settings import Address
from coordinator_server.client.tls import context_of, handshake
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.certificates import Authority
from tests.e2e.commands import COMMANDS, check
from tests.faults.client import Client
from tests.support import API_VERSIONS_REQUEST, Serve, connect, wait_for
from tests.tls_broker import TlsBroker, serving
from tests.tls_conversations import (
    API_VERSIONS,
    CASES,
    OUTCOMES,
    RENEGOTIATION,
    SECONDS,
    Papers,
    client_hello,
    in_plain,
    over_tls,
    renegotiate,
)

SECRET = "correct horse battery"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The certificates of this module."""
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def broker(papers: Papers) -> Iterator[TlsBroker]:
    """A broker for all conversations."""
    with serving(papers) as broker:
        yield broker


@pytest.mark.parametrize("title", CASES)
def test_a_conversation(broker: TlsBroker, title: str) -> None:
    """The outcome is the one listed for our broker; tests/oracle/test_tls.py tests Kafka's."""
    assert CASES[title](broker.papers, broker.addresses) == OUTCOMES[title].ours


@pytest.mark.parametrize("system", COMMANDS)
def test_other_loops(papers: Papers, system: str) -> None:
    """The outcomes are the same on asyncio's own loop and with only the features of Windows."""
    broker = TlsBroker(papers, {}, COMMANDS[system])
    with broker.serve:
        ended = {title: converse(papers, broker.addresses) for title, converse in CASES.items()}
        assert ended == {title: outcome.ours for title, outcome in OUTCOMES.items()}
        assert not broker.serve.log_lines("[error"), broker.serve.log


@pytest.mark.parametrize("name", ["sha1", "rsa1024"])
def test_an_old_certificate_of_the_broker(papers: Papers, name: str) -> None:
    """Broker and client accept a broker certificate with a SHA-1 signature or 1024-bit RSA key."""
    store = str(papers.directory / f"{name}.pem")
    with serving(papers, ssl_keystore_location=store) as broker:
        settings = TlsSettings(
            truststore=CertificateStore("", str(papers.directory / "trusted.pem"))
        )
        address = Address(*broker.addresses["NONE"])
        plain = socket.create_connection(address, timeout=SECONDS)
        with handshake(plain, address, context_of(settings), SECONDS) as wire:
            wire.sendall(API_VERSIONS)
            assert wire.recv(4)


def test_the_healthcheck_of_a_container(broker: TlsBroker) -> None:
    """The healthcheck prefers a listener without TLS to one with TLS."""
    host, port = broker.addresses["NONE"]
    done = check(KAFKA_LISTENERS=f"SSL://{host}:{port}")
    assert (done.returncode, done.stderr) == (0, "")
    _, plain_port = broker.addresses["PLAIN"]
    done = check(KAFKA_LISTENERS=f"SSL://{host}:{port},PLAINTEXT://{host}:{plain_port}")
    assert f"{host}:{plain_port} serves" in done.stdout


def test_the_log_says_why(broker: TlsBroker) -> None:
    """Each failed handshake has one log line with address, listener and reason."""
    broker.ask("REQUIRED")
    in_plain(broker.addresses["NONE"], API_VERSIONS)
    in_plain(broker.addresses["PLAIN"], client_hello(broker.papers))
    for words in (
        ("handshake.failed", "listener=REQUIRED", "sent no certificate", "remote=127.0.0.1"),
        ("handshake.failed", "listener=NONE", "seems to speak plain text"),
        ("connection.closed", "looks like a TLS handshake", "PLAIN does not use TLS"),
    ):
        wait_for(partial(broker.serve.log_lines, *words), " ".join(words))


def test_principals(broker: TlsBroker) -> None:
    """The principal is the certificate's subject, or ANONYMOUS without a client certificate."""
    for listener, client, principal in (
        ("REQUIRED", "alice", "User:CN=alice,O=Tests"),
        ("REQUESTED", "alice", "User:CN=alice,O=Tests"),
        ("REQUESTED", None, "User:ANONYMOUS"),
        ("NONE", "alice", "User:ANONYMOUS"),
    ):
        before = len(broker.serve.log_lines("client.authenticated", f"listener={listener}"))
        assert broker.ask(listener, client) == "answered"
        lines = broker.serve.log_lines("client.authenticated", f"listener={listener}")
        assert len(lines) == before + 1
        assert principal in lines[-1]


def test_rules_for_principals(papers: Papers) -> None:
    """Rules map the subject; a client whose subject matches no rule is closed with a log line."""
    papers.add("carol")
    rules = "RULE:^CN=(alice).*$/$1/U"
    with serving(papers, ssl_principal_mapping_rules=rules) as broker:
        assert broker.ask("REQUIRED", "alice") == "answered"
        assert broker.serve.log_lines("client.authenticated", "User:ALICE")
        assert broker.ask("REQUIRED", "carol") == "closed"
        assert broker.serve.log_lines("has no principal", "applies to CN=carol,O=Tests")


def test_renegotiation_is_refused(broker: TlsBroker) -> None:
    """A TLS 1.2 client that begins a second handshake is closed."""
    assert renegotiate(broker.addresses["NONE"]) == RENEGOTIATION.ours
    wait_for(lambda: broker.serve.log_lines("wants to renegotiate"), "a line of the log")


def test_a_stalled_handshake_holds_nothing_up(papers: Papers) -> None:
    """A stalled handshake ends after ssl.handshake.timeout.ms, and others are served meanwhile.

    The stalled connection counts against the limit of its address.
    """
    hello = client_hello(papers)
    with serving(papers, ssl_handshake_timeout_ms="1500", max_connections_per_ip="4") as broker:
        begun = time.monotonic()
        stalled = [socket.create_connection(broker.addresses["NONE"], 30) for _ in range(3)]
        stalled[1].sendall(hello[:1])
        stalled[2].sendall(hello[:-1])
        assert broker.ask() == "answered"
        fourth = socket.create_connection(broker.addresses["PLAIN"], 30)
        assert broker.ask() != "answered"
        assert [one.recv(100) for one in stalled] == [b""] * 3
        assert time.monotonic() - begun >= 1.4
        assert broker.ask() == "answered"
        lines = broker.serve.log_lines("the TLS handshake was not done within 1500 ms")
        assert len(lines) == 3
        assert broker.serve.log_lines("connection.refused", "127.0.0.1 has 4 connections")
        for one in (*stalled, fourth):
            one.close()


@pytest.mark.real_time
@pytest.mark.alone
def test_neighbours_of_two_hundred_handshakes(broker: TlsBroker, papers: Papers) -> None:
    """While 200 handshakes begin at once, another client waits less than 100 ms."""
    hellos = [client_hello(papers) for _ in range(200)]
    begun = [socket.create_connection(broker.addresses["NONE"], 30) for _ in hellos]
    host, port = broker.addresses["PLAIN"]
    with connect(f"{host}:{port}") as neighbour:
        neighbour.ask(API_VERSIONS_REQUEST)
        for wire, hello in zip(begun, hellos, strict=True):
            wire.sendall(hello)
        longest_s = 0.0
        for _ in range(300):
            asked = time.perf_counter()
            neighbour.ask(API_VERSIONS_REQUEST)
            longest_s = max(longest_s, time.perf_counter() - asked)
    answers = [wire.recv(3) for wire in begun]
    for wire in begun:
        wire.close()
    assert answers == [b"\x16\x03\x03"] * len(hellos)
    assert longest_s < 0.1


def test_certificates_are_read_again(papers: Papers, tmp_path: Path) -> None:
    """A new key store or trust store applies to new connections; open ones stay."""
    store, trusted = tmp_path / "broker.pem", tmp_path / "trusted.pem"
    papers.authority.issue("broker").write(store)
    trusted.write_bytes(papers.authority.pem())
    with serving(
        papers, ssl_keystore_location=str(store), ssl_truststore_location=str(trusted)
    ) as broker:
        context = papers.client_context("alice")
        with (
            socket.create_connection(broker.addresses["REQUIRED"], 30) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as open_one,
        ):
            before = open_one.getpeercert(binary_form=True)
            assert broker.ask("REQUIRED", "unknown") != "answered"
            replace(trusted, papers.stranger.pem())
            new = papers.authority.issue("broker")
            new.write(tmp_path / "new.pem")
            os.replace(tmp_path / "new.pem", store)
            assert broker.ask("REQUIRED", "unknown") == "answered"
            assert broker.ask("REQUIRED", "alice") != "answered"
            open_one.sendall(API_VERSIONS)
            assert open_one.recv(4)
        replace(store, b"-----BEGIN")
        assert broker.ask("REQUIRED", "unknown") == "answered"
        assert broker.serve.log_lines("certificates.refused", str(store))
        context = papers.client_context("unknown")
        with (
            socket.create_connection(broker.addresses["REQUIRED"], 30) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as wire,
        ):
            assert wire.getpeercert(binary_form=True) != before


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_that_is_resumed(papers: Papers, tmp_path: Path, version: ssl.TLSVersion) -> None:
    """A resumed session keeps its principal; after a change of the trust store it is refused."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(papers.authority.pem())
    context = papers.client_context("alice")
    context.minimum_version = context.maximum_version = version

    def connected(
        address: tuple[str, int], session: ssl.SSLSession | None
    ) -> tuple[bool | None, ssl.SSLSession | None]:
        with (
            socket.create_connection(address, 30) as raw,
            context.wrap_socket(raw, server_hostname="localhost", session=session) as wire,
        ):
            wire.sendall(API_VERSIONS)
            assert wire.recv(4)
            return wire.session_reused, wire.session

    with serving(papers, ssl_truststore_location=str(trusted)) as broker:
        address = broker.addresses["REQUIRED"]
        reused, session = connected(address, None)
        assert not reused
        reused, _ = connected(address, session)
        assert reused
        found = partial(broker.serve.log_lines, "client.authenticated", "User:CN=alice,O=Tests")
        wait_for(lambda: len(found()) == 2, "both are in the log")
        replace(trusted, papers.stranger.pem())
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            connected(address, session)
        refused = partial(broker.serve.log_lines, "handshake.failed", "no certificate of the trust")
        wait_for(refused, "the refusal is in the log")


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def test_secrets_are_shown_to_nobody(papers: Papers, tmp_path: Path) -> None:
    """Key passwords appear neither in DescribeConfigs nor in the log."""
    identity = papers.authority.issue("broker")
    identity.write(tmp_path / "broker.pem", SECRET)
    with serving(
        papers, ssl_keystore_location=str(tmp_path / "broker.pem"), ssl_key_password=SECRET
    ) as broker:
        client = Client(broker.addresses["PLAIN"])
        resource = DescribeConfigsResource(resource_type=4, resource_name="1")
        answer = client.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True))
        client.close()
        assert SECRET not in str(answer)
        configs = {one.name: one for one in answer.results[0].configs}
        assert (configs["ssl.key.password"].value, configs["ssl.key.password"].is_sensitive) == (
            None,
            True,
        )
        assert configs["ssl.keystore.location"].value == str(tmp_path / "broker.pem")
        assert not configs["ssl.keystore.location"].is_sensitive
        assert SECRET not in broker.serve.log


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "ssl.keystore.location: a listener that uses TLS needs a key store"),
        (
            {"ssl.keystore.location": "/no/such.jks", "ssl.keystore.password": SECRET},
            "ssl.keystore.location: /no/such.jks: No such file",
        ),
        (
            {"ssl.keystore.location": "{encrypted}", "ssl.keystore.password": "wrong"},
            "ssl.keystore.location: {encrypted}: neither JKS nor PKCS12, or ssl.keystore.password",
        ),
        (
            {
                "ssl.keystore.location": "{mixed}",
                "ssl.keystore.type": "PEM",
                "ssl.key.password": "wrong",
            },
            "ssl.key.password is set, but the private key is not encrypted",
        ),
        (
            {"ssl.keystore.location": "{mixed}", "ssl.keystore.type": "PEM"},
            "the first certificate is not that of the private key",
        ),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth: 'perhaps' is none of"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "ssl.principal.mapping.rules: 'RULE:x'"),
    ],
)
def test_what_cannot_serve_does_not_start(
    tmp_path: Path, settings: Mapping[str, str], words: str
) -> None:
    """An invalid setting ends the start with exit code 2 and one line without a password."""
    authority = Authority()
    one, other = authority.issue("one"), authority.issue("other")
    encrypted, mixed = tmp_path / "encrypted.p12", tmp_path / "mixed.pem"
    one.write_pkcs12(encrypted, SECRET)
    mixed.write_bytes(one.key_pem() + other.chain_pem())
    places = {"encrypted": encrypted, "mixed": mixed}
    if "ssl.principal.mapping.rules" in settings:
        settings = {
            **settings,
            "ssl.keystore.location": str(encrypted),
            "ssl.keystore.password": SECRET,
        }
    arguments = [f"--set={name}={value.format(**places)}" for name, value in settings.items()]
    serve = Serve("--ephemeral", "--set=listeners=SSL://127.0.0.1:0", *arguments, listener=None)
    assert serve.run() == 2
    assert words.format(**places) in serve.log
    assert SECRET not in serve.log
    assert len(serve.log.splitlines()) == 1


def test_versions_and_suites(papers: Papers) -> None:
    """Only the configured TLS versions and cipher suites are accepted."""
    suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"
    with serving(papers, ssl_cipher_suites=suites) as broker:
        for version, cipher, expected in (
            (ssl.TLSVersion.TLSv1_3, None, "answered"),
            (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", "answered"),
            (
                ssl.TLSVersion.TLSv1_2,
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "SSLV3_ALERT_HANDSHAKE_FAILURE",
            ),
        ):
            context = papers.client_context()
            context.minimum_version = context.maximum_version = version
            if cipher is not None:
                context.set_ciphers(cipher)
            assert over_tls(broker.addresses["NONE"], context) == expected


def test_a_large_answer_that_is_taken_slowly(broker: TlsBroker, papers: Papers) -> None:
    """A slow reader gets 50 MB completely, while another client is served at once."""
    from kafka import KafkaConsumer, KafkaProducer

    host, port = broker.addresses["NONE"]
    options = {
        "bootstrap_servers": f"{host}:{port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(papers.directory / "ca.pem"),
        "ssl_check_hostname": True,
    }
    producer = KafkaProducer(**options, max_request_size=2_000_000, acks="all")
    for number in range(50):
        producer.send("large", bytes([number]) * 1_000_000)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        "large",
        **options,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
        fetch_max_bytes=52_428_800,
        max_partition_fetch_bytes=52_428_800,
    )
    values = []
    for record in consumer:
        values.append((len(record.value), record.value[0]))
        if len(values) == 50:
            break
    consumer.close()
    assert values == [(1_000_000, number) for number in range(50)]
    assert broker.ask() == "answered"
