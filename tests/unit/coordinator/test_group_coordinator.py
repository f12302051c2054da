"""Requests to group tasks: routing, one record batch for several requests, and failures."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.coordinator.offsets_partition import OffsetsPartition
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.net.call import Call
from coordinator_server.steps import run_all
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.list_groups import ListGroupsRequest
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from protocol.hashing import partition_for
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from tests.harness.client import SentRequest
from tests.harness.groups import (
    GroupBroker,
    commit_request,
    join_request,
)


def refuse(*_: object, **__: object) -> None:
    """Replace a log method by a failure of the disk."""
    raise StorageError("the disk is gone")


def log_of(broker: GroupBroker, group: str) -> Any:
    """Return the partition log that holds a group."""
    return broker.topics.log(OFFSETS_TOPIC, partition_for(group, 4))


def test_the_records_of_one_drain_are_one_batch() -> None:
    """Commits that wait in the mailbox together are written as one batch in Kafka's format."""
    broker = GroupBroker()
    calls = [broker.send(commit_request("g", offset)) for offset in (1, 2, 3)]
    broker.turn()
    assert all(call.replies for call in calls)
    log = log_of(broker, "g")
    (header,) = iterate_batches(log.read(0, 1 << 20))
    assert header.record_count == 3
    assert (header.producer_id, header.base_sequence) == (-1, 0)
    assert broker.committed("g") == 3


def test_an_answer_waits_for_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that the log refuses gets the matching coordinator error and changes nothing."""
    broker = GroupBroker()
    assert broker.commit("g", 5) == ErrorCode.NONE
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "append_own", refuse)
        assert broker.commit("g", 6) == ErrorCode.NOT_COORDINATOR
    assert broker.committed("g") == 5
    assert broker.commit("g", 6) == ErrorCode.NONE


def test_the_offsets_topic_may_be_deleted() -> None:
    """Deleting the offsets topic ends its groups with NOT_COORDINATOR for their members.

    New groups start in a new offsets topic.
    """
    broker = GroupBroker()
    broker.join("g")
    parked = broker.send(join_request("g"), 3)
    broker.turn()
    topic = broker.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    assert broker.committed("g") == -1
    assert broker.commit("g", 3) == ErrorCode.NONE
    assert broker.committed("g") == 3


def test_groups_come_back_from_the_log() -> None:
    """After a restart a group has its generation, members, assignment and offsets."""
    broker = GroupBroker()
    member_id = broker.join("g")
    assert broker.commit("simple", 7) == ErrorCode.NONE
    broker.groups.stop()
    broker.logs.close()

    again = GroupBroker(broker.disk)
    again.turn()
    request = DescribeGroupsRequest(groups=["g"])
    (described,) = (again.ask(request)).groups
    assert described.group_state == "Stable"
    assert [one.member_id for one in described.members] == [member_id]
    assert described.members[0].member_assignment == b"mine"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert (again.ask(heartbeat)).error_code == ErrorCode.NONE
    assert again.committed("simple") == 7


def test_while_a_partition_loads_its_groups_are_asked_to_wait() -> None:
    """While a partition loads, requests get COORDINATOR_LOAD_IN_PROGRESS, but heartbeats NONE.

    A heartbeat without an error keeps members from rejoining.
    """
    broker = GroupBroker()
    member_id = broker.join("g")
    broker.groups.stop()
    broker.logs.close()

    again = GroupBroker(broker.disk)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    heartbeat = again.send(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id))
    assert heartbeat.replies[0].error_code == ErrorCode.NONE
    assert again.send(join_request("g")).replies[0].error_code == loading
    commit = again.send(commit_request("g", 1)).replies[0]
    assert commit.topics[0].partitions[0].error_code == loading
    assert again.send(ListGroupsRequest()).replies[0].error_code == loading
    again.turn()
    listed = again.ask(ListGroupsRequest())
    assert [(one.group_id, one.group_state) for one in listed.groups] == [("g", "Stable")]


def test_a_bug_costs_one_request_and_the_group_is_loaded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug fails its request; the group is reloaded and keeps its offsets.

    Parked requests get NOT_COORDINATOR.
    """
    broker = GroupBroker()
    broker.join("g")
    assert broker.commit("other", 9) == ErrorCode.NONE
    parked = broker.send(join_request("g"), 3)
    broker.turn()
    assert not parked.answered

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(GroupMetadata, "check_member", broken)
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="x")])
        failed = broker.send(request)
        broker.turn()
    assert failed.failed
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    (described,) = (broker.ask(DescribeGroupsRequest(groups=["g"]))).groups
    assert described.group_state == "Stable"
    assert broker.committed("other") == 9


