"""Scripted members of streams groups, and all their requests to a broker, ours or Kafka's.

Every request is answered before the next is sent, so that both brokers write the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedTopology,
    StreamsGroupDescribeRequest,
)
from protocol.apis.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskIds,
    StreamsTopicInfo,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests.oracle.group_script import GroupCluster
from tests.support import wait_for

TOPICS = {
    "one": 1,
    "three": 3,
    "other-three": 3,
    "grows": 2,
    "stateful-part-repartition": 2,
    "stateful-store-changelog": 2,
    "standby-store-changelog": 3,
}
"""Topics by partition count.

The internal topics of two groups are included, so that their ids are equal on both brokers.
"""
CREATED = {"creates-part-repartition": 3, "creates-store-changelog": 3}
"""Internal topics that each broker creates itself, with different ids."""
GROWN = 4
CREATES = "creates"
GROUPS = (
    "moves",
    "processes",
    "standby",
    "stateful",
    CREATES,
    "waits",
    "delayed",
    "interval",
    "details",
    "expires",
    "late",
    "left",
    "from-offsets",
    "grows",
)
"""The groups that exist at the end of the script."""
KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")
REQUESTED = {"stateful-part-repartition": 2}
"""Internal topics for which the application requests a partition count."""
PROCESSES = {"a": "p", "b": "q", "c": "s"}
"""The process of each member.

These names keep their order in Kafka's hash tables, which decide ties.
"""
LEAVE = -1
LONG_MS = 600_000


def changelog(name: str, **fields: Any) -> StreamsTopicInfo:
    """Return an internal topic with topic configs."""
    configs = [
        StreamsKeyValue(key="cleanup.policy", value="compact"),
        StreamsKeyValue(key="min.compaction.lag.ms", value="5"),
    ]
    return StreamsTopicInfo(name=name, topic_configs=configs, **fields)


def topology(*subtopologies: StreamsSubtopology, epoch: int = 0) -> StreamsTopology:
    """Return a topology of these subtopologies."""
    return StreamsTopology(epoch=epoch, subtopologies=list(subtopologies))


def simple(*sources: str, **fields: Any) -> StreamsTopology:
    """Return a topology with one subtopology."""
    part = StreamsSubtopology(subtopology_id="0", source_topics=list(sources), **fields)
    return topology(part)


def two_parts(group: str) -> StreamsTopology:
    """Return a topology with copartitioned topics, a repartition topic, and a store."""
    repartition = f"{group}-part-repartition"
    together = CopartitionGroup(source_topics=[0, 1])
    first = StreamsSubtopology(
        subtopology_id="0",
        source_topics=["three", "other-three"],
        repartition_sink_topics=[repartition],
        copartition_groups=[together],
    )
    fixed = REQUESTED.get(repartition, 0)
    second = StreamsSubtopology(
        subtopology_id="1",
        repartition_source_topics=[StreamsTopicInfo(name=repartition, partitions=fixed)],
        state_changelog_topics=[changelog(f"{group}-store-changelog", replication_factor=1)],
    )
    return topology(second, first)


class Cluster(GroupCluster):
    """One connection to a broker, for requests about its streams groups."""

    def create_topics(self) -> None:
        """Create the topics of the script and the offsets topic, and wait for the coordinator."""
        self.make_topics(TOPICS)

    def prepare(self) -> None:
        """Wait until the coordinator knows the topics, which takes a moment."""
        probe = ScriptedMember(self, "probe", "a", simple(*TOPICS))

        def are_known() -> bool:
            return not probe.join().status

        wait_for(are_known, "the coordinator knows the topics", step_seconds=0.2)
        probe.leave()
        self.delete_group("probe")

    def commit(self, group: str, member: str = "", epoch: int = -1) -> None:
        """Commit an offset for partition 0 of "three"."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequestTopic(name="three", partitions=[partition])
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[topic],
        )
        error = self.ask(request, 9).topics[0].partitions[0].error_code
        assert error == 0, ErrorCode(error).name

    def described_group(self, group: str) -> DescribedStreamsGroup:
        """Return the StreamsGroupDescribe response."""
        shown = self.described(StreamsGroupDescribeRequest(group_ids=[group]), 0)
        assert isinstance(shown, DescribedStreamsGroup)
        return shown

    def describe(self, group: str) -> dict[str, Any]:
        """Return the StreamsGroupDescribe response without the order of its lists."""
        shown = self.described_group(group)
        return {
            "error": ErrorCode(shown.error_code).name,
            "listed": self.listed()[group],
            "committed": self.committed(group),
            "state": shown.group_state,
            "epochs": (shown.group_epoch, shown.assignment_epoch),
            "topology": _shown_topology(shown.topology),
            "members": {
                one.member_id: (
                    one.member_epoch,
                    one.instance_id,
                    one.rack_id,
                    one.client_id,
                    one.client_host,
                    one.topology_epoch,
                    one.process_id,
                    one.user_endpoint and (one.user_endpoint.host, one.user_endpoint.port),
                    {tag.key: tag.value for tag in one.client_tags},
                    _shown_tasks(one.assignment),
                    _shown_tasks(one.target_assignment),
                    one.is_classic,
                )
                for one in shown.members
            },
        }


