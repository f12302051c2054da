"""The table of rights in docs/pipeline.md is complete and sufficient."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from coordinator_server.testing import Broker
from pipeline import schema
from pipeline.bronze import read_offsets_log, read_the_rest
from pipeline.command import main
from pipeline.progress import silent
from pipeline.sources import admin as admin_module
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.logdir import EVENTS_TOPIC, OFFSETS_TOPIC
from pipeline.sources.source import InputError
from pipeline.store import Store
from tests.oracle.kafka_process import Kafka
from tests.pipeline.ways import Row, plain_rows
from tests.support import ROOT, wait_for

TOPIC, TELLER, READER = "payments", "teller", "reader"
REQUESTS = {
    "listTopics": "Metadata",
    "describeTopics": "DescribeTopicPartitions",
    "describeCluster": "DescribeCluster",
    "listOffsets": "ListOffsets",
    "describeConfigs": "DescribeConfigs",
    "describeProducers": "DescribeProducers",
    "listTransactions": "ListTransactions",
    "describeTransactions": "DescribeTransactions",
}
"""The request that each call of Kafka's admin client sends."""
OF_CONSUMERS = {"Fetch", "FindCoordinator", "OffsetFetch"}
WITHOUT_A_RIGHT = "DescribeCluster"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Right(NamedTuple):
    """A row of the table of rights in docs/pipeline.md."""

    operation: str
    on: str
    requests: set[str]


def rights() -> list[Right]:
    """Return the rows of the table of rights in docs/pipeline.md.

    If the requests of a row contain "the same", they include the requests of the previous row.
    """
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    table = page[page.index("| right | on |") :].split("\n\n")[0]
    found: list[Right] = []
    for line in table.splitlines()[2:]:
        operation, on, requests = (cell.strip() for cell in line.split("|")[1:4])
        named = set(re.findall(r"[A-Z]\w+", requests))
        if "the same" in requests:
            named |= found[-1].requests
        found.append(Right(operation, on, named))
    return found


def test_the_table_has_every_request_of_the_admin_client() -> None:
    """The request of every call of the admin client has a row in the table."""
    tree = ast.parse(Path(admin_module.__file__).read_text(encoding="utf-8"))
    calls = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "self._client"
    } - {"close"}
    sent = {REQUESTS[name] for name in calls}
    told: set[str] = set().union(*(right.requests for right in rights()))
    assert told == (sent | OF_CONSUMERS) - {WITHOUT_A_RIGHT}
    others = (Path(admin_module.__file__).parent).glob("*.py")
    makers = {path.name for path in others if "admin.Admin" in path.read_text(encoding="utf-8")}
    assert makers == {"admin.py"}


def bindings(right: Right) -> list[AclBinding]:
    """Return the ACLs that give the reader the rights in one row of the table."""
    operation = AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", right.operation).upper()]
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    named = re.search("`(.+)`", right.on)
    if named is not None:
        groups = right.on.startswith("groups")
        kind, pattern = (ResourceType.GROUP, prefixed) if groups else (ResourceType.TOPIC, literal)
        resource = (kind, named[1], pattern)
    elif right.on.startswith("transactional ids"):
        resource = (ResourceType.TRANSACTIONAL_ID, TELLER, literal)
    else:
        resource = (ResourceType.TOPIC, TOPIC, literal)
    kind, name, pattern = resource
    allow = AclPermissionType.ALLOW
    return [AclBinding(kind, name, pattern, f"User:{READER}", "*", operation, allow)]


class Secured:
    """A running broker with ACLs: `admin` may do everything, the reader only what is granted.

    `settings` are confluent-kafka's settings for `admin`. `reader` is the text of a Java client's
    properties file for the reader.
    """

    def __init__(self, settings: Mapping[str, str], reader: str, folder: Path) -> None:
        self.settings = dict(settings)
        self.bootstrap = self.settings["bootstrap.servers"]
        self.admin = AdminClient(self.settings)
        self.client_config = folder / "client.properties"
        self.client_config.write_text(reader)

    def grant(self, granted: list[Right]) -> None:
        """Grant the reader exactly these rights, and wait until the broker has the ACLs."""
        wanted = [binding for right in granted for binding in bindings(right)]
        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        for done in self.admin.delete_acls([every]).values():
            done.result()
        for made in self.admin.create_acls(wanted).values():
            made.result()
        wait_for(
            lambda: len(self.admin.describe_acls(every).result()) == len(wanted), "ACLs are there"
        )


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Secured]:
    """Start Apache Kafka with SASL_PLAINTEXT and an authorizer."""
    jaas = f'{LOGIN} username="admin" password="a" user_admin="a" user_{READER}="r";'
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
    }
    broker = Kafka(tmp_path, settings)
    try:
        broker.start()
        client = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "a",
        }
        reader = (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={LOGIN} username="{READER}" password="r";\n'
        )
        yield Secured(client, reader, tmp_path)
        broker.stop()
    finally:
        broker.end()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Secured]:
    """Start our broker with SASL_SSL; the reader is a SCRAM user."""
    settings = {"allow.everyone.if.no.acl.found": "false", "offsets.topic.num.partitions": "1"}
    with Broker(settings, security="sasl_ssl") as broker:
        settings_of_admin = broker.client_config("confluent", user="admin")
        admin = AdminClient(settings_of_admin)
        put = UserScramCredentialUpsertion(
            READER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"r"
        )
        admin.alter_user_scram_credentials([put])[READER].result(30)
        reader = broker.client_config("java", user="admin") | {
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{READER}" password="r";'
        }
        lines = "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in reader.items())
        yield Secured(settings_of_admin, lines, tmp_path)


