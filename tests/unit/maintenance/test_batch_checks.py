"""Batches that a worker thread checks: what happens to a request and its broker meanwhile."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from json import loads

import pytest

from coordinator_server import cluster
from coordinator_server.apis import produce
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
from tests.unit.coordinator.fakes import settle
from tests.unit.coordinator.transaction_broker import TransactionBroker
from tests.unit.maintenance.test_flusher import ManualFlusher, codes
from tests.unit.nodes import Nodes
from tests.unit.topics.fakes import DATA, START_MS, FakeBroker, FakeCall, batch

COUNT = MOST_RECORDS + 1
LONG = batch(*[b"v"] * COUNT)
WAIT_SECONDS = 20.0


def broker_with(flusher: Flusher) -> FakeBroker:
    """A broker with topics "t" and "u", one partition each."""
    broker = FakeBroker()
    broker.log_manager.use(flusher)
    for name in ("t", "u"):
        broker.topics.create(name, 1, {})
    return broker


def produced(broker: FakeBroker, **records: bytes) -> FakeCall:
    """One request with a batch for each of these topics; the call, perhaps unanswered."""
    return broker.call(produce.handle, request(**records), 9)


def request(**records: bytes) -> ProduceRequest:
    """A request with a batch for each of these topics."""
    return ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=one)])
            for name, one in records.items()
        ],
    )


def errors(call: FakeCall) -> list[int]:
    """The error code of each topic."""
    (response,) = call.replies
    return [one.partition_responses[0].error_code for one in response.responses]


def partition_of(broker: FakeBroker, name: str = "t") -> Partition:
    """The partition of a topic."""
    topic = broker.topics.topic(name)
    assert topic is not None
    return topic.partitions[0]


async def test_the_request_goes_on_after_the_check() -> None:
    """Batches before and after the long ones are stored once, each answer is in its place."""
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
    # What the log does with the time happens when the batch is appended.
    assert log.segments[0].created_ms == START_MS + 1_000
    call = produced(broker, t=LONG, u=LONG)
    for end_offsets in ((COUNT, 1), (2 * COUNT, 1), (2 * COUNT, COUNT + 1)):
        assert end_offsets == tuple(broker.topics.log(name, 0).log_end_offset for name in "tu")
        await flusher.run_checks()
    assert errors(call) == [0, 0]


async def test_a_partition_that_a_request_names_twice() -> None:
    """Each of its batches is stored, the long one and the one after it."""
    flusher = ManualFlusher()
    broker = broker_with(flusher)
    asked = request(t=LONG)
    asked.topic_data += request(t=batch(b"a")).topic_data
    call = broker.call(produce.handle, asked, 9)
    await flusher.run_checks()
    assert errors(call) == [0, 0]
    assert broker.topics.log("t", 0).log_end_offset == COUNT + 1


async def test_a_topic_that_is_deleted_during_the_check() -> None:
    """Its partition is unknown, and the other batches of the request are answered as stored."""
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
    """The new one has other configs: the batch is checked once more."""
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
    """The batch is refused: it would begin a transaction that nobody ends (KIP-890)."""
    broker = TransactionBroker()
    flusher = ManualFlusher()
    broker.log_manager.use(flusher)
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
    call = broker.send("Produce", asked, version)
    broker.scheduler.turn()
    assert len(flusher.checks) == 1
    assert broker.end(producer, commits=False).error_code == 0
    await flusher.run_checks()
    broker.scheduler.turn()
    assert errors(call) == [ErrorCode.INVALID_TXN_STATE]
    assert not partition_of(broker).log.producers.has_open_transaction(producer_id, epoch)


# --- the end of the broker ------------------------------------------------------------------------


async def test_nothing_is_appended_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that ends after the logs are closed writes nothing into the clean directory."""
    flusher = ManualFlusher()
    monkeypatch.setattr(cluster, "Flusher", lambda _: flusher)
    nodes = await Nodes(None, 1).start()
    nodes.cluster.topics.create("t", 1, {})
    call = nodes.send(1, "Produce", request(t=LONG), 9)
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
    """Have checks of batches go on until they are cancelled; an event that says they began."""
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
    """The one under way and those that wait for the thread; nobody is called."""
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
    """A check that does nothing, and does not know that it is cancelled."""

    is_cancelled = False

    def run(self) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("ends_before", [False, True])
async def test_nobody_is_called_after_the_stop(ends_before: bool) -> None:
    """Whether the check has ended before it, with the loop not there yet, or ends later."""
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
    """It does not wait for the batch, which is not stored in the topic of after it."""
    began = held_check(monkeypatch)
    nodes = await Nodes(None, 1).start()
    nodes.cluster.topics.create("t", 1, {})
    call = nodes.send(1, "Produce", request(t=LONG), 9)
    assert began.wait(WAIT_SECONDS)
    assert nodes.cluster.busy_with(with_groups=True) == "a long request"
    await nodes.cluster.reset()
    assert nodes.cluster.busy_with(with_groups=True) == ""
    await settle()
    assert not call.replies
    assert not NEVER_CANCELLED
    await nodes.cluster.stop()


def slow_batch(count: int) -> bytes:
    """Records in two sizes in turn and before 1970, which are read one by one."""
    section = b"".join(record_bytes(0, one, b"k", b"v" * (one & 1)) for one in range(count))
    return batch_of_section(section, count, -1).to_bytes()


def test_a_check_that_is_cancelled_ends_soon() -> None:
    """It looks at each RECORDS_PER_LOOK records."""
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
    """Several threads that compute would hold up the loop; there is none before the first check."""
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
    """A lack of memory is KAFKA_STORAGE_ERROR with its reason; a bug is raised in the loop."""

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
    """The partition alone gets KAFKA_STORAGE_ERROR."""

    def check(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(topic_module, "check_client_batch", check)
    flusher = ManualFlusher()
    call = produced(broker_with(flusher), u=batch(b"a"), t=LONG)
    await flusher.run_checks()
    assert errors(call) == [0, ErrorCode.KAFKA_STORAGE_ERROR]


# --- what is told ---------------------------------------------------------------------------------


def test_a_batch_that_cannot_be_decompressed_is_in_the_log() -> None:
    """Once in ten seconds for a partition: the client gets no reason, and comes again."""
    broker = FakeBroker()
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
