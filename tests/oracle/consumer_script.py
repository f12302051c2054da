"""Scripted members of consumer groups, and all their requests to a broker, ours or Kafka's.

Every request is answered before the next is sent, so that both brokers write the same records.
"""

from __future__ import annotations

from typing import Any

from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.errors import ErrorCode
from tests.oracle.group_script import GroupCluster
from tests.support import wait_for

TOPICS = {"one": 1, "three": 3, "grows": 2}
GROWN = 4
LONG_MS = 600_000
GROUPS = (
    "moves",
    "statics",
    "away",
    "expressions",
    "topicless",
    "assignors",
    "grows",
    "waits",
    "expires",
    "from-offsets",
    "left",
)
"""The groups that exist at the end of the script."""


class Cluster(GroupCluster):
    """One connection to a broker, for requests about its consumer groups."""

    def create_topics(self) -> None:
        """Create the topics of the script and the offsets topic."""
        self.make_topics(TOPICS)

    def commit(self, group: str, member: str = "", epoch: int = -1) -> None:
        """Commit an offset for partition 0 of "one"."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequestTopic(name="one", partitions=[partition])
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[topic],
        )
        error = self.ask(request, 9).topics[0].partitions[0].error_code
        assert error == 0, ErrorCode(error).name

    def describe(self, group: str) -> dict[str, Any]:
        """Return the ConsumerGroupDescribe response without the order of its lists."""
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        shown = self.described(request, 1)
        return {
            "error": ErrorCode(shown.error_code).name,
            "listed": self.listed()[group],
            "committed": self.committed(group),
            "state": shown.group_state,
            "epochs": (shown.group_epoch, shown.assignment_epoch),
            "assignor": shown.assignor_name,
            "members": {
                one.member_id: (
                    one.instance_id,
                    one.rack_id,
                    one.member_epoch,
                    one.client_id,
                    one.client_host,
                    sorted(one.subscribed_topic_names),
                    one.subscribed_topic_regex,
                    _by_topic(one.assignment),
                    _by_topic(one.target_assignment),
                    one.member_type,
                )
                for one in shown.members
            },
        }


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    return {one.topic_name: sorted(one.partitions) for one in assignment.topic_partitions}


class ScriptedMember:
    """A member of one group that remembers its epoch and assignment."""

    def __init__(self, cluster: Cluster, group: str, name: str, **fields: Any) -> None:
        self._cluster = cluster
        self._group = group
        self.name = name
        self._instance_id: str | None = fields.pop("instance_id", None)
        self._fields = fields
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def send(self, **fields: Any) -> Any:
        """Send a heartbeat with only these fields; fail if it is refused."""
        fields = {"member_epoch": self.epoch, "instance_id": self._instance_id, **fields}
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.name, **fields)
        response = self._cluster.ask(request, 1)
        assert response.error_code == 0, (request, response)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                one.topic_id: list(one.partitions) for one in response.assignment.topic_partitions
            }
        return response

    def join(self, *topics: str, **fields: Any) -> ScriptedMember:
        """Join the group with a subscription to `topics`; return the member."""
        self.send(
            **{
                "member_epoch": 0,
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": list(topics),
                "topic_partitions": [],
                **self._fields,
                **fields,
            }
        )
        return self

    def own(self, **fields: Any) -> None:
        """Send a heartbeat that reports the assigned partitions as owned."""
        listed = [
            OwnedTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        ]
        self.send(topic_partitions=listed, **fields)

    def leave(self, epoch: int = -1) -> None:
        """Leave the group: permanently, or temporarily as a static member."""
        self.send(member_epoch=epoch)


def reconcile(*members: ScriptedMember, rounds: int = 3) -> None:
    """Let all members report their owned partitions, several times."""
    for _ in range(rounds):
        for member in members:
            member.own()


def use(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Run the whole script and return the descriptions of the groups."""

    def member(group: str, name: str, **fields: Any) -> ScriptedMember:
        return ScriptedMember(cluster, group, name, **fields)

    _move(cluster, member)
    _statics(member)
    _expressions(cluster, member)
    _ends(cluster, member)
    _settings(cluster, member)
    _growth(cluster, member)
    return describe(cluster)


