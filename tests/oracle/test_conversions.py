"""Groups that change between the classic and the consumer protocol, in Kafka and in our broker.

The same members send the same requests to both brokers, which have the same topic. The records in
`__consumer_offsets` are equal batch by batch, and each broker loads the other's records.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinator_server.core.groups.records import encode_record
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import OffsetFetchRequest
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue, UnknownKey, decode_key, decode_value
from tests.faults.client import Client
from tests.oracle.kafka_process import Kafka
from tests.support import Broker, address_of

pytestmark = pytest.mark.nightly

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
OFFSETS = "__consumer_offsets-0"
PARTITIONS = 6
SESSION_MS = 300_000
TIMES = {"assignment_timestamp": 0, "current_state_timestamp": None, "commit_timestamp": None}
"""The time fields and the values that replace them; None stays.

Our broker gives a blank classic group no time.
"""

WAITS_SECONDS = 30

Batches = list[list[str]]
"""The records of each batch without order and times, with the names of members."""


class Talk:
    """The requests to one broker; `names` maps its member ids to names."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.names: dict[str, str] = {}
        self.client = Client(address_of(bootstrap))

    def find_coordinator(self) -> None:
        """Wait until the coordinator of the groups is available."""
        find = FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
        describe = DescribeGroupsRequest(groups=["g"])
        end = time.monotonic() + WAITS_SECONDS
        while (
            self.client.ask(find, 4).coordinators[0].error_code
            or self.client.ask(describe, 5).groups[0].error_code
        ):
            assert time.monotonic() < end
            time.sleep(0.05)