def live(secured: Secured) -> Producer:
    """Create topics, a commit, and a transaction that stays open."""
    topics = [NewTopic(TOPIC, 1, 1, config={"retention.ms": "86400000"})]
    if EVENTS_TOPIC not in secured.admin.list_topics(timeout=30).topics:
        topics.append(NewTopic(EVENTS_TOPIC, 1, 1))
    for made in secured.admin.create_topics(topics).values():
        made.result()
    producer = Producer({**secured.settings, "transactional.id": TELLER})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(TOPIC, b"committed")
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(TOPIC, b"open", timestamp=1_000)
    assert producer.flush(60) == 0
    consumer = Consumer({**secured.settings, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    consumer.close()
    return producer


@pytest.mark.nightly
@pytest.mark.real_time
@pytest.mark.parametrize("broker", [pytest.param("theirs", marks=pytest.mark.nightly), "ours"])
def test_the_rights_are_enough_and_what_is_missing_is_said(
    broker: str,
    connector: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With all rights of the table, the pipeline finds all values.

    If an optional right is missing, the run continues and a note names the missing value. If a
    required right is missing, the run ends with an error that names the topic.
    """
    secured: Secured = request.getfixturevalue(broker)
    producer = live(secured)
    every = rights()

    def run(granted: list[Right], out: str) -> tuple[Row, list[str], Store]:
        secured.grant(granted)
        store = Store(connector, str(tmp_path / out))
        config = str(secured.client_config)
        source = BrokerSource(connector, secured.bootstrap, client_config=config)
        read_offsets_log(source, store, silent)
        read_the_rest(source, store, silent)
        (end,) = plain_rows(store.read_bronze(schema.PARTITION_ENDS), schema.PARTITION_ENDS)
        return end, source.notes(), store

    end, notes, store = run(every, "all")
    assert notes == []
    assert (end["retention_ms"], end["last_stable_offset"], end["log_end"]) == (86_400_000, 2, 3)
    assert end["held_by"] == TELLER
    assert end["sampled_at_ms"] - 600_000 < end["held_since_ms"] <= end["sampled_at_ms"]
    assert store.read_bronze(schema.TOPIC_RECORDS).count() == 1
    of = {right.operation: right for right in every}
    end, notes, _ = run([one for one in every if one != of["Describe"]], "nameless")
    # Without the coordinator's answer, the transaction starts at the first record's timestamp.
    assert (end["held_by"].split()[0], end["held_since_ms"]) == ("producer", 1_000)
    (note,) = notes
    assert note.startswith(f"{TOPIC}-0: no coordinator lists a transaction of producer ")
    end, notes, _ = run([one for one in every if one != of["DescribeConfigs"]], "configless")
    assert (end["retention_ms"], end["held_by"]) == (None, TELLER)
    (note,) = notes
    assert note.startswith(f"{TOPIC}: retention.ms is not known: TopicAuthorizationException: ")
    data = next(one for one in every if one.on.startswith("each topic"))
    secured.grant([one for one in every if one != data] + [data._replace(operation="Describe")])
    words = ["--bootstrap-server", secured.bootstrap, "--client-config", str(secured.client_config)]
    assert main(["run", *words, "--time", "exact", "--out", str(tmp_path / "unread")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(
        f"--bootstrap-server {secured.bootstrap}: TopicAuthorizationException: Not authorized to"
        f" access topics: [{TOPIC}]"
    )
    with pytest.raises(InputError, match=f"the right to read {OFFSETS_TOPIC} is missing"):
        run(every[1:], "offsetless")
    producer.abort_transaction(60)
