"""Batch checks in a worker thread, and other changes of the broker meanwhile."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from json import loads

import pytest

from coordinator_server.cluster_reset import reset
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.flusher import Flusher
from coordinator_server.steps import run_all
from coordinator_server.topics import topic as topic_module
from coordinator_server.topics.topic import BatchCheck, Partition
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import batch_of_section, record_bytes
from protocol.batch_header import CRC_START, FLAGS_POSITION
from protocol.compression import Compression
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from storage.append_check import check_client_batch
from storage.errors import InvalidRecordError, StorageError
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.record_check import MOST_RECORDS, RECORDS_PER_LOOK, CancelledCheckError
from tests.harness.broker import DATA, MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS, settle
from tests.harness.nodes import Nodes
from tests.harness.records import batch
from tests.harness.transactions import TransactionBroker
from tests.unit.maintenance.flushers import ManualFlusher, codes

COUNT = MOST_RECORDS + 1
LONG = batch(*[b"v"] * COUNT)
WAIT_SECONDS = 20.0


def broker_with(flusher: Flusher) -> MemoryBroker:
    """Return a broker with topics "t" and "u", one partition each."""
    broker = MemoryBroker()
    broker.logs.use(flusher)
    for name in ("t", "u"):
        broker.topics.create(name, 1, {})
    return broker


def produced(broker: MemoryBroker, **records: bytes) -> SentRequest:
    """Send a request with a batch for each of these topics; return the call."""
    return broker.send(request(**records), 9)


def request(**records: bytes) -> ProduceRequest:
    """Return a request with a batch for each of these topics."""
    return ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=one)])
            for name, one in records.items()
        ],
    )


def errors(call: SentRequest) -> list[int]:
    """Return the error code of each topic."""
    (response,) = call.replies
    return [one.partition_responses[0].error_code for one in response.responses]


def partition_of(broker: MemoryBroker, name: str = "t") -> Partition:
    """Return the partition of a topic."""
    topic = broker.topics.topic(name)
    assert topic is not None
    return topic.partitions[0]


async def test_the_request_goes_on_after_the_check() -> None:
    """After a long batch check the request continues, and results keep the request's order."""
    flusher = ManualFlusher()
    broker = broker_with(flusher)
    call = produced(broker, u=batch(b"a"), t=LONG)
    assert not call.replies
    assert broker.topics.log("u", 0).log_end_offset == 1
    broker.clock.time_ms += 1_000
    await flusher.run_checks()
    assert errors(call) == [0, 0]
    log = broker.topics.log("t", 0)
    assert log.log_end_offset == COUNT
    # Effects that depend on the time happen at the append, not at the check.
    assert log.segments[0].created_ms == START_MS + 1_000
    call = produced(broker, t=LONG, u=LONG)
    for end_offsets in ((COUNT, 1), (2 * COUNT, 1), (2 * COUNT, COUNT + 1)):
        assert end_offsets == tuple(broker.topics.log(name, 0).log_end_offset for name in "tu")
        await flusher.run_checks()
    assert errors(call) == [0, 0]


async def test_a_partition_that_a_request_names_twice() -> None:
    """If a partition is named twice, both batches are stored, although the first is long."""
    flusher = ManualFlusher()
    broker = broker_with(flusher)
    asked = request(t=LONG)
    asked.topic_data += request(t=batch(b"a")).topic_data
    call = broker.send(asked, 9)
    await flusher.run_checks()
    assert errors(call) == [0, 0]
    assert broker.topics.log("t", 0).log_end_offset == COUNT + 1


async def test_a_topic_that_is_deleted_during_the_check() -> None:
    """If a topic is deleted during the check, its partition gets UNKNOWN_TOPIC_OR_PARTITION.

    The other batches are stored.
    """
    flusher = ManualFlusher()
    broker = broker_with(flusher)
    call = produced(broker, u=batch(b"a"), t=LONG)
    topic = broker.topics.topic("t")
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    await flusher.run_checks()
    assert errors(call) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert partition_of(broker, "u").known_log_start_offset == 0
    assert topic.partitions[0].known_log_start_offset == -1


async def test_a_topic_that_is_created_again_during_the_check() -> None:
    """A batch for a topic that is recreated during the check is checked again.

    The new topic may have other configs.
    """
    flusher = ManualFlusher()
    broker = broker_with(flusher)
    call = produced(broker, t=LONG)
    topic = broker.topics.topic("t")
    assert topic is not None
    run_all(broker.topics.delete([topic]))
    broker.topics.create("t", 1, {"max.message.bytes": "100"})
    await flusher.run_checks()
    assert errors(call) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert broker.topics.log("t", 0).log_end_offset == 0


