"""`coordinator-server doctor` and its diagnoses of brokers and other servers."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from coordinator_server.client import Address
from coordinator_server.tools.doctor import main
from coordinator_server.tools.doctor_settings import OF_LIBRDKAFKA
from protocol.apis.find_coordinator import FindCoordinatorResponse
from protocol.apis.metadata import MetadataResponse, MetadataResponseBroker
from protocol.apis.sasl_authenticate import SaslAuthenticateResponse
from protocol.apis.sasl_handshake import SaslHandshakeResponse
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.certificates import Authority, Identity
from tests.e2e import strange_servers as strange
from tests.e2e.fake_broker import fake, metadata
from tests.support import Broker, free_port

SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice")
PASSWORD = "not-to-be-shown"
STEPS = ["resolve", "connect", "versions", "metadata", "advertised", "coordinator", "group"]


class Told:
    """The output of a run, parsed from JSON."""

    def __init__(self, code: int, answer: dict[str, Any]) -> None:
        self.code = code
        self.steps = answer["steps"]
        assert answer["ok"] is (code == 0)
        assert all(step["ok"] for step in self.steps[:-1]) or code == 1

    @property
    def names(self) -> list[str]:
        """Return the names of the steps."""
        return [step["step"] for step in self.steps]

    @property
    def failure(self) -> tuple[str, str, str]:
        """Return the failed step, the reason, and the suggested changes."""
        (failed,) = [step for step in self.steps if not step["ok"]]
        return failed["step"], failed["reason"], " / ".join(failed["changes"])


def doctor(
    capsys: pytest.CaptureFixture[str], address: Address | str, *settings: str, timeout: float = 2
) -> Told:
    """Run doctor in this process."""
    where = address if isinstance(address, str) else f"{address.host}:{address.port}"
    arguments = [where, "--json", "--timeout", str(timeout)]
    for setting in settings:
        arguments += ["--set", setting]
    code = main(arguments)
    output, errors = capsys.readouterr()
    assert PASSWORD not in output + errors
    return Told(code, json.loads(output))


def test_a_broker_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    """All steps succeed with a healthy broker."""
    with Broker() as broker:
        told = doctor(capsys, broker.bootstrap_servers, timeout=10)
        assert (told.code, told.names) == (0, STEPS)
        versions, group = told.steps[2], told.steps[-1]
        assert "looks like Kafka" in versions["found"]
        assert "DeleteGroups" in group["details"][0]
        assert "JoinGroup" in group["details"][0]

        assert main([broker.bootstrap_servers]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line[0] != " "]
        assert [line.split()[:2] for line in lines] == [["ok", name] for name in STEPS]


def test_it_is_a_command_and_refuses_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments end with exit code 2, and no secret is printed."""
    for arguments in (
        [],
        ["here"],
        ["a:1,b:2"],
        ["a:1", "--timeout", "0"],
        ["a:1", "--set", PASSWORD],
        ["a:1", "--command-config", "/none"],
        ["a:1", "--set", "security.protocol=SSH"],
        ["a:1", "--set", "security.protocol=SASL_SSL", "--set", "sasl.mechanism=GSSAPI"],
        ["a:1", "--set", SASL[0], "--set", f"sasl.jaas.config={PASSWORD}"],
    ):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        assert code == 2, arguments
        assert PASSWORD not in capsys.readouterr().err


def test_misspelt_settings_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Misspelt settings, which clients ignore, are named with the right spelling."""
    with Broker() as broker:
        told = doctor(
            capsys,
            broker.bootstrap_servers,
            f"ssl.truststore.pasword={PASSWORD}",
            f"secruity_protocol={PASSWORD}",
            "ssl.whatever=1",
            "retry.backoff.max.ms=1000",
            "https.ca.location=/none",
            timeout=10,
        )
    assert (told.code, told.names) == (0, ["settings", *STEPS])
    assert told.steps[0]["details"] == [
        "ssl.truststore.pasword: no client has such a setting, did you mean"
        " ssl.truststore.password?",
        "secruity_protocol: no client has such a setting, did you mean security.protocol?",
        "ssl.whatever: no client has such a setting",
    ]


def test_the_names_of_librdkafka_are_its_names() -> None:
    """librdkafka knows every name in OF_LIBRDKAFKA."""

    def answer(name: str) -> str:
        try:
            confluent_kafka.Producer({"bootstrap.servers": "localhost:1", name: "x"})
        except confluent_kafka.KafkaException as error:
            return str(error)
        return ""

    unknown = "No such configuration property"
    assert unknown in answer("ssl.whatever")
    assert [name for name in sorted(OF_LIBRDKAFKA) if unknown in answer(name)] == []


def test_nobody_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown host name and a port without a listener are recognised."""
    step, reason, change = doctor(capsys, "kafka-of-nobody.invalid:9092").failure
    assert (step, "does not resolve" in reason) == ("resolve", True)
    assert "bootstrap.servers" in change
    step, reason, change = doctor(capsys, f"127.0.0.1:{free_port()}").failure
    assert (step, "connection refused" in reason) == ("connect", True)
    assert "listeners=" in change