class Old:
    """A classic member on a separate connection."""

    def __init__(
        self, talk: Talk, name: str, group: str, *topics: str, instance: str | None = None
    ) -> None:
        self._client = Client(address_of(talk.bootstrap))
        self._talk, self._name, self._group, self._instance = talk, name, group, instance
        said = ConsumerProtocolSubscription(topics=list(topics or ("t",)))
        self._protocol = JoinGroupRequestProtocol(
            name="range", metadata=encode_subscription(said, 1)
        )
        self.id, self.generation = "", -1

    def ask_to_join(self) -> None:
        """Send JoinGroup."""
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[self._protocol],
        )
        self._client.send(request, 3 if self._instance is None else 5)

    def joined(self) -> None:
        """Receive the JoinGroup response."""
        answer = self._client.receive()
        assert not answer.error_code, ErrorCode(answer.error_code)
        self.id, self.generation = answer.member_id, answer.generation_id
        self._talk.names[self.id] = f"<{self._name}>"

    def join(self) -> None:
        """Send JoinGroup and receive the response."""
        self.ask_to_join()
        self.joined()

    def sync(self, given: dict[Old, list[int]] | None = None) -> None:
        """Send SyncGroup; the leader passes the assignments."""
        assignments = [
            SyncGroupRequestAssignment(member_id=member.id, assignment=assignment(partitions))
            for member, partitions in (given or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self._instance,
            assignments=assignments,
        )
        assert not self._client.ask(request, 3).error_code

    def wait_until_told(self) -> None:
        """Send heartbeats until a response asks the member to rejoin."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self._instance,
        )
        end = time.monotonic() + WAITS_SECONDS
        while self._client.ask(request, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert time.monotonic() < end
            time.sleep(0.01)

    def rejoin(self) -> None:
        """Rejoin after REBALANCE_IN_PROGRESS: join and sync."""
        self.wait_until_told()
        self.join()
        self.sync()

    def leave(self) -> None:
        """Send LeaveGroup."""
        request = LeaveGroupRequest(
            group_id=self._group, members=[MemberIdentity(member_id=self.id)]
        )
        assert not self._client.ask(request, 4).members[0].error_code

    def commit(self, partition: int, offset: int) -> None:
        """Send OffsetCommit."""
        topic = OffsetCommitRequestTopic(
            name="t",
            partitions=[
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            ],
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            group_instance_id=self._instance,
            topics=[topic],
        )
        (answered,) = self._client.ask(request, 8).topics
        assert not answered.partitions[0].error_code


class New:
    """A member of the consumer protocol."""

    def __init__(self, talk: Talk, name: str, group: str, instance: str | None = None) -> None:
        self._client, self._group, self._instance = talk.client, group, instance
        self.id, self.epoch = name, 0
        self._owned: list[OwnedTopicPartitions] = []

    def beat(self, **fields: Any) -> None:
        """Send ConsumerGroupHeartbeat with the owned partitions."""
        said = {"member_epoch": self.epoch, "topic_partitions": self._owned, **fields}
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self.id, instance_id=self._instance, **said
        )
        answer = self._client.ask(request, 1)
        assert not answer.error_code, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = [
                OwnedTopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                for one in answer.assignment.topic_partitions
            ]

    def join(self) -> None:
        """Join with a full heartbeat."""
        self.beat(
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=["t"],
            server_assignor="range",
            topic_partitions=[],
        )

    def leave(self) -> None:
        """Leave the group."""
        self.beat(member_epoch=-1)


def assignment(partitions: list[int]) -> bytes:
    """Return an assignment of partitions of "t"."""
    named = [TopicPartition(topic="t", partitions=partitions)]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named))


def use(talk: Talk) -> None:
    """Create groups that stay mixed, and groups that are converted there and back."""
    talk.find_coordinator()
    # Group g: two classic members, then an upgrade, then more members of both protocols. Instance
    # ids fix the order of members for the assignor.
    m, n = Old(talk, "m", "g", instance="m"), Old(talk, "n", "g", "t", "other", instance="n")
    m.join()
    m.sync({m: [0, 1, 2, 3, 4, 5]})
    n.ask_to_join()
    m.wait_until_told()
    m.join()
    n.joined()
    n_syncs = {m: [0, 1, 2], n: [3, 4, 5]}
    m.sync(n_syncs)
    n.sync()
    m.commit(0, 7)
    a = New(talk, "a", "g")
    a.join()
    m.rejoin()
    n.rejoin()
    a.beat()
    s = Old(talk, "s", "g", instance="i")
    s.join()
    s.sync()
    m.rejoin()
    again = Old(talk, "s2", "g", instance="i")
    again.join()
    again.sync()
    n.leave()
    # Group h: a classic group becomes a consumer group. After a member has left, the group is a
    # classic group again.
    m = Old(talk, "h-m", "h")
    m.join()
    m.sync({m: [0, 1, 2, 3, 4, 5]})
    a = New(talk, "h-a", "h")
    a.join()
    m.rejoin()
    m.commit(1, 9)
    a.leave()
    # Group i: an upgrade, then a static member downgrades the group without a rebalance.
    m = Old(talk, "i-m", "i")
    m.join()
    m.sync({m: [0, 1, 2, 3, 4, 5]})
    a = New(talk, "i-a", "i", instance="i")
    a.join()
    m.rejoin()
    a.beat()
    back = Old(talk, "i-b", "i", instance="i")
    back.join()
    back.sync()
    # Group e: an empty consumer group becomes a classic group.
    a = New(talk, "e-a", "e")
    a.join()
    a.leave()
    m = Old(talk, "e-m", "e")
    m.join()
    m.leave()


def batches(data: Path, names: dict[str, str]) -> Batches:
    """Return the batches of the offsets log; check that our codec encodes the same records."""
    found: Batches = []
    for path in sorted((data / OFFSETS).glob("*.log")):
        contents = path.read_bytes()
        for header in iterate_batches(contents):
            batch: list[str] = []
            for record in iterate_records(contents, header):
                assert record.key is not None
                key = decode_key(bytes(record.key))
                assert not isinstance(key, UnknownKey)
                value = decode_value(key, record.value)
                assert encode_record((key, value)) == (record.key, record.value), (key, value)
                for time_of, unknown in TIMES.items():
                    if getattr(value, time_of, unknown) != unknown:
                        setattr(value, time_of, 1)
                if isinstance(value, GroupMetadataValue):
                    value.members.sort(key=lambda member: names.get(member.member_id, ""))
                text = f"{key} {value}"
                for member_id, name in names.items():
                    text = text.replace(member_id, name)
                batch.append(text)
            found.append(sorted(batch))
    return found


def shown(bootstrap: str) -> list[str]:
    """Return the descriptions of the groups by a broker that has just loaded them."""
    talk = Talk(bootstrap)
    talk.find_coordinator()
    client = talk.client
    described = client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    classic = client.ask(DescribeGroupsRequest(groups=["h", "i", "e"]), 5).groups
    for group in (*described, *classic):
        group.members.sort(key=lambda member: str(member.member_id))
    listed = client.ask(ListGroupsRequest(), 5).groups
    offsets = [client.ask(OffsetFetchRequest(group_id=one, topics=None), 7) for one in "ghie"]
    return [*map(str, described), *map(str, classic), *sorted(map(str, listed)), *map(str, offsets)]


class Used(NamedTuple):
    """A stopped Kafka and our data directory after the same requests, and their descriptions."""

    kafka: Kafka
    ours: Path
    theirs: Talk
    to_us: Talk


def with_its_topic(kafka: Kafka, data: Path) -> Path:
    """Create a directory for our broker with a copy of Kafka's topic "t"."""
    for index in range(PARTITIONS):
        shutil.copytree(kafka.data / f"t-{index}", data / f"t-{index}")
    return data


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Used]:
    """Yield both brokers after the script; ours is killed, so that it describes its log."""
    kafka = Kafka(tmp_path_factory.mktemp("theirs"), SETTINGS)
    try:
        kafka.start()
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        created = Client(address_of(kafka.bootstrap_servers)).ask(request)
        assert not created.topics[0].error_code
        theirs = Talk(kafka.bootstrap_servers)
        use(theirs)
        kafka.stop()
        ours = with_its_topic(kafka, tmp_path_factory.mktemp("ours") / "data")
        with Broker(SETTINGS, data_dir=ours) as broker:
            to_us = Talk(broker.bootstrap_servers)
            use(to_us)
            broker.kill()
        yield Used(kafka, ours, theirs, to_us)
    finally:
        kafka.end()


