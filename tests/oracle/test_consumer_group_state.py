"""Consumer groups in `__consumer_offsets` are interchangeable between our broker and Kafka.

The same requests to our broker and to a Kafka with the same topics write the same records. Kafka's
dump tool reads our records. A Kafka with our log describes the same groups, and so does our broker
with Kafka's log.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.consumer_group_records import (
    RECORD_TYPES,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.offsets_log import OffsetCommitValue
from tests.oracle.consumer_script import GROUPS, TOPICS, Cluster, describe, use
from tests.oracle.group_logs import (
    OFFSETS,
    Script,
    Used,
    Written,
    copy_topics,
    give_our_logs,
    group_records,
    use_both,
    with_sorted_runs,
)
from tests.oracle.kafka_process import dump_log_segments
from tests.support import Broker

pytestmark = pytest.mark.nightly

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "broker.rack": "somewhere",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.assignment.interval.ms": "600000",
    "group.coordinator.background.threads": "1",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "400",
}
SCRIPT = Script(
    topics=tuple(TOPICS),
    prepare=lambda bootstrap: Cluster(bootstrap).create_topics(),
    use=lambda bootstrap: use(Cluster(bootstrap)),
)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Used]:
    """Yield both brokers after they have run the script."""
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours") / "data"
    yield from use_both(theirs, ours, SETTINGS, SCRIPT)


def records(data: Path) -> dict[str, list[Written]]:
    """Return the records of each group in log order, without times.

    Kafka writes target assignments in hash table order, so they are sorted by member id.
    """
    return {
        group: with_sorted_runs(
            [(key, version, plain(value)) for key, version, value in written],
            ConsumerGroupTargetAssignmentMemberKey,
        )
        for group, written in group_records(data).items()
    }


def plain(value: Any) -> Any:
    """Return a value without times and revision numbers, and with sorted topics."""
    match value:
        case ConsumerGroupTargetAssignmentMetadataValue():
            value.assignment_timestamp = int(value.assignment_timestamp > 0)
        case ConsumerGroupRegularExpressionValue():
            value.timestamp, value.version = int(value.timestamp > 0), int(value.version > 0)
        case OffsetCommitValue():
            value.commit_timestamp = int(value.commit_timestamp > 0)
        case ConsumerGroupTargetAssignmentMemberValue():
            value.topic_partitions.sort(key=lambda one: one.topic_id)
            for target in value.topic_partitions:
                target.partitions.sort()
        case ConsumerGroupCurrentMemberAssignmentValue():
            for topics in (value.assigned_partitions, value.partitions_pending_revocation):
                topics.sort(key=lambda one: one.topic_id)
                for topic in topics:
                    assert topic.assignment_epochs is not None
                    pairs = sorted(zip(topic.partitions, topic.assignment_epochs, strict=True))
                    topic.partitions = [partition for partition, _ in pairs]
                    topic.assignment_epochs = [epoch for _, epoch in pairs]
    return value


def test_the_records_are_kafkas(used: Used) -> None:
    """The records are equal except for times, including metadata hashes and partition epochs."""
    ours, theirs = records(used.ours), records(used.kafka.data)
    assert ours.keys() == theirs.keys() == {*GROUPS, "deleted", "resolved"}
    for group, written in theirs.items():
        assert ours[group] == written, group


def test_the_groups_are_described_as_by_kafka(used: Used) -> None:
    """At the end, epochs, states, assignments and targets are equal."""
    for group in GROUPS:
        assert used.our_groups[group] == used.their_groups[group], group


def test_kafkas_dump_tool_reads_ours(used: Used) -> None:
    """Kafka's decoder of this topic reads offsets and every record type of consumer groups."""
    logs = sorted((used.ours / OFFSETS).glob("*.log"))
    shown = dump_log_segments(logs, "--offsets-decoder")
    types = set(map(int, re.findall(r'key: \{"type":"?(\d+)', shown)))
    assert types == {1, 2, *RECORD_TYPES}
    assert "assignmentEpochs" in shown


def test_we_find_kafkas_groups(used: Used, tmp_path: Path) -> None:
    """Our broker loads the groups from a copy of Kafka's directory."""
    data = tmp_path / "data"
    copy_topics(used.kafka.data, data, SCRIPT.topics)
    shutil.copytree(used.kafka.data / OFFSETS, data / OFFSETS)
    with Broker(SETTINGS, data_dir=data) as broker:
        assert describe(Cluster(broker.bootstrap_servers)) == used.their_groups


def test_kafka_finds_our_groups(used: Used) -> None:
    """Kafka loads the groups from our log."""
    give_our_logs(used, OFFSETS)
    used.kafka.start()
    assert describe(Cluster(used.kafka.bootstrap_servers)) == used.our_groups
    used.kafka.stop()
