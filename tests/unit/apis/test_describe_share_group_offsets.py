"""DescribeShareGroupOffsets: the share coordinator's start offsets, and the lag."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator_server.coordinator.share_persister import LocalSharePersister
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.steps import run_all
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from storage.errors import UnknownPartitionError
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS
from tests.harness.groups import GroupBroker
from tests.harness.records import batch
from tests.harness.simulated_persister import SimulatedPersister

GROUP = "g"
Asked = dict[str, list[int]] | None


def asked(group_id: str, topics: Asked) -> DescribeShareGroupOffsetsRequestGroup:
    """Return the entry of a group in a request: partitions by topic, or None for all topics."""
    if topics is None:
        return DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    return DescribeShareGroupOffsetsRequestGroup(
        group_id=group_id,
        topics=[
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )


class Described:
    """A broker whose topic `t` has 10 records in partition 0, and a share coordinator."""

    def __init__(self) -> None:
        self.broker = GroupBroker()
        self.state = SimulatedPersister()
        self.broker.shared.share_persister.built = cast("LocalSharePersister", self.state)
        self.topic = self.broker.topics.topic("t")
        assert self.topic is not None
        partition = self.broker.topics.partition("t", 0)
        assert partition is not None
        partition.append(batch(*[b"v"] * 10), START_MS)

    def keep(self, partition: int, start_offset: int, complete: int = 0) -> None:
        """Give the share coordinator a state of a partition of `t`."""
        assert self.topic is not None
        key = SharePartitionKey(GROUP, self.topic.topic_id, partition)
        self.state.states[key] = 1, start_offset
        self.state.complete_counts[key] = complete

    def ask(self, *groups: DescribeShareGroupOffsetsRequestGroup) -> Any:
        """Return the groups of the response."""
        request = DescribeShareGroupOffsetsRequest(groups=list(groups))
        return (self.broker.ask(request, 1)).groups

    def alter(self, partition: int, offset: int) -> None:
        """Set the group's start offset of a partition of `t`."""
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=partition, start_offset=offset
                    )
                ],
            )
        ]
        request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        assert not (self.broker.ask(request, 0)).error_code


def shown(group: Any) -> dict[str, dict[int, tuple[int, int, int, ErrorCode]]]:
    """Return by topic and partition: start offset, leader epoch, lag, error."""
    assert not group.error_code, group
    return {
        topic.topic_name: {
            one.partition_index: (
                one.start_offset,
                one.leader_epoch,
                one.lag,
                ErrorCode(one.error_code),
            )
            for one in topic.partitions
        }
        for topic in group.topics
    }


NOTHING = (-1, 0, -1, ErrorCode.NONE)


def test_partitions_that_are_named() -> None:
    """Named partitions have their lag if it is known; nonexistent partitions come last.

    The group need not exist.
    """
    t = Described()
    t.keep(0, 4, 2)
    t.keep(1, 0, -1)
    t.keep(2, -1, 0)
    answered = t.ask(asked(GROUP, {"nowhere": [3], "t": [0, 1, 2, 3, 9]}))
    assert shown(answered[0]) == {
        "t": {
            0: (4, 0, 4, ErrorCode.NONE),
            1: (0, 0, -1, ErrorCode.NONE),
            2: NOTHING,
            3: NOTHING,
            9: NOTHING,
        },
        "nowhere": {3: NOTHING},
    }
    known, unknown = answered[0].topics
    assert t.topic is not None
    assert (known.topic_id, unknown.topic_id) == (t.topic.topic_id, ZERO_UUID)
    only_unknown = t.ask(asked(GROUP, {"nowhere": [3]}))
    assert shown(only_unknown[0]) == {"nowhere": {3: NOTHING}}