@pytest.mark.parametrize(
    ("talk", "words", "change"),
    [
        (strange.close, "closed at once", "listeners"),
        (strange.stay_silent, "nothing answers", "bootstrap.servers"),
        (strange.speak_http, "an HTTP server", "bootstrap.servers"),
        (strange.greet, "neither Kafka nor TLS nor HTTP", "bootstrap.servers"),
    ],
)
def test_what_is_no_broker(
    capsys: pytest.CaptureFixture[str], talk: strange.Talk, words: str, change: str
) -> None:
    """Each server that is not a broker is recognised in time, with and without TLS."""
    with strange.server(talk) as address:
        told = doctor(capsys, address)
        assert told.failure[0] == "versions"
        assert words in told.failure[1]
        assert change in told.failure[2]
        told = doctor(capsys, address, "security.protocol=SSL")
        assert told.failure[0] == "tls"
        assert words in told.failure[1]
        assert sum(step["ms"] for step in told.steps) < 5_000


def _context(identity: Identity, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.write(directory / "server.pem"))
    return context


def test_tls_and_plain_text_are_told_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """doctor recognises TLS on a plaintext connection, and plaintext on a TLS connection."""
    identity = Authority().issue("broker")
    with strange.server(strange.encrypted(_context(identity, tmp_path))) as address:
        step, reason, change = doctor(capsys, address).failure
        assert (step, "speaks TLS" in reason) == ("versions", True)
        assert "security.protocol=SSL" in change
    with Broker() as broker:
        told = doctor(capsys, broker.bootstrap_servers, "security.protocol=SSL")
        assert told.failure[0] == "tls"
        assert "Kafka in plain text" in told.failure[1]
        assert "security.protocol=PLAINTEXT" in told.failure[2]