def test_a_bug_behind_the_append_fails_only_what_it_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug after a write fails the request; the group continues with the stored state."""
    broker = GroupBroker()
    sound = GroupMetadata.replay_offsets
    bugs = [ZeroDivisionError()]

    def broken_once(group: GroupMetadata, records: Any) -> None:
        if bugs:
            raise bugs.pop()
        sound(group, records)

    monkeypatch.setattr(GroupMetadata, "replay_offsets", broken_once)
    failed = broker.send(commit_request("simple", 4))
    broker.turn()
    assert failed.failed
    assert broker.committed("simple") == 4
    assert broker.commit("simple", 5) == ErrorCode.NONE


def test_an_answer_that_cannot_be_sent_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A response that cannot be sent fails its own request; other requests are answered."""
    broker = GroupBroker()
    assert broker.commit("g", 1) == ErrorCode.NONE
    calls = [broker.send(commit_request("g", offset)) for offset in (2, 3, 4)]
    sound, broken = Call.reply, [calls[1].connection]

    def cannot_be_sent(call: Any, response: Any) -> None:
        if call.connection in broken:
            broken.clear()
            raise ZeroDivisionError
        sound(call, response)

    monkeypatch.setattr(Call, "reply", cannot_be_sent)
    broker.turn()
    assert [call.failed for call in calls] == [False, True, False]
    assert all(call.answered for call in calls)
    assert broker.committed("g") == 4


def test_an_answer_may_lead_to_the_end_of_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a response leads to the end of its group, every commit is answered exactly once.

    Here the reply deletes the offsets topic.
    """
    broker = GroupBroker()
    assert broker.commit("g", 1) == ErrorCode.NONE
    topic = broker.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    calls = [broker.send(commit_request("g", offset)) for offset in (2, 3, 4)]
    sound = Call.reply

    def reply_and_go_on(call: Any, response: Any) -> None:
        sound(call, response)
        if call.connection is calls[0].connection:
            run_all(broker.topics.delete([topic]))

    monkeypatch.setattr(Call, "reply", reply_and_go_on)
    broker.turn()
    assert [len(call.replies) for call in calls] == [1, 1, 1]
    assert not any(call.failed for call in calls)


def test_a_group_that_cannot_be_put_back_answers_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a group cannot be reloaded after a bug, every request gets an error at once."""
    broker = GroupBroker()
    broker.join("g")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(GroupMetadata, "check_commit", broken)
    monkeypatch.setattr(OffsetsPartition, "reload", broken)
    first = broker.send(commit_request("g", 1))
    second = broker.send(DescribeGroupsRequest(groups=["g"]))
    broker.turn()
    later = broker.send(DescribeGroupsRequest(groups=["g"]))
    assert first.failed
    assert second.failed
    assert later.failed