def _shown_topology(shown: DescribedTopology | None) -> Any:
    if shown is None or shown.subtopologies is None:
        return shown
    return shown.epoch, {
        one.subtopology_id: (
            one.source_topics,
            one.repartition_sink_topics,
            _shown_topics(one.repartition_source_topics),
            _shown_topics(one.state_changelog_topics),
        )
        for one in shown.subtopologies
    }


def _shown_topics(topics: Iterable[Any]) -> dict[str, Any]:
    return {
        one.name: (
            one.partitions,
            one.replication_factor,
            {config.key: config.value for config in one.topic_configs},
        )
        for one in topics
    }


def _shown_tasks(assignment: Any) -> dict[str, dict[str, list[int]]]:
    return {kind: _by_subtopology(getattr(assignment, kind)) for kind in KINDS}


def _by_subtopology(tasks: Iterable[Any]) -> dict[str, list[int]]:
    return {one.subtopology_id: sorted(one.partitions) for one in tasks}


class ScriptedMember:
    """A member of one group that remembers its epoch and assigned tasks."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        name: str,
        wanted: StreamsTopology | None = None,
        **fields: Any,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self.name = name
        self._topology = wanted
        self._fields = fields
        self.epoch = 0
        self.owned: Mapping[str, Mapping[str, Sequence[int]]] = {kind: {} for kind in KINDS}

    def send(self, **fields: Any) -> Any:
        """Send a heartbeat with only these fields; fail if it is refused."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.name,
            **{"member_epoch": self.epoch, **fields},
        )
        response = self._cluster.ask(request, 0)
        assert response.error_code == 0, (request, response)
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.owned = {kind: _by_subtopology(getattr(response, kind)) for kind in KINDS}
        return response

    def join(self) -> Any:
        """Join with the topology and without tasks."""
        self.owned = {kind: {} for kind in KINDS}
        fields = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": self._topology,
            "process_id": PROCESSES[self.name],
            **self._fields,
        }
        return self.own(**fields)

    def own(self, **fields: Any) -> Any:
        """Send a heartbeat that reports the assigned tasks as owned."""
        listed = {
            kind: [
                StreamsTaskIds(subtopology_id=subtopology_id, partitions=list(partitions))
                for subtopology_id, partitions in tasks.items()
            ]
            for kind, tasks in self.owned.items()
        }
        return self.send(**listed, **fields)

    def leave(self) -> None:
        """Leave the group."""
        self.send(member_epoch=LEAVE)


def reconcile(*members: ScriptedMember, rounds: int = 3) -> None:
    """Let all members report their owned tasks, several times."""
    for _ in range(rounds):
        for member in members:
            member.own()