def test_certificates_that_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """doctor explains certificates with an unknown CA, a wrong or missing name, or expired."""
    authority = Authority("The CA")
    trusted = f"ssl.truststore.location={authority.write(tmp_path / 'ca.pem')}"
    other = f"ssl.ca.location={Authority('Other').write(tmp_path / 'other.pem')}"
    cases = [
        (authority.issue("broker"), other, "no certificate of CN=The CA", "ssl.truststore"),
        (authority.issue("b", hosts=["b.example"]), trusted, "not among b.example", "bootstrap"),
        (authority.issue("b", hosts=[]), trusted, "no subjectAltName", "subjectAltNames"),
        (authority.issue("b", days=-2), trusted, "has expired: CN=b", "ssl.keystore.location"),
        (authority.alone(), trusted, "no certificate of CN=The CA", "ssl.truststore"),
    ]
    for identity, trust, words, change in cases:
        talk = strange.encrypted(_context(identity, tmp_path))
        with strange.server(talk) as address:
            told = doctor(capsys, address, "security.protocol=SSL", trust)
            assert told.failure[0] == "tls"
            assert words in told.failure[1]
            assert change in told.failure[2]
            assert "certificate 1: " in told.steps[-1]["details"][0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificates_of_clients(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """doctor explains a missing client certificate and one of another CA, in TLS 1.2 and 1.3."""
    authority = Authority()
    context = _context(authority.issue("broker"), tmp_path)
    trust = f"ssl.truststore.location={authority.write(tmp_path / 'ca.pem')}"
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version
    stranger = Authority("Other").issue("eve").write(tmp_path / "eve.pem")
    with strange.server(strange.encrypted(context)) as address:
        step, reason, change = doctor(capsys, address, "security.protocol=SSL", trust).failure
        assert (step, "without a certificate" in reason) == ("tls", True)
        assert "ssl.client.auth" in change
        keystore = f"ssl.keystore.location={stranger}"
        told = doctor(capsys, address, "security.protocol=SSL", trust, keystore)
        assert told.failure[0] == "tls"
        assert "the client's certificate" in told.failure[1]


def test_a_web_server_with_tls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A web server behind TLS is recognised."""
    authority = Authority()
    trust = f"ssl.truststore.location={authority.write(tmp_path / 'ca.pem')}"
    context = _context(authority.issue("proxy"), tmp_path)
    with strange.server(strange.encrypted(context, strange.speak_http)) as address:
        told = doctor(capsys, address, "security.protocol=SSL", trust, timeout=3)
        assert told.failure[0] == "versions"
        assert "an HTTP server" in told.failure[1]


RANGES = {3: (0, 12), 10: (0, 4), 17: (0, 1), 18: (0, 4), 36: (0, 2)}


def test_a_listener_without_sasl(capsys: pytest.CaptureFixture[str]) -> None:
    """On a listener without SASL, doctor does not send the password."""
    with fake({3: (0, 12), 18: (0, 5)}, lambda *_: None) as broker:
        told = doctor(capsys, broker.address, *SASL, f"sasl.password={PASSWORD}")
        assert told.failure[:2] == (
            "sasl",
            "this listener takes no SASL, and security.protocol is SASL_PLAINTEXT",
        )
        assert [name for name, _ in broker.asked] == ["ApiVersions"]


@pytest.mark.parametrize(
    ("code", "words", "change"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "does not offer PLAIN, only X", "sasl.mechanism=X"),
        (ErrorCode.ILLEGAL_SASL_STATE, "takes no SASL", "security.protocol=PLAINTEXT"),
        (ErrorCode.NONE, "refuses user alice: wrong password", "user_alice"),
    ],
)
def test_sasl_that_fails(
    capsys: pytest.CaptureFixture[str], code: ErrorCode, words: str, change: str
) -> None:
    """doctor explains an unsupported mechanism, a listener without SASL, and a wrong password."""

    def answer(name: str, _version: int, _request: Message) -> Message:
        if name == "SaslHandshake":
            return SaslHandshakeResponse(error_code=code, mechanisms=["X"])
        return SaslAuthenticateResponse(
            error_code=58, error_message="wrong password", auth_bytes=b""
        )

    with fake(RANGES, answer) as broker:
        told = doctor(capsys, broker.address, *SASL, f"sasl.password={PASSWORD}")
        assert told.failure[0] == "sasl"
        assert words in told.failure[1]
        assert change in told.failure[2]


def test_a_listener_that_wants_sasl(capsys: pytest.CaptureFixture[str]) -> None:
    """doctor recognises a SASL listener that closes unauthenticated connections."""

    def answer(name: str, _version: int, _request: Message) -> Message | None:
        if name == "SaslHandshake":
            return SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "SCRAM-SHA-256"])
        return None

    with fake(RANGES, answer) as broker:
        told = doctor(capsys, broker.address)
        assert told.failure[:2] == (
            "metadata",
            "this listener wants SASL (PLAIN, SCRAM-SHA-256), and security.protocol is PLAINTEXT",
        )
        assert "security.protocol=SASL_PLAINTEXT" in told.failure[2]


def test_brokers_that_name_what_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    """doctor names unreachable advertised listeners, and explains a refused coordinator lookup."""

    def answer(name: str, _version: int, _request: Message) -> Message:
        if name == "FindCoordinator":
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return FindCoordinatorResponse(error_code=error, error_message="")
        node = MetadataResponseBroker(node_id=7, host="kafka-of-nobody.invalid", port=9092)
        return MetadataResponse(brokers=[node], controller_id=7)

    with fake({3: (0, 12), 10: (0, 3), 18: (0, 4)}, answer) as broker:
        told = doctor(capsys, broker.address)
        failed = {step["step"]: step for step in told.steps if not step["ok"]}
        assert list(failed) == ["advertised", "coordinator"]
        assert "advertised.listeners" in failed["advertised"]["changes"][0]
        assert failed["coordinator"]["reason"].endswith(": Group authorization failed.")
        assert "kafka-of-nobody.invalid" in failed["advertised"]["details"][0]
        assert "ACL" in failed["coordinator"]["changes"][0]


def test_a_broker_that_stops_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    """doctor explains a connection closed after ApiVersions, and a cluster without live brokers."""
    with fake({3: (0, 12), 18: (0, 4)}, lambda *_: None) as broker:
        step, reason, _ = doctor(capsys, broker.address).failure
        assert (step, "Metadata" in reason) == ("metadata", True)
    with fake({3: (0, 12), 18: (0, 4)}, lambda *_: MetadataResponse()) as broker:
        assert "no broker that is alive" in doctor(capsys, broker.address).failure[1]
    with fake({3: (0, 12), 18: (0, 4)}, lambda *_: metadata(broker)) as broker:
        told = doctor(capsys, broker.address)
        assert told.failure[0] == "coordinator"
        assert "does not support FIND_COORDINATOR" in told.failure[1]