def test_all_of_a_group() -> None:
    """Without named topics all initialized partitions of existing topics are returned."""
    t = Described()
    t.alter(0, 3)
    t.alter(2, 0)
    t.keep(1, 5)
    answered = t.ask(asked(GROUP, None), asked("none", None), asked("", None))
    assert shown(answered[0]) == {
        "t": {0: (3, 0, -1, ErrorCode.NONE), 2: (0, 0, -1, ErrorCode.NONE)}
    }
    assert [one.group_id for one in answered] == [GROUP, "none", ""]
    assert [shown(one) for one in answered[1:]] == [{}, {}]
    assert t.topic is not None
    run_all(t.broker.topics.delete([t.topic]))
    assert shown((t.ask(asked(GROUP, None)))[0]) == {}


def test_groups_that_are_no_share_groups() -> None:
    """A classic group has no initialized partitions."""
    t = Described()
    t.broker.join("c")
    assert shown((t.ask(asked("c", None)))[0]) == {}


def test_no_topics() -> None:
    """A request without topics is answered without a call to any coordinator."""
    t = Described()
    t.broker.groups.emigrate_all()
    answered = t.ask(asked(GROUP, {}))
    assert (answered[0].group_id, shown(answered[0])) == (GROUP, {})
    assert (t.ask()) == []


def test_a_group_that_is_not_here() -> None:
    """A group of another coordinator gets an error with a text, unless partitions are named."""
    t = Described()
    t.alter(0, 3)
    t.broker.groups.emigrate_all()
    everything, named = t.ask(asked(GROUP, None), asked(GROUP, {"t": [0]}))
    assert everything.error_code == ErrorCode.NOT_COORDINATOR
    assert everything.error_message == "This is not the correct coordinator."
    assert shown(named)["t"][0][0] == 3


@pytest.mark.parametrize(
    ("group_id", "topics"),
    [("", {"t": [0]}), (GROUP, {"t": []}), (GROUP, {"t": [0, -1]})],
)
def test_what_kafkas_persister_does_not_take(group_id: str, topics: Asked) -> None:
    """Values that Kafka's persister rejects fail the group with UNKNOWN_SERVER_ERROR."""
    t = Described()
    answered = t.ask(asked(group_id, topics))
    assert answered[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answered[0].error_message
    assert answered[0].topics == []


def test_errors_of_the_share_coordinator() -> None:
    """If the share coordinator returns an error, the start offset is -1, without an error code."""
    t = Described()
    t.keep(0, 4)
    assert t.topic is not None
    t.state.errors[t.topic.topic_id] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shown((t.ask(asked(GROUP, {"t": [0]})))[0]) == {"t": {0: NOTHING}}


def test_a_log_whose_end_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without a leader, or whose log cannot be read, has an error."""
    t = Described()
    t.keep(0, 4)
    t.keep(1, 4)
    first, second = (t.broker.topics.partition("t", one) for one in (0, 1))
    assert first is not None
    first.leader_id = -1

    def broken(_: object) -> None:
        raise UnknownPartitionError("gone")

    monkeypatch.setattr(type(second), "log", property(broken))
    answered = t.ask(asked(GROUP, {"t": [0, 1]}))
    assert shown(answered[0]) == {
        "t": {
            0: (0, 0, -1, ErrorCode.LEADER_NOT_AVAILABLE),
            1: (0, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        }
    }


def test_while_the_share_coordinator_thinks() -> None:
    """The response is sent once the offsets of all its partitions are known."""
    t = Described()
    t.keep(0, 4)
    t.state.hold()
    groups = [asked(GROUP, {"t": [0, 0]}), asked(GROUP, {"t": [1]})]
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    call: SentRequest = t.broker.send(request, 1)
    assert not call.replies
    t.state.let_go()
    answered = call.replies[0].groups
    assert [len(one.topics[0].partitions) for one in answered] == [2, 1]


def test_a_group_that_cannot_answer() -> None:
    """An exception in the group fails the whole request."""
    t = Described()
    t.alter(0, 3)
    group: Any = t.broker.groups.tasks[GROUP].group
    group.states = 5
    request = DescribeShareGroupOffsetsRequest(groups=[asked(GROUP, None)])
    call = t.broker.send(request, 1)
    assert call.failed