def use(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Run the whole script and return the descriptions of the groups."""

    def member(group: str, name: str, wanted: StreamsTopology, **fields: Any) -> ScriptedMember:
        return ScriptedMember(cluster, group, name, wanted, **fields)

    cluster.prepare()
    _move(cluster, member)
    _keep_state(cluster, member)
    _wait(cluster, member)
    _end(cluster, member)
    _grow(cluster, member)
    return describe(cluster)


def describe(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the descriptions of all groups, and check that no other group exists."""
    described = {group: cluster.describe(group) for group in GROUPS}
    assert cluster.listed().keys() == set(GROUPS)
    return described


def wake(cluster: Cluster, groups: Iterable[str]) -> None:
    """Send a heartbeat of one member per group, so that the topics are evaluated again.

    Group configs are not in the log, so they are set again.
    """
    cluster.configure("standby", streams_num_standby_replicas=2)
    for group in groups:
        one = cluster.described_group(group).members[0]
        woken = ScriptedMember(cluster, group, one.member_id)
        woken.epoch = one.member_epoch
        woken.send()


def uncounted(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's description in the form after loading, before topics are evaluated."""
    epoch, subtopologies = described["topology"]
    as_asked = {
        subtopology_id: (*one[:2], *map(_as_asked, one[2:]))
        for subtopology_id, one in subtopologies.items()
    }
    return {**described, "topology": (epoch, as_asked)}


def _as_asked(topics: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return internal topics with the partition counts that the application requests."""
    return {name: (REQUESTED.get(name, 0), *one[1:]) for name, one in topics.items()}


def _move(cluster: Cluster, member: Any) -> None:
    """Move tasks, let a member leave meanwhile, and change all fields of a member."""
    three = simple("three")
    a, b, c = (member("moves", name, three) for name in "abc")
    a.join()
    a.own()
    cluster.commit("moves", "a", a.epoch)
    b.join()
    a.send()
    a.own()
    b.own()
    c.join()
    reconcile(a, b, c)
    b.leave()
    a.own(rebalance_timeout_ms=50_000)
    c.own()
    a.join()
    a.own()

    a, b, c = (
        member("processes", name, simple("three", "other-three"), process_id=process)
        for name, process in (("a", "p"), ("b", "p"), ("c", "q"))
    )
    for one in (a, b, c):
        one.join()
        reconcile(*(a, b, c)[: (a, b, c).index(one) + 1])
    b.own(process_id="r")
    reconcile(a, b, c)

    endpoint = StreamsEndpoint(host="here", port=65535)
    tags = [StreamsKeyValue(key="zone", value="z"), StreamsKeyValue(key="rack", value="r")]
    a = member("details", "a", three, rack_id="r", user_endpoint=endpoint, client_tags=tags)
    a.join()
    a.own(client_tags=tags[:1])
    a.own(user_endpoint=StreamsEndpoint(host="there", port=1), rack_id="s")


def _keep_state(cluster: Cluster, member: Any) -> None:
    """Use stores with standby tasks, and internal topics that exist or must be created."""
    store = simple("three", state_changelog_topics=[changelog("standby-store-changelog")])
    cluster.configure("standby", streams_num_standby_replicas=1)
    a, b, c = (member("standby", name, store) for name in "abc")
    a.join()
    reconcile(a)
    b.join()
    reconcile(a, b)
    c.join()
    reconcile(a, b, c, rounds=4)
    cluster.configure("standby", streams_num_standby_replicas=0)
    reconcile(a, b, c)
    cluster.configure("standby", streams_num_standby_replicas=2)
    b.own()
    reconcile(a, b, c)

    a, b = (member("stateful", name, two_parts("stateful")) for name in "ab")
    a.join()
    reconcile(a)
    b.join()
    reconcile(a, b)

    a, b = (member(CREATES, name, two_parts(CREATES)) for name in "ab")
    a.join()
    wait_for(lambda: not a.own().status, "the internal topics are created", step_seconds=0.5)
    reconcile(a)
    b.join()
    reconcile(a, b)


def _wait(cluster: Cluster, member: Any) -> None:
    """Wait for topics, for the initial rebalance delay, and for the next assignment."""
    a = member("waits", "a", simple("three", "nowhere"))
    a.join()
    a.own()
    member("waits", "b", simple("three", "nowhere")).join()

    cluster.configure("delayed", streams_initial_rebalance_delay_ms=5000)
    a, b = (member("delayed", name, simple("three")) for name in "ab")
    a.join()
    b.join()
    wait_for(lambda: not a.own().status, "the first assignment", step_seconds=0.2)
    reconcile(a, b)

    cluster.configure("interval", streams_assignment_interval_ms=LONG_MS)
    a, b = (member("interval", name, simple("three")) for name in "ab")
    a.join()
    b.join()
    a.own()
    b.own()


def _end(cluster: Cluster, member: Any) -> None:
    """Let members expire and leave, delete a group, and start from a group with only offsets."""
    three = simple("three")
    a, b = (member("expires", name, three) for name in "ab")
    a.join()
    b.join()
    cluster.configure("expires", streams_session_timeout_ms=1500)
    for one in (a, b):  # a new session timeout applies to a member from its next heartbeat on
        one.send()
        cluster.wait_until_gone("expires", one.name)
    cluster.configure("expires", streams_session_timeout_ms=60_000)
    member("expires", "b", three).join()

    a = member("late", "a", three, rebalance_timeout_ms=500)
    a.join()
    a.own()
    b = member("late", "b", three)
    b.join()
    a.send()
    cluster.wait_until_gone("late", "a")
    b.own()

    a = member("left", "a", three)
    a.join()
    cluster.commit("left", "a", a.epoch)
    a.leave()
    deleted = member("deleted", "a", three)
    deleted.join()
    cluster.commit("deleted", "a", deleted.epoch)
    deleted.leave()
    cluster.delete_group("deleted")
    cluster.commit("from-offsets")
    member("from-offsets", "a", three).join()


def _grow(cluster: Cluster, member: Any) -> None:
    """Add partitions to a topic."""
    a, b = (member("grows", name, simple("grows")) for name in "ab")
    a.join()
    b.join()
    cluster.grow("grows", GROWN)
    reconcile(a, b)
