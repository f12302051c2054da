"""With Java's KafkaShareConsumer, a dead letter queue gets the same records as in Kafka."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kafka
import pytest

from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.json_form import uuid_to_text
from tests.clients.support import create_topic, set_group_configs
from tests.conformance.access.brokers import our_broker, their_broker
from tests.conformance.access.case import Fields
from tests.conformance.access.connection import Connection
from tests.conformance.access.world import World
from tests.oracle.kafka_process import Kafka, java
from tests.oracle.share_members import SETTINGS, Member
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

GROUP, TOPIC = "queue", "jobs"
_SHARE_SETTINGS = {
    **SETTINGS,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_VALUES = (b"accept 1", b"reject 2", b"release 3", b"reject 4", b"accept 5")
_DEAD = 3
_WHEN = re.compile(r"CreateTime:\d+\t|Offset:\d+\t")
"""Offsets and times are left out: Kafka reorders dead letters while it creates the queue."""


@contextmanager
def broker_of(kind: str, directory: Path) -> Iterator[str]:
    """Run one broker, ours or Kafka's, and yield its address."""
    if kind == "ours":
        with Broker(_SHARE_SETTINGS, data_dir=directory / "data") as broker:
            yield broker.bootstrap_servers
        return
    kafka_broker = Kafka(directory, _SHARE_SETTINGS)
    try:
        kafka_broker.start()
        yield kafka_broker.bootstrap_servers
    finally:
        kafka_broker.end()


def consumed(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return the output of Java's console consumer for `count` records, without their times."""
    shown = ("timestamp", "partition", "offset", "headers", "key", "value")
    command = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *(part for name in shown for part in ("--formatter-property", f"print.{name}=true")),
    )
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [_WHEN.sub("", line) for line in told.stdout.splitlines()]


def played(kind: str, directory: Path, queue: str, *, copies: bool) -> tuple[list[str], list[str]]:
    """Let a consumer acknowledge each record as the record's value says.

    Returns the records that the consumer got, and the records in the dead letter queue.
    """
    directory.mkdir()
    with broker_of(kind, directory) as bootstrap:
        create_topic(bootstrap, TOPIC)
        configs = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": queue,
            "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
        }
        set_group_configs(bootstrap, GROUP, configs)
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        for value in _VALUES:
            producer.send(TOPIC, value, key=value[-1:], headers=[("of the source", b"1")])
        producer.close()
        with Member(bootstrap, directory / "member", "obey") as member:
            member.wait_until_got(len(_VALUES) + 4, "every delivery")
            found = sorted(consumed(bootstrap, queue, _DEAD))
            member.close()
            return [line for line in member.lines if line.startswith("got")], found


@pytest.mark.real_time
@pytest.mark.parametrize("copies", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_a_java_consumer_sees_the_records_that_another_has_rejected(
    tmp_path: Path, copies: bool
) -> None:
    """Our broker creates the dead letter topic, and writes the same dead letters as Kafka.

    Dead letters are the rejected records and the record that was released too often. Kafka's
    share consumer gets each record as often from our broker as from Kafka.
    """
    theirs = played("theirs", tmp_path / "theirs", "dlq.jobs", copies=copies)
    ours = played("ours", tmp_path / "ours", "dlq.jobs", copies=copies)
    assert ours[1] == theirs[1]
    assert sorted(ours[0]) == sorted(theirs[0])
    assert len(ours[1]) == _DEAD
    assert re.findall(r"__dlq.errors.offset:(\d)", "\n".join(sorted(ours[1]))) == ["1", "2", "3"]


_QUEUE, _USER = "dlq.jobs", "nobody"
_GROUP_CONFIG, _REJECT = 32, 3
_LOADING = (14, 15, 16)
_MEMBER = uuid_to_text(bytes(range(16)))


def rejected_by_a_user(address: tuple[str, int]) -> list[int]:
    """Let a user with rights only to the topic and the group reject two records.

    Returns the offsets of the rejected records, from the headers of their dead letters.
    """
    world = World(address)
    world.create_topics([TOPIC])
    is_queue = {"name": "errors.deadletterqueue.group.enable", "value": "true"}
    queue: Fields = {
        "name": _QUEUE,
        "numPartitions": 1,
        "replicationFactor": 1,
        "configs": [is_queue],
    }
    made = world.admin.must("CreateTopics", 7, {"topics": [queue], "timeoutMs": 9000})
    assert not made["topics"][0]["errorCode"], made
    world.produce(TOPIC)
    configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": _QUEUE}
    changes = [
        {"name": name, "configOperation": 0, "value": value} for name, value in configs.items()
    ]
    resource: Fields = {"resourceType": _GROUP_CONFIG, "resourceName": GROUP, "configs": changes}
    world.admin.must("IncrementalAlterConfigs", 1, {"resources": [resource]})
    world.create_acls(
        [
            Acl(
                kind,
                name,
                PatternType.LITERAL,
                f"User:{_USER}",
                "*",
                Operation.READ,
                Permission.ALLOW,
            )
            for kind, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, GROUP))
        ]
    )
    user = Connection(address, _USER)
    _reject(world, user)
    asked: Fields = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    fields: Fields = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20}
    fields["topics"] = [{"topic": _QUEUE, "partitions": [asked]}]

    def offsets() -> list[int]:
        answer = world.admin.must("Fetch", 12, fields)["responses"][0]["partitions"][0]
        data = base64.b64decode(answer["records"] or "")
        return [
            int(dict(record.headers)["__dlq.errors.offset"] or b"")
            for header in iterate_batches(data)
            for record in iterate_records(data, header)
        ]

    try:
        wait_for(offsets, "dead letters", 30)
        return offsets()
    finally:
        denied = user.must("Fetch", 12, fields)["responses"][0]["partitions"][0]
        assert denied["errorCode"] == 29, denied
        user.close()
        world.close()


