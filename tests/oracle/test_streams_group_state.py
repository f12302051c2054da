"""Streams groups in `__consumer_offsets` are interchangeable between our broker and Kafka.

The same requests to our broker and to a Kafka with the same topics write the same records. Kafka's
dump tool reads our records. A Kafka with our log describes the same groups, and so does our broker
with Kafka's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.offsets_log import OffsetCommitValue
from protocol.streams_group_records import (
    RECORD_TYPES,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
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
from tests.oracle.streams_script import (
    CREATED,
    CREATES,
    GROUPS,
    TOPICS,
    Cluster,
    describe,
    uncounted,
    use,
    wake,
)
from tests.support import Broker

pytestmark = pytest.mark.nightly

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.assignment.interval.ms": "600000",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "400",
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
    """Return the records of each group in log order, without times."""
    return {
        group: with_sorted_runs(
            [(key, version, plain(group, value)) for key, version, value in written],
            StreamsGroupTargetAssignmentMemberKey,
        )
        for group, written in group_records(data).items()
        if group != "probe"
    }


def plain(group: str, value: Any) -> Any:
    """Replace times by 1, or by 0 if they are not set; return the value.

    The metadata hash of group CREATES is replaced too: the hash covers topic ids, and the topics of
    this group have other ids in our broker than in Kafka.
    """
    match value:
        case StreamsGroupTargetAssignmentMetadataValue():
            value.assignment_timestamp = int(value.assignment_timestamp > 0)
        case StreamsGroupMetadataValue() if group == CREATES:
            value.metadata_hash = int(value.metadata_hash != 0)
        case OffsetCommitValue():
            value.commit_timestamp = int(value.commit_timestamp > 0)
    return value


def test_the_records_are_kafkas(used: Used) -> None:
    """The records of all groups equal Kafka's, except times and one hash of group CREATES."""
    ours, theirs = records(used.ours), records(used.kafka.data)
    assert ours.keys() == theirs.keys() == {*GROUPS, "deleted"}
    for group, written in theirs.items():
        assert ours[group] == written, group


def test_the_groups_are_described_as_by_kafka(used: Used) -> None:
    """At the end, epochs, states, topologies, tasks and targets are equal."""
    for group in GROUPS:
        assert used.our_groups[group] == used.their_groups[group], group


def test_kafkas_dump_tool_reads_ours(used: Used) -> None:
    """Kafka's `--offsets-decoder` reads our offsets and every record type of streams groups."""
    logs = sorted((used.ours / OFFSETS).glob("*.log"))
    shown = dump_log_segments(logs, "--offsets-decoder")
    assert set(map(int, re.findall(r'key: \{"type":"?(\d+)', shown))) == {1, 2, *RECORD_TYPES}


def test_we_find_kafkas_groups(used: Used, tmp_path: Path) -> None:
    """Our broker loads the groups from a copy of Kafka's directory."""
    data = tmp_path / "data"
    copy_topics(used.kafka.data, data, (*SCRIPT.topics, *CREATED, "__consumer_offsets"))
    with Broker(SETTINGS, data_dir=data) as broker:
        find(broker.bootstrap_servers, used.their_groups)


def test_kafka_finds_our_groups(used: Used) -> None:
    """Kafka loads the groups from our log."""
    give_our_logs(used, OFFSETS)
    used.kafka.start()
    find(used.kafka.bootstrap_servers, used.our_groups)
    used.kafka.stop()


def find(bootstrap: str, groups: dict[str, Any]) -> None:
    """Check that the broker describes `groups`, and that the next heartbeat changes no assignment.

    Kafka shows the partition counts of internal topics only after the next record.
    """
    cluster = Cluster(bootstrap)
    expected = {group: uncounted(shown) for group, shown in groups.items()}
    assert describe(cluster) == expected
    stable = [group for group in groups if is_stable(group, groups[group])]
    assert len(stable) > len(GROUPS) / 2
    wake(cluster, stable)
    for group in stable:
        assert uncounted(cluster.describe(group)) == expected[group], group


def is_stable(group: str, shown: dict[str, Any]) -> bool:
    """Return whether a group is Stable, and its topics have the same ids in both brokers."""
    return group != CREATES and shown["state"] == "Stable"
