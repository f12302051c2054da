"""Responses that wait for a sync: `flush.messages`, shared syncs, and failing disks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.maintenance.flusher import Flusher
from coordinator_server.steps import run_all
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from tests.harness.broker import DATA, MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS, settle
from tests.harness.groups import GroupBroker, commit_request
from tests.harness.records import batch
from tests.unit.maintenance.flushers import ManualFlusher, codes


def request(*partitions: int, acks: int = 1) -> ProduceRequest:
    """Return a request with one batch for each of these partitions of "t"."""
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in partitions]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )


def flushing_broker(disk: MemoryDisk | None = None) -> tuple[GroupBroker, ManualFlusher]:
    """Return a broker that syncs everything, and its flusher."""
    broker = GroupBroker(disk, log_flush_interval_messages="1")
    flusher = ManualFlusher()
    broker.logs.use(flusher)
    return broker, flusher


def send(broker: MemoryBroker, *partitions: int, acks: int = 1) -> SentRequest:
    """Produce to these partitions; return the call."""
    return broker.send(request(*partitions, acks=acks), 9)


async def test_the_answer_follows_the_sync() -> None:
    """A producer is answered when its records are synced, without blocking the loop."""
    disk = MemoryDisk()
    broker, flusher = flushing_broker(disk)
    call = send(broker, 0, 1)
    assert not call.replies
    assert len(flusher.jobs) == 2
    await flusher.work()
    assert codes(call) == [0, 0]
    disk.power_cut()
    again = MemoryBroker(disk)
    assert [again.topics.log("t", index).log_end_offset for index in (0, 1)] == [1, 1]


async def test_one_sync_serves_all_that_came_before_it() -> None:
    """All records appended during a sync share the next sync."""
    disk = MemoryDisk()
    broker, flusher = flushing_broker(disk)
    calls = [send(broker, 0) for _ in range(10)]
    assert len(flusher.jobs) == 1
    await flusher.work()
    assert [len(call.replies) for call in calls] == [1] + [0] * 9
    assert await flusher.work() == 1
    assert all(len(call.replies) == 1 for call in calls)
    assert not flusher.jobs


async def test_commits_wait_too() -> None:
    """A committed offset is synced before its response; a heartbeat does not wait."""
    broker, flusher = flushing_broker()
    call = broker.send(commit_request("g", 5))
    await settle()
    assert not call.replies
    while flusher.jobs:
        await flusher.work()
    assert call.replies[0].topics[0].partitions[0].error_code == 0


async def test_a_failed_sync_is_no_success() -> None:
    """A failed sync gives KAFKA_STORAGE_ERROR, or NOT_COORDINATOR for groups.

    Other partitions are not affected.
    """
    disk = MemoryDisk()
    broker, flusher = flushing_broker(disk)
    call = send(broker, 0, 1)
    disk.fail_at(0)
    await flusher.work()
    assert codes(call) == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert call.replies[0].responses[0].partition_responses[0].base_offset == -1
    commit = broker.send(commit_request("g", 5))
    await settle()
    disk.fail_at(0)
    await flusher.work()
    assert commit.replies[0].topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    retried = send(broker, 0)
    commit = broker.send(commit_request("g", 6))
    await settle()
    while flusher.jobs:
        await flusher.work()
    assert codes(retried) == [0]
    assert commit.replies[0].topics[0].partitions[0].error_code == 0
    assert broker.committed("g") == 6


async def test_acks_0_is_synced_as_well() -> None:
    """With acks=0 records are synced, although no response waits for the sync."""
    broker, flusher = flushing_broker()
    call = send(broker, 0, acks=0)
    assert call.ended_without_answer
    await flusher.work()
    log = broker.topics.log("t", 0)
    assert log.recovery_point == log.log_end_offset == 1


async def test_without_flush_messages_nobody_waits() -> None:
    """By default responses do not wait for a sync, which is left to the operating system."""
    broker = GroupBroker()
    flusher = ManualFlusher()
    broker.logs.use(flusher)
    assert codes(send(broker, 0)) == [0]
    assert not flusher.jobs


async def test_a_log_that_is_deleted_meanwhile() -> None:
    """If a log is deleted before its sync, the producer is still answered."""
    broker, flusher = flushing_broker()
    call = send(broker, 0)
    topic = broker.topics.topic("t")
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    await flusher.work()
    assert len(call.replies) == 1


async def test_threads_sync_for_real(tmp_path: Path) -> None:
    """With real threads and files every response arrives, and the files are synced."""
    flusher = Flusher(asyncio.get_running_loop())
    assert flusher.submit(lambda: None).result() is None
    told: list[StorageError | None] = []
    everyone = asyncio.Event()

    def done(error: StorageError | None) -> None:
        told.append(error)
        if len(told) == 20:
            everyone.set()

    manager = LogManager.open(LocalDisk(), str(tmp_path / "data"), LogConfig())
    manager.create_topic("t", bytes(16), 1, {})
    log = manager.log("t", 0)
    log.files.flushes_in_thread = True
    for _ in range(20):
        log.append(batch(b"v"), START_MS)
        flusher.when_flushed(log, done)
    await asyncio.wait_for(everyone.wait(), 20)
    assert told == [None] * 20
    assert log.recovery_point == 20
    flusher.close()
    manager.close()


@pytest.mark.parametrize("gone", ["file", "directory"])
async def test_a_log_whose_files_vanish_fails_alone(gone: str) -> None:
    """A log whose files were removed fails without affecting other logs."""
    disk = MemoryDisk()
    broker, flusher = flushing_broker(disk)
    call = send(broker, 0, 1)
    directory = f"{DATA}/t-0"
    # Let files be removed while they are open, as on Unix; MemoryDisk refuses this, like Windows.
    disk.open_files.clear()
    for name in disk.listdir(directory):
        if gone == "directory" or name.endswith(".log"):
            disk.unlink(f"{directory}/{name}")
    if gone == "directory":
        disk.rmdir(directory)
    await flusher.work()
    assert codes(call) == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


async def test_a_bug_does_not_answer_twice_what_waits_for_a_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit that waits for a sync is answered once; an exception fails only its own request."""
    broker, flusher = flushing_broker()
    calls = [broker.send(commit_request("g", 1))]
    await settle()
    while await flusher.work():
        pass
    check = GroupMetadata.check_commit

    def broken(group: GroupMetadata, request: OffsetCommitRequest, version: int) -> ErrorCode:
        if request.topics[0].partitions[0].committed_offset == 3:
            raise ZeroDivisionError
        return check(group, request, version)

    monkeypatch.setattr(GroupMetadata, "check_commit", broken)
    calls += [broker.send(commit_request("g", offset)) for offset in (2, 3)]
    await settle()
    assert [(len(call.replies), call.failed) for call in calls] == [
        (1, False),
        (0, False),
        (1, True),
    ]
    while await flusher.work():
        pass
    assert [(len(call.replies), call.failed) for call in calls] == [
        (1, False),
        (1, False),
        (1, True),
    ]


async def test_an_answer_that_raises_leaves_the_others_theirs() -> None:
    """A callback that raises does not prevent the other callbacks of a sync."""
    broker, flusher = flushing_broker()
    topic = broker.topics.topic("t")
    assert topic is not None
    log = topic.partitions[0].log
    told: list[int] = []

    def broken(_: StorageError | None) -> None:
        raise ZeroDivisionError

    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    topic.partitions[0].append(batch(b"v"), START_MS)
    flusher.when_flushed(log, broken)
    flusher.when_flushed(log, lambda _: told.append(1))
    await flusher.work()
    assert told == [1]
    assert [type(error) for error in errors] == [ZeroDivisionError]