def _reject(world: World, user: Connection) -> None:
    for key_type, key in ((0, GROUP), (2, f"{GROUP}:{world.topic_ids[TOPIC]}:0")):
        world.ask_until(
            "FindCoordinator",
            6,
            {"keyType": key_type, "coordinatorKeys": [key]},
            lambda answer: [one["errorCode"] for one in answer["coordinators"]],
        )
    heartbeat: Fields = {"groupId": GROUP, "memberId": _MEMBER, "subscribedTopicNames": [TOPIC]}
    epoch = 0

    def is_assigned() -> bool:
        nonlocal epoch
        answer = user.must("ShareGroupHeartbeat", 1, heartbeat | {"memberEpoch": epoch})
        if answer["errorCode"] in _LOADING:
            return False
        assert not answer["errorCode"], answer
        epoch = answer["memberEpoch"]
        return bool((answer["assignment"] or {"topicPartitions": []})["topicPartitions"])

    wait_for(is_assigned, "the assignment", 60, 0.2)
    topic_id = world.topic_ids[TOPIC]
    session: Fields = {"groupId": GROUP, "memberId": _MEMBER}
    empty = [{"partitionIndex": 0, "acknowledgementBatches": []}]
    fetch: Fields = session | {
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "maxRecords": 100,
    }
    fetch |= {"batchSize": 100, "topics": [{"topicId": topic_id, "partitions": empty}]}
    sessions = iter(range(1000))

    def is_acquired() -> bool:
        answer = user.must("ShareFetch", 1, fetch | {"shareSessionEpoch": next(sessions)})
        assert not answer["errorCode"], answer
        return any(
            one["acquiredRecords"] for topic in answer["responses"] for one in topic["partitions"]
        )

    wait_for(is_acquired, "the records", 60, 0.1)
    said = [{"firstOffset": 0, "lastOffset": 1, "acknowledgeTypes": [_REJECT]}]
    parts = [{"partitionIndex": 0, "acknowledgementBatches": said}]
    fields = session | {"shareSessionEpoch": next(sessions)}
    fields["topics"] = [{"topicId": topic_id, "partitions": parts}]
    answer = user.must("ShareAcknowledge", 1, fields)
    assert not answer["responses"][0]["partitions"][0]["errorCode"], answer


@pytest.mark.real_time
def test_members_need_no_rights_to_the_queue(tmp_path: Path) -> None:
    """A user without rights to the dead letter queue can reject records.

    The broker itself writes the dead letters.
    """
    with their_broker(tmp_path) as address:
        assert rejected_by_a_user(address) == [0, 1]
    with our_broker(tmp_path) as address:
        assert rejected_by_a_user(address) == [0, 1]
