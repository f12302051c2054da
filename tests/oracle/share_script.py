"""Scripted members of share groups, and all their requests to a broker, ours or Kafka's.

Every request is answered before the next is sent, and the script waits for the group coordinator's
requests to the share coordinator, so that both brokers write the same records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.apis.share_fetch import ACCEPT, GAP, RECORD_LIMIT, REJECT, RELEASE, RENEW
from protocol.apis.share_group_describe import ShareGroupDescribeRequest
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from tests.harness.share_states import summary_request
from tests.oracle.group_script import GroupCluster
from tests.oracle.share_reader import Acquired, Reader, joined
from tests.support import wait_for

TOPICS = {"one": 1, "three": 3, "grows": 2, "gone": 1}
GROWN = 4
BATCHES = (5, 1, 4)
"""Number of records in each batch of every partition."""
END = sum(BATCHES)
DELIVERY_LIMIT = 5
LONG_LOCK_MS = 60_000
SHARE_KEY = 2

GROUPS = (
    "moves",
    "subscribes",
    "reads",
    "batches",
    "poison",
    "locks",
    "latest",
    "held",
    "apart",
    "altered",
    "from-offsets",
    "forgotten",
    "expires",
    "left",
    "nowhere",
    "grows",
    "gone",
)
"""The groups that exist at the end of the script."""

SPREAD = ("moves", "subscribes", "expires", "grows")
"""Groups whose members share partitions; the assignment depends on hashes of topic ids."""
LEFT = {
    "reads one-0": [(4, 4, 3), (7, 7, 2)],
    "batches three-1": [(4, 5, 2), (6, 9, 1)],
    "poison one-0": [(1, 1, 5), (2, 4, 4), (5, 9, 1)],
    "locks one-0": [(2, 4, 4)],
    "latest one-0": [],
    "held one-0": [(0, 1, 2), (4, 9, 2)],
    "apart one-0": [(2, 4, 3), (7, 9, 2)],
    "altered three-0": [(2, 2, 2), (4, 9, 2)],
    "altered three-1": [(7, 9, 1)],
    "from-offsets one-0": [(4, 9, 1)],
}
"""Records still delivered at the end, where these are not all records for the first time."""
EARLIEST = (*(one for one in GROUPS if one != "latest"), "deleted")


class Cluster(GroupCluster):
    """One connection to a broker, for requests about its share groups."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._partition_counts = dict(TOPICS)

    def create_topics(self) -> None:
        """Create the topics of the script with records, and the internal topics."""
        self.make_topics(TOPICS)
        for name, count in TOPICS.items():
            for partition in range(count):
                self._produce(name, partition)

    def _produce(self, topic: str, partition: int) -> None:
        for count in BATCHES:
            now_ms = int(time.time() * 1000)
            records = [Record(offset, now_ms, None, b"value") for offset in range(count)]
            data = PartitionProduceData(index=partition, records=build_batch(records).to_bytes())
            request = ProduceRequest(
                acks=-1,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            )
            (answer,) = self.client.ask(request, 9).responses[0].partition_responses
            assert answer.error_code == 0, answer

    def prepare(self) -> None:
        """Wait for the share coordinator, then set the group configs.

        A group whose early request to the share coordinator fails retries only much later.
        """
        for name, count in TOPICS.items():
            self.wait_until_shared(name, count)
        self.configure(*EARLIEST, share_auto_offset_reset="earliest")

    def wait_until_shared(self, topic: str, count: int) -> None:
        """Wait until the share coordinator knows `count` partitions of a topic."""
        topic_id = self.topic_id(topic)
        key = f"g:{uuid_to_text(topic_id)}:0"
        find = FindCoordinatorRequest(coordinator_keys=[key], key_type=SHARE_KEY)
        summary = summary_request(topic_id, *range(count), leader_epoch=-1)
        wait_for(lambda: not self.client.ask(find, 6).coordinators[0].error_code, "coordinator")

        def is_known() -> bool:
            answers = self.client.ask(summary, 1).results[0].partitions
            return not any(one.error_code for one in answers)

        wait_for(is_known, "the share coordinator knows the topic")
        self._partition_counts[topic] = count

    def wait_until_initialized(self, group: str, *topics: str) -> None:
        """Wait until the state of all partitions of these topics is initialized."""

        def is_so() -> bool:
            found = self.offsets(group)
            return all(
                sum(name == topic for name, _ in found) == self._partition_counts[topic]
                for topic in topics
            )

        wait_for(is_so, f"{group} has initialized {topics}")

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[int, int, int, int]]:
        """Return start offset, leader epoch, lag and error of each partition."""
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        shown = self.described(DescribeShareGroupOffsetsRequest(groups=[wanted]), 1)
        return {
            (topic.topic_name, one.partition_index): (
                one.start_offset,
                one.leader_epoch,
                one.lag,
                one.error_code,
            )
            for topic in shown.topics
            for one in topic.partitions
        }

    def describe(self, group: str) -> dict[str, Any]:
        """Return ShareGroupDescribe and DescribeShareGroupOffsets responses with sorted lists."""
        shown = self.described(ShareGroupDescribeRequest(group_ids=[group]), 1)
        return {
            "error": ErrorCode(shown.error_code).name,
            "listed": self.listed()[group],
            "state": shown.group_state,
            "epochs": (shown.group_epoch, shown.assignment_epoch),
            "assignor": shown.assignor_name,
            "members": {
                one.member_id: (
                    one.rack_id,
                    one.member_epoch,
                    one.client_id,
                    one.client_host,
                    sorted(one.subscribed_topic_names),
                    {
                        topic.topic_name: shown_partitions(group, topic.partitions)
                        for topic in one.assignment.topic_partitions
                    },
                )
                for one in shown.members
            },
            "offsets": self.offsets(group),
        }

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set the share-group start offsets of these partitions."""
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets.items()
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
        answer = self.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)
        errors = [one.error_code for topic in answer.responses for one in topic.partitions]
        assert not answer.error_code, answer
        assert not any(errors), answer

    def delete_offsets(self, group: str, topic: str) -> None:
        """Delete a topic's offsets from a group."""
        wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
        answer = self.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted), 0)
        assert not answer.error_code, answer
        assert not any(one.error_code for one in answer.responses), answer


