"""Share groups in both internal topics are interchangeable between our broker and Kafka.

The topics are `__consumer_offsets` and `__share_group_state`. The same requests to our broker and
to a Kafka with the same topics write the same records. Kafka's dump tool reads our records. A Kafka
with our logs describes the same groups and delivers the remaining records, and so does our broker
with Kafka's logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.share_group_records import (
    RECORD_TYPES,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from protocol.share_state_log import (
    ShareSnapshotValue,
    ShareStateValue,
    decode_share_state_key,
    decode_share_state_value,
    encode_share_state_value,
)
from tests.oracle.group_logs import (
    OFFSETS,
    Script,
    Used,
    Written,
    copy_topics,
    give_our_logs,
    group_records,
    log_records,
    use_both,
    with_sorted_runs,
)
from tests.oracle.kafka_process import dump_log_segments
from tests.oracle.share_script import (
    END,
    GROUPS,
    LEFT,
    TOPICS,
    Cluster,
    describe,
    remaining,
    shown_partitions,
    use,
)
from tests.support import Broker

pytestmark = pytest.mark.nightly

ALL = [(0, END - 1, 1)]
STATE = "__share_group_state-0"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "auto.create.topics.enable": "false",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.session.timeout.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "400",
    "group.share.min.record.lock.duration.ms": "1000",
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
            ShareGroupTargetAssignmentMemberKey,
        )
        for group, written in group_records(data).items()
    }


def plain(group: str, value: Any) -> Any:
    """Return a value without times and with sorted topics."""
    match value:
        case ShareGroupTargetAssignmentMetadataValue():
            value.assignment_timestamp = int(value.assignment_timestamp > 0)
        case ShareGroupTargetAssignmentMemberValue():
            in_order(group, value.topic_partitions)
        case ShareGroupCurrentMemberAssignmentValue():
            in_order(group, value.assigned_partitions)
        case ShareGroupStatePartitionMetadataValue():
            in_order("", value.initializing_topics)
            in_order("", value.initialized_topics)
            value.deleting_topics.sort(key=lambda one: one.topic_id)
    return value


def in_order(group: str, topics: list[Any]) -> None:
    """Sort topics by id, and replace their partitions by `shown_partitions`."""
    topics.sort(key=lambda one: one.topic_id)
    for topic in topics:
        topic.partitions = shown_partitions(group, topic.partitions)


def states(data: Path) -> dict[tuple[str, bytes, int], list[ShareStateValue | None]]:
    """Return the records of each share partition in log order, without times."""
    found: dict[tuple[str, bytes, int], list[ShareStateValue | None]] = {}
    for record in log_records(data, STATE):
        assert record.key is not None
        key, value = decode_share_state_key(record.key), None
        if record.value is not None:
            value, _ = decode_share_state_value(key, record.value)
            assert encode_share_state_value(value) == record.value
        if isinstance(value, ShareSnapshotValue):
            value.create_timestamp = int(value.create_timestamp > 0)
            value.write_timestamp = int(value.write_timestamp > 0)
        found.setdefault((key.group_id, key.topic_id, key.partition), []).append(value)
    return found


def test_the_records_of_groups_are_kafkas(used: Used) -> None:
    """The group records are equal except for times, including the metadata hashes."""
    ours, theirs = records(used.ours), records(used.kafka.data)
    assert ours.keys() == theirs.keys() == {*GROUPS, "deleted"}
    for group, written in theirs.items():
        assert ours[group] == written, group


def test_the_records_of_states_are_kafkas(used: Used) -> None:
    """The state records are equal except for times."""
    ours, theirs = states(used.ours), states(used.kafka.data)
    assert ours.keys() == theirs.keys()
    for place, written in theirs.items():
        assert ours[place] == written, place


def test_the_groups_are_described_as_by_kafka(used: Used) -> None:
    """At the end, epochs, states, assignments, start offsets and lags are equal."""
    for group in GROUPS:
        assert used.our_groups[group] == used.their_groups[group], group


def test_kafkas_dump_tool_reads_ours(used: Used) -> None:
    """Kafka's decoders of both topics read every record type of share groups."""
    logs = sorted((used.ours / OFFSETS).glob("*.log"))
    shown = dump_log_segments(logs, "--offsets-decoder")
    assert set(map(int, re.findall(r'key: \{"type":"?(\d+)', shown))) == set(RECORD_TYPES)
    logs = sorted((used.ours / STATE).glob("*.log"))
    shown = dump_log_segments(logs, "--share-group-state-decoder")
    assert set(re.findall(r'key: \{"type":"?(\d+)', shown)) == {"0", "1"}


def test_we_go_on_with_kafkas_groups(used: Used, tmp_path: Path) -> None:
    """Our broker continues with the groups from a copy of Kafka's directory."""
    data = tmp_path / "data"
    copy_topics(
        used.kafka.data, data, (*SCRIPT.topics, "__consumer_offsets", "__share_group_state")
    )
    with Broker(SETTINGS, data_dir=data) as broker:
        go_on(broker.bootstrap_servers, used.their_groups)


def test_kafka_goes_on_with_our_groups(used: Used) -> None:
    """Kafka continues with the groups from our logs."""
    give_our_logs(used, OFFSETS, STATE)
    used.kafka.start()
    go_on(used.kafka.bootstrap_servers, used.our_groups)
    used.kafka.stop()


def go_on(bootstrap: str, groups: dict[str, Any]) -> None:
    """Check that the groups are equal, and only unacknowledged records are delivered."""
    cluster = Cluster(bootstrap)
    assert describe(cluster) == groups
    delivered = remaining(cluster)
    assert delivered == dict.fromkeys(delivered, ALL) | LEFT