def test_a_bug_in_one_of_many_groups_fails_the_request_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DescribeGroups with one broken group is answered exactly once."""
    broker = GroupBroker()
    assert broker.commit("good", 1) == ErrorCode.NONE
    assert broker.commit("bad", 1) == ErrorCode.NONE
    monkeypatch.delattr(broker.groups.tasks["bad"].group, "membership")
    call = broker.send(DescribeGroupsRequest(groups=["bad", "good", "none"]))
    broker.turn()
    errors = {one.error_code for one in call.response.groups}
    assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_deleted_group_leaves_no_task() -> None:
    """DeleteGroups ends the group's task; the group can be created again."""
    broker = GroupBroker()
    assert broker.commit("g", 1) == ErrorCode.NONE
    request = DeleteGroupsRequest(groups_names=["g", "g", "none"])
    results = (broker.ask(request)).results
    assert [(one.group_id, one.error_code) for one in results] == [
        ("g", ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert not broker.groups.tasks
    assert broker.committed("g") == -1
    assert broker.commit("g", 2) == ErrorCode.NONE


def test_what_follows_a_deletion_at_once_meets_no_dead_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit handled right after the response of DeleteGroups creates the group again."""
    broker = GroupBroker()
    assert broker.commit("g", 1) == ErrorCode.NONE
    followed: list[SentRequest] = []

    def reply(_: object, response: object) -> None:
        monkeypatch.undo()
        followed.append(broker.send(commit_request("g", 2)))

    monkeypatch.setattr(Call, "reply", reply)
    broker.send(DeleteGroupsRequest(groups_names=["g"]))
    broker.turn()
    assert followed[0].replies[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert broker.committed("g") == 2


def test_the_offsets_of_a_deleted_topic_go() -> None:
    """Deleting a topic drops its offsets in every group; the groups stay."""
    broker = GroupBroker()
    assert broker.commit("g", 1) == ErrorCode.NONE
    topic = broker.topics.topic("t")
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    broker.turn()
    assert broker.committed("g") == -1
    assert "g" in broker.groups.tasks


def test_old_offsets_expire() -> None:
    """The periodic check drops offsets older than offsets.retention.minutes, then the group."""
    broker = GroupBroker(offsets_retention_minutes="1")
    assert broker.commit("g", 1) == ErrorCode.NONE
    broker.groups.expire_offsets()
    broker.turn()
    broker.turn()
    assert broker.committed("g") == 1
    broker.clock.time_ms += 60_000
    broker.groups.expire_offsets()
    broker.turn()
    broker.turn()
    assert not broker.groups.tasks


def test_stopping_answers_what_is_parked() -> None:
    """On a stop parked joins get NOT_COORDINATOR, later requests COORDINATOR_NOT_AVAILABLE."""
    broker = GroupBroker(group_initial_rebalance_delay_ms="3000")
    parked = broker.send(join_request("g"), 3)
    broker.turn()
    assert not parked.answered
    broker.groups.stop()
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    late = broker.send(join_request("g"), 3)
    assert late.replies[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_partition_that_cannot_be_read_stops_only_its_own_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups of an unreadable partition get NOT_COORDINATOR; groups of other partitions work."""
    broker = GroupBroker()
    assert partition_for("a", 4) != partition_for("b", 4)
    assert broker.commit("a", 1) == ErrorCode.NONE
    assert broker.commit("b", 1) == ErrorCode.NONE
    broker.groups.stop()
    broker.logs.close()

    again = GroupBroker(broker.disk)
    log = log_of(again, "a")

    monkeypatch.setattr(type(log), "read", _only_for(log, refuse, type(log).read))
    again.turn()
    assert again.commit("a", 2) == ErrorCode.NOT_COORDINATOR
    assert again.committed("b") == 1


def _only_for(one: Any, broken: Any, sound: Any) -> Any:
    """Return a method that is broken for one object."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        chosen = broken if self is one else sound
        return chosen(self, *arguments, **options)

    return method


def test_garbage_makes_no_group() -> None:
    """Member requests to unknown groups leave neither a task nor a record."""
    broker = GroupBroker()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    unknown = (broker.ask(heartbeat)).error_code
    assert unknown == ErrorCode.UNKNOWN_MEMBER_ID
    joined = broker.ask(join_request("g", "m"))
    assert joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not broker.groups.tasks
    assert log_of(broker, "g").log_end_offset == 0


def test_a_group_that_cannot_be_put_back_is_in_no_snapshot() -> None:
    """A partition with a broken group gets no snapshot and is loaded from its log.

    After the restart all committed offsets are available.
    """
    disk = MemoryDisk()
    broker = GroupBroker(disk, offsets_topic_num_partitions="1")
    assert broker.commit("g", 42) == ErrorCode.NONE
    assert broker.commit("h", 7) == ErrorCode.NONE
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GroupMetadata, "check_commit", refuse)
        patched.setattr(OffsetsPartition, "reload", refuse)
        call = broker.send(commit_request("g", 43))
        broker.turn()
    assert call.failed
    broker.groups.stop()
    broker.topics.close()
    again = GroupBroker(disk, offsets_topic_num_partitions="1")
    again.turn()
    assert [again.committed(group) for group in ("g", "h")] == [42, 7]