def shown_partitions(group: str, partitions: Iterable[int]) -> list[int]:
    """Return the sorted partitions; only their number for groups whose assignment is random."""
    listed = sorted(partitions)
    return [len(listed)] if group in SPREAD else listed


class ScriptedMember:
    """A member of one group that remembers its epoch."""

    def __init__(self, cluster: Cluster, group: str, name: str, **fields: Any) -> None:
        self._cluster = cluster
        self._group = group
        self.name = name
        self._fields = fields
        self.epoch = 0

    def send(self, **fields: Any) -> Any:
        """Send a heartbeat with only these fields; fail if it is refused."""
        fields = {"member_epoch": self.epoch, **fields}
        request = ShareGroupHeartbeatRequest(group_id=self._group, member_id=self.name, **fields)
        response = self._cluster.ask(request, 1)
        assert response.error_code == 0, (request, response)
        self.epoch = response.member_epoch
        return response

    def join(self, *topics: str, **fields: Any) -> ScriptedMember:
        """Join with these topics; the next heartbeat returns the assignment."""
        joining = {"member_epoch": 0, **self._fields, **fields}
        self.send(subscribed_topic_names=list(topics), **joining)
        self._cluster.wait_until_initialized(self._group, *(one for one in topics if one in TOPICS))
        self.send()
        return self

    def subscribe(self, *topics: str) -> None:
        """Change the subscription."""
        self.send(subscribed_topic_names=list(topics))
        self._cluster.wait_until_initialized(self._group, *topics)
        self.send()

    def leave(self) -> None:
        """Leave the group."""
        self.send(member_epoch=-1)