def describe(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the descriptions of all groups, and check that no other group exists."""
    described = {group: cluster.describe(group) for group in GROUPS}
    assert cluster.listed().keys() == set(GROUPS)
    return described


def _move(cluster: Cluster, member: Any) -> None:
    """Move partitions, let a member leave meanwhile, and change all fields of a member."""
    a, b = member("moves", "a", rack_id="r"), member("moves", "b")
    a.join("three", "one")
    cluster.commit("moves", "a", a.epoch)
    b.join("three")
    a.send()
    a.own()
    b.own()
    b.leave()
    a.own(subscribed_topic_names=["three"], rebalance_timeout_ms=50_000)
    member("moves", "c").join("three")
    a.own()
    a.join("three", "one")
    a.own(server_assignor="range")

    votes = [("a", "range"), ("b", None), ("c", "range")]
    members = [member("assignors", name, server_assignor=one) for name, one in votes]
    for one in members:
        one.join("three")
        reconcile(*members[: members.index(one) + 1])
    member("topicless", "a").join()


def _statics(member: Any) -> None:
    """Replace a static member, with the same and another subscription; one stays away."""
    a = member("statics", "a", instance_id="i").join("three")
    other = member("statics", "z").join("three")
    reconcile(a, other)
    a.leave(-2)
    b = member("statics", "b", instance_id="i").join("three")
    reconcile(b, other)
    b.leave(-2)
    c = member("statics", "c", instance_id="i").join("three", "one")
    reconcile(c, other)
    away = member("away", "a", instance_id="i").join("three")
    other = member("away", "z").join("three")
    away.send()
    away.leave(-2)
    other.own()


def _expressions(cluster: Cluster, member: Any) -> None:
    """Resolve, share, change and drop regular expressions."""
    group = "expressions"
    a = member(group, "a", subscribed_topic_regex="t.*").join()
    _wait_for_epoch(cluster, group, 2)
    a.own()
    b = member(group, "b", subscribed_topic_regex="t.*").join("one")
    reconcile(a, b)
    a.own(subscribed_topic_regex="")
    b.own(subscribed_topic_regex="")
    a.own(subscribed_topic_regex="x.*")
    _wait_until_resolved(cluster, member)
    a.own(subscribed_topic_regex="y.*")
    _wait_until_resolved(cluster, member)
    a.leave()
    b.own(subscribed_topic_regex="o.*")
    _wait_for_epoch(cluster, group, cluster.describe(group)["epochs"][1] + 1)
    b.own()


def _ends(cluster: Cluster, member: Any) -> None:
    """Leave an empty group, delete a group, and join a group that only has offsets."""
    member("left", "a").join("three").leave()
    cluster.commit("left")
    deleted = member("deleted", "a").join("three")
    cluster.commit("deleted", "a", deleted.epoch)
    deleted.leave()
    cluster.delete_group("deleted")
    cluster.commit("from-offsets")
    member("from-offsets", "a").join("three")


def _settings(cluster: Cluster, member: Any) -> None:
    """Let a group wait for the next assignment, and let members of another group expire."""
    a = member("waits", "a").join("nowhere", "one")
    cluster.configure("waits", consumer_assignment_interval_ms=LONG_MS)
    a.send(subscribed_topic_names=["nowhere"])
    a.own(subscribed_topic_names=["elsewhere"])
    a.own(subscribed_topic_names=["neither"])
    member("waits", "b").join("three")

    a, b = (member("expires", name).join("three") for name in "ab")
    cluster.configure("expires", consumer_session_timeout_ms=1000)
    for one in (a, b):  # a new session timeout applies to a member from its next heartbeat on
        one.send()
        cluster.wait_until_gone("expires", one.name)
    cluster.configure("expires", consumer_session_timeout_ms=60_000)
    a = member("expires", "a", rebalance_timeout_ms=500).join("three")
    member("expires", "b").join("three")
    a.send()
    cluster.wait_until_gone("expires", "a")


def _growth(cluster: Cluster, member: Any) -> None:
    """Add partitions to a topic."""
    a = member("grows", "a").join("grows")
    cluster.grow("grows", GROWN)
    b = member("grows", "b").join("grows", "one")
    reconcile(a, b)


def _wait_for_epoch(cluster: Cluster, group: str, epoch: int) -> None:
    wait_for(lambda: cluster.describe(group)["epochs"][0] >= epoch, "the expressions are resolved")


def _wait_until_resolved(cluster: Cluster, member: Any) -> None:
    """Wait until all earlier expressions are resolved, by waiting for a new expression."""
    other = member("resolved", "a", subscribed_topic_regex="t.*").join()
    _wait_for_epoch(cluster, "resolved", 2)
    other.leave()
    cluster.delete_group("resolved")