@pytest.mark.parametrize("version", [11, 12])
async def test_a_transaction_that_ends_during_the_check(version: int) -> None:
    """If the transaction ends during the check, the batch is refused (KIP-890).

    Such a batch would open a transaction that no client ends.
    """
    broker = TransactionBroker()
    flusher = ManualFlusher()
    broker.logs.use(flusher)
    producer_id, epoch = producer = broker.init()
    assert broker.add(producer, 0) == 0
    long = batch(
        *[b"v"] * COUNT,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    asked = request(t=long)
    asked.transactional_id, asked.acks = "id", -1
    call = broker.send(asked, version)
    broker.turn()
    assert len(flusher.checks) == 1
    assert broker.end(producer, commits=False).error_code == 0
    await flusher.run_checks()
    broker.turn()
    assert errors(call) == [ErrorCode.INVALID_TXN_STATE]
    assert not partition_of(broker).log.producers.has_open_transaction(producer_id, epoch)


# --- broker stop ----------------------------------------------------------------------------------


async def test_nothing_is_appended_after_the_stop() -> None:
    """A check that ends after the logs have been closed appends nothing."""
    flusher = ManualFlusher()
    nodes = Nodes(None, 1, flusher=flusher)
    nodes.cluster.topics.create("t", 1, {})
    call = nodes.send(request(t=LONG), 9, node_id=1)
    assert len(flusher.checks) == 1
    await nodes.cluster.stop()
    contents = nodes.disk.listdir(DATA)
    await flusher.run_checks()
    assert not call.replies
    assert nodes.disk.listdir(DATA) == contents
    logs = LogManager.open(nodes.disk, DATA, LogConfig(), node_id=nodes.cluster.node_ids[0])
    assert logs.clean_start
    assert logs.log("t", 0).log_end_offset == 0


NEVER_CANCELLED: list[int] = []


def held_check(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make batch checks run until they are cancelled; return an event that is set at the start."""
    NEVER_CANCELLED.clear()
    began, never = threading.Event(), threading.Event()

    def check(*_: object, is_cancelled: Callable[[], bool], **__: object) -> None:
        began.set()
        for _look in range(int(WAIT_SECONDS * 1000)):
            if is_cancelled():
                raise CancelledCheckError
            never.wait(0.001)
        NEVER_CANCELLED.append(1)

    monkeypatch.setattr(topic_module, "check_client_batch", check)
    return began


async def test_a_stop_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop cancels running and queued checks without calling their callbacks."""
    began = held_check(monkeypatch)
    flusher = Flusher(asyncio.get_running_loop())
    broker = broker_with(flusher)
    calls = [produced(broker, t=LONG), produced(broker, u=LONG)]
    assert began.wait(WAIT_SECONDS)
    assert flusher.is_checking
    flusher.close()
    while any(one.name.startswith("check") for one in threading.enumerate()):
        await asyncio.sleep(0)
    await settle()
    assert not any(call.replies for call in calls)
    assert not NEVER_CANCELLED
    assert not flusher.is_checking


class NoCheck:
    """A check that does nothing and ignores cancellation."""

    is_cancelled = False

    def run(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("ends_before", [False, True])
async def test_nobody_is_called_after_the_stop(ends_before: bool) -> None:
    """After a stop no callback is called, whether a check has ended before or ends later."""
    flusher = ManualFlusher()
    called: list[int] = []
    flusher.check(NoCheck(), lambda: called.append(1))
    ((_, future),) = flusher.checks
    if ends_before:
        future.set_result(None)
    flusher.close()
    if not ends_before:
        future.set_result(None)
    await settle()
    assert not called


async def test_a_reset_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset cancels the checks, and the batch is not stored in a topic created afterwards."""
    began = held_check(monkeypatch)
    nodes = Nodes(None, 1, flusher=Flusher(asyncio.get_running_loop()))
    nodes.cluster.topics.create("t", 1, {})
    call = nodes.send(request(t=LONG), 9, node_id=1)
    assert began.wait(WAIT_SECONDS)
    assert nodes.cluster.busy_with(with_groups=True) == "a long request"
    await reset(nodes.cluster)
    assert nodes.cluster.busy_with(with_groups=True) == ""
    await settle()
    assert not call.replies
    assert not NEVER_CANCELLED
    await nodes.cluster.stop()


def slow_batch(count: int) -> bytes:
    """Return a batch that is slow to check: alternating record sizes, timestamps before 1970."""
    section = b"".join(record_bytes(0, one, b"k", b"v" * (one & 1)) for one in range(count))
    return batch_of_section(section, count, -1).to_bytes()


def test_a_check_that_is_cancelled_ends_soon() -> None:
    """A running check looks for a cancellation every RECORDS_PER_LOOK records."""
    looks: list[int] = []

    def is_cancelled() -> bool:
        looks.append(1)
        return len(looks) == 3

    config = LogConfig(max_message_bytes=1 << 30)
    records = slow_batch(3 * RECORDS_PER_LOOK)
    with pytest.raises(CancelledCheckError):
        check_client_batch(records, config, START_MS, "t", 0, is_cancelled=is_cancelled)
    assert len(looks) == 3


# --- threads --------------------------------------------------------------------------------------


async def test_one_thread_checks_and_syncs_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread runs the checks, separate from syncs, and starts with the first check.

    Several computing threads would delay the event loop.
    """
    began = held_check(monkeypatch)
    flusher = Flusher(asyncio.get_running_loop())
    broker = broker_with(flusher)
    produced(broker, t=batch(b"v"))
    assert not any(one.name.startswith("check") for one in threading.enumerate())
    calls = [produced(broker, t=LONG) for _ in range(6)]
    assert began.wait(WAIT_SECONDS)
    assert sum(one.name.startswith("check") for one in threading.enumerate()) == 1
    for _ in range(6):
        assert flusher.submit(lambda: None).result(WAIT_SECONDS) is None
    flusher.cancel_checks()
    while flusher.is_checking:
        await asyncio.sleep(0)
    assert not any(call.replies for call in calls)
    flusher.close()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (OSError(12, "Cannot allocate memory"), StorageError),
        (MemoryError(), StorageError),
        (InvalidRecordError("bad"), InvalidRecordError),
        (ZeroDivisionError("a bug"), ZeroDivisionError),
    ],
)
async def test_what_a_check_raises_is_told(
    raised: Exception, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lack of memory in a check becomes a StorageError; any other exception is raised unchanged."""

    def check(*_: object, **__: object) -> None:
        raise raised

    broker = broker_with(ManualFlusher())
    monkeypatch.setattr(topic_module, "check_client_batch", check)
    one = BatchCheck(partition_of(broker), LONG, START_MS)
    with suppress(type(raised)):
        one.run()
    with pytest.raises(expected) as caught:
        one.result()
    assert type(caught.value) is expected
    assert str(raised) in str(caught.value)
    assert str(caught.value)


async def test_a_check_without_memory_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a check runs out of memory, only its partition gets KAFKA_STORAGE_ERROR."""

    def check(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(topic_module, "check_client_batch", check)
    flusher = ManualFlusher()
    call = produced(broker_with(flusher), u=batch(b"a"), t=LONG)
    await flusher.run_checks()
    assert errors(call) == [0, ErrorCode.KAFKA_STORAGE_ERROR]


# --- log ------------------------------------------------------------------------------------------


def test_a_batch_that_cannot_be_decompressed_is_in_the_log() -> None:
    """A batch that cannot be decompressed is logged once in ten seconds per partition.

    The client gets no reason and retries.
    """
    broker = MemoryBroker()
    broker.topics.create("t", 1, {})
    records = bytearray(batch(b"v"))
    records[FLAGS_POSITION] |= Compression.GZIP
    struct.pack_into(">I", records, CRC_START - 4, crc32c(bytes(records[CRC_START:])))
    stream = StringIO()
    LOG.configure("json", stream=stream)
    try:
        calls = [produced(broker, t=bytes(records)) for _ in range(3)]
    finally:
        LOG.configure()
    assert [codes(call) for call in calls] == [[ErrorCode.UNKNOWN_SERVER_ERROR]] * 3
    (line,) = map(loads, stream.getvalue().splitlines())
    assert "cannot be decompressed" in line.pop("reason")
    del line["timestamp"]
    assert line == {
        "event": "batch.refused",
        "level": "warning",
        "topic": "t",
        "partition": 0,
        "client_id": "test",
    }
