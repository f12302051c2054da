"""TLS handshakes and principals with a running Kafka."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from tests.faults.client import frame_of
from tests.oracle.kafka_process import JAVA_OPTIONS, Kafka
from tests.support import wait_for
from tests.tls_broker import TlsBroker, serving
from tests.tls_conversations import CASES, LISTENERS, OUTCOMES, RENEGOTIATION, Papers, renegotiate

pytestmark = pytest.mark.nightly

COMMON, UNIT, MAIL = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.EMAIL_ADDRESS,
)
SUBJECTS = {
    "plain": [[(COMMON, "alice")], [(UNIT, "users")]],
    "escapes": [[(COMMON, ' a,b+c"d\\e<f>g;h=i ')], [(UNIT, "#users")]],
    "letters": [[(COMMON, "Jörg 日本")]],
    "mail": [[(COMMON, "alice")], [(MAIL, "alice@example.org")]],
    "several": [[(COMMON, "alice"), (NameOID.USER_ID, "a1")], [(UNIT, "users")]],
}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The certificates for both brokers."""
    papers = Papers(tmp_path_factory.mktemp("papers"))
    for name, parts in SUBJECTS.items():
        relative_names = [
            x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in part])
            for part in parts
        ]
        papers.add(name, x509.Name(relative_names))
    return papers


@pytest.fixture(scope="module")
def kafka(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka with the listeners of the conversations, whose authorizer logs the principals."""
    settings = {
        **papers.settings(),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    names_principals = "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=debug"
    directory = tmp_path_factory.mktemp("kafka")
    kafka = Kafka(directory, settings, (*JAVA_OPTIONS, names_principals), LISTENERS)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.end()


@pytest.fixture(scope="module")
def ours(papers: Papers) -> Iterator[TlsBroker]:
    """Our broker with the same settings."""
    with serving(papers) as broker:
        yield broker


def test_conversations_end_as_the_table_says(papers: Papers, kafka: Kafka) -> None:
    """Each conversation with Kafka has the listed outcome; tests/e2e has those with our broker."""
    seen = {title: converse(papers, kafka.addresses) for title, converse in CASES.items()}
    differ = {title: word for title, word in seen.items() if OUTCOMES[title].kafka != word}
    assert not differ, differ


def test_subjects_are_the_same_principals(papers: Papers, kafka: Kafka, ours: TlsBroker) -> None:
    """Subjects become the same principals as in the denials that Kafka's authorizer logs."""
    topic = MetadataRequestTopic(name="secret")
    frame = frame_of(MetadataRequest(topics=[topic]), 9)
    for name in SUBJECTS:
        with (
            socket.create_connection(kafka.addresses["REQUIRED"], 30) as raw,
            papers.client_context(name).wrap_socket(raw, server_hostname="localhost") as wire,
        ):
            wire.sendall(frame)
            assert wire.recv(4)
        assert ours.ask("REQUIRED", name) == "answered"

    def named() -> list[str]:
        return list(dict.fromkeys(re.findall(r"Principal = (User:.*?) is Denied", kafka.log)))

    wait_for(lambda: len(named()) >= len(SUBJECTS), "Kafka names each of them")
    log = ours.serve.log
    assert [one for one in named() if one not in log and repr(one)[1:-1] not in log] == []


def test_renegotiation(kafka: Kafka, ours: TlsBroker) -> None:
    """Neither broker allows renegotiation; OpenSSL sends an alert."""
    assert renegotiate(kafka.addresses["NONE"]) == RENEGOTIATION.kafka
    assert renegotiate(ours.addresses["NONE"]) == RENEGOTIATION.ours