def test_the_records_are_kafkas(used: Used) -> None:
    """The batches have the same records except for times, random ids and the order in a batch."""
    ours = batches(used.ours, used.to_us.names)
    theirs = batches(used.kafka.data, used.theirs.names)
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        assert our == their, number
    assert len(ours) == len(theirs)


def test_each_loads_what_the_other_has_written(used: Used, tmp_path: Path) -> None:
    """Our broker describes Kafka's log like Kafka, and Kafka describes our log like our broker."""
    kafka = used.kafka
    kafka.start()
    said_by_kafka = shown(kafka.bootstrap_servers)
    kafka.stop()
    data = with_its_topic(kafka, tmp_path / "data")
    shutil.copytree(kafka.data / OFFSETS, data / OFFSETS)
    with Broker(SETTINGS, data_dir=data) as broker:
        assert shown(broker.bootstrap_servers) == said_by_kafka
    with Broker(SETTINGS, data_dir=used.ours) as broker:
        said_by_us = shown(broker.bootstrap_servers)
    for path in (kafka.data / OFFSETS).iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for log in (used.ours / OFFSETS).glob("*.log"):
        shutil.copy(log, kafka.data / OFFSETS)
    for path in (*kafka.data.glob("*checkpoint"), kafka.data / ".kafka_cleanshutdown"):
        path.unlink(missing_ok=True)
    kafka.start()
    assert shown(kafka.bootstrap_servers) == said_by_us
    kafka.stop()