def use(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Run the whole script and return the descriptions of the groups."""

    def member(group: str, name: str, **fields: Any) -> ScriptedMember:
        return ScriptedMember(cluster, group, name, **fields)

    cluster.prepare()
    _move(member)
    _read(cluster, member)
    _deliver_again(cluster, member)
    _administer(cluster, member)
    _end(cluster, member)
    _change(cluster, member)
    return describe(cluster)


def describe(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the descriptions of all groups, and check that no other group exists."""
    described = {group: cluster.describe(group) for group in GROUPS}
    assert cluster.listed().keys() == set(GROUPS)
    return described


def remaining(cluster: Cluster) -> dict[str, Acquired]:
    """Return the records that each group still delivers, by group and partition."""
    cluster.configure(*EARLIEST, share_auto_offset_reset="earliest")
    return {
        f"{group} {topic}-{partition}": read_all(cluster, group, topic, partition)
        for group in GROUPS
        for topic, partition in sorted(cluster.offsets(group))
        if partition < TOPICS[topic]
    }


def read_all(cluster: Cluster, group: str, topic: str, partition: int) -> Acquired:
    """Acquire all available records without acknowledging them."""
    reader = Reader(cluster, group, f"last-{topic}-{partition}", topic, partition)
    acquired = reader.fetch()
    while acquired and acquired[-1][1] < END - 1 and (more := reader.fetch(max_wait_ms=1000)):
        acquired += more
    return joined(acquired)


def _move(member: Any) -> None:
    """Let members join, leave and change their subscriptions."""
    a, b = member("moves", "a", rack_id="r"), member("moves", "b")
    a.join("three")
    b.join("three")
    a.send()
    c = member("moves", "c").join("three")
    for one in (a, b, c):
        one.send()
    b.leave()
    a.send()
    c.send(rack_id="other")
    member("moves", "d").join("three")
    a.join("three")

    a = member("subscribes", "a").join("one", "three")
    b = member("subscribes", "b").join("one")
    a.subscribe("three")
    b.subscribe("three", "one")
    a.send()
    member("nowhere", "a").join("elsewhere")
    member("left", "a").join("three").leave()


def _read(cluster: Cluster, member: Any) -> None:
    """Send acknowledgements of every type, with and without a fetch."""
    member("reads", "a").join("one")
    reader = Reader(cluster, "reads", "a", "one")
    assert joined(reader.fetch()) == [(0, 9, 1)]
    reader.acknowledge((0, 1, ACCEPT), (2, 2, REJECT))
    assert reader.fetch((3, 4, RELEASE), (5, 5, ACCEPT)) == [(3, 4, 2)]
    reader.acknowledge((3, 4, [ACCEPT, RELEASE]), (6, 9, [GAP, RELEASE, REJECT, ACCEPT]))
    reader.close()

    member("batches", "a").join("three")
    reader, other = (Reader(cluster, "batches", name, "three", 1) for name in "ab")
    limited = {"max_records": 3, "share_acquire_mode": RECORD_LIMIT}
    assert reader.fetch(**limited) == [(0, 2, 1)]
    assert joined(other.fetch(**limited)) == [(3, 5, 1)]
    reader.acknowledge((1, 2, ACCEPT))
    reader.acknowledge((0, 0, RENEW), is_renew_ack=True)
    other.acknowledge((3, 3, ACCEPT))
    other.close()
    reader.acknowledge((0, 0, ACCEPT))
    reader.close()

    member("latest", "a").join("one")
    reader = Reader(cluster, "latest", "a", "one")
    reader.nothing()
    reader.close()


def _deliver_again(cluster: Cluster, member: Any) -> None:
    """Redeliver a poison record, records with expired locks, and unacknowledged records."""
    member("poison", "a").join("one")
    reader = Reader(cluster, "poison", "a", "one")
    counts: list[int] = []
    while max(counts, default=0) < DELIVERY_LIMIT:
        acquired = reader.fetch(max_records=5)
        counts += [count for _, _, count in acquired]
        reader.acknowledge(*((first, last, RELEASE) for first, last, _ in acquired))
    reader.close()

    # Only one lock must expire, so only this lock is short. No other step depends on timing.
    member("locks", "a").join("one")
    reader = Reader(cluster, "locks", "a", "one")
    assert reader.fetch(max_records=5) == [(0, 4, 1)]
    assert reader.fetch(max_records=5) == [(5, 9, 1)]
    reader.acknowledge((0, 4, RELEASE), (5, 9, ACCEPT))
    cluster.configure("locks", share_record_lock_duration_ms=1000)
    assert reader.fetch(max_records=5) == [(0, 4, 2)]
    cluster.configure("locks", share_record_lock_duration_ms=LONG_LOCK_MS)
    assert reader.fetch(max_records=5) == [(0, 4, 3)]
    reader.acknowledge((0, 1, ACCEPT), (2, 4, RELEASE))
    reader.close()

    cluster.configure("held", share_record_lock_duration_ms=LONG_LOCK_MS)
    member("held", "a").join("one")
    reader = Reader(cluster, "held", "a", "one")
    assert joined(reader.fetch()) == [(0, 9, 1)]
    reader.acknowledge((2, 3, ACCEPT))

    # The fourth write becomes a snapshot, so the update of offset 4 is not merged with the updates
    # of offsets 2 and 3.
    member("apart", "a").join("one")
    reader = Reader(cluster, "apart", "a", "one")
    assert joined(reader.fetch()) == [(0, 9, 1)]
    reader.acknowledge((0, 1, ACCEPT), (2, 4, RELEASE))
    assert joined(reader.fetch()) == [(2, 4, 2)]
    reader.acknowledge((5, 5, ACCEPT))
    reader.acknowledge((6, 6, ACCEPT))
    reader.acknowledge((2, 4, RELEASE))
    reader.close()


def _administer(cluster: Cluster, member: Any) -> None:
    """Alter and delete offsets, and delete a group."""
    a = member("altered", "a").join("three")
    reader = Reader(cluster, "altered", "a", "three")
    assert joined(reader.fetch()) == [(0, 9, 1)]
    reader.acknowledge((0, 4, ACCEPT), (5, 9, REJECT))
    reader.close()
    a.leave()
    cluster.alter_offsets("altered", "three", {0: 2, 1: 7})
    member("altered", "b").join("three")
    reader = Reader(cluster, "altered", "b", "three")
    assert joined(reader.fetch()) == [(2, 9, 1)]
    reader.acknowledge((3, 3, ACCEPT))
    reader.close()

    cluster.alter_offsets("from-offsets", "one", {0: 4})

    a = member("forgotten", "a").join("one", "three")
    reader = Reader(cluster, "forgotten", "a", "one")
    reader.fetch()
    reader.acknowledge((0, 9, ACCEPT))
    reader.close()
    a.leave()
    cluster.delete_offsets("forgotten", "one")

    a = member("deleted", "a").join("one")
    reader = Reader(cluster, "deleted", "a", "one")
    reader.fetch()
    reader.acknowledge((0, 9, ACCEPT))
    reader.close()
    a.leave()
    cluster.delete_group("deleted")


def _end(cluster: Cluster, member: Any) -> None:
    """Let the members of a group expire."""
    a, b = (member("expires", name).join("three") for name in "ab")
    cluster.configure("expires", share_session_timeout_ms=1000)
    for one in (a, b):  # a new session timeout applies to a member from its next heartbeat on
        one.send()
        cluster.wait_until_gone("expires", one.name)
    cluster.configure("expires", share_session_timeout_ms=60_000)
    member("expires", "b").join("three")


def _change(cluster: Cluster, member: Any) -> None:
    """Add partitions to a topic, and delete a topic."""
    a = member("grows", "a").join("grows")
    b = member("grows", "b").join("grows")
    cluster.grow("grows", GROWN)
    cluster.wait_until_shared("grows", GROWN)
    a.send()
    cluster.wait_until_initialized("grows", "grows")
    a.send()
    b.send()

    a = member("gone", "a").join("gone", "three")
    reader = Reader(cluster, "gone", "a", "gone")
    assert joined(reader.fetch()) == [(0, 9, 1)]
    reader.acknowledge((0, 4, ACCEPT))
    reader.close()
    cluster.delete_topic("gone")
    a.send()
    a.send()
