"""A batch that takes long to validate does not delay the heartbeats of other connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.largest_requests import Case, heart, measured
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import batch_of_section, rebuilt_batch, record_bytes
from protocol.batch_header import LOG_APPEND_TIME
from protocol.compression import Compression, compress
from tests.clients.support import create_topic
from tests.machine import slowness
from tests.support import Broker

WORST_MS = 100
BOMB_BYTES = 100_000_000


def tiny_records() -> bytes:
    """Return 100 000 records in 1 MB whose sizes alternate, so that adjacent records differ."""
    count = 100_000
    section = b"".join(record_bytes(0, one, None, b"v" * (one & 1)) for one in range(count))
    return batch_of_section(section, count, 1).to_bytes()


def bomb(codec: Compression) -> bytes:
    """Return one record of 100 MB, compressed to less than 1 MB if the codec can."""
    whole = batch_of_section(record_bytes(0, 0, None, bytes(BOMB_BYTES)), 1, 1)
    payload = compress(codec, whole.body[40:])
    return rebuilt_batch(whole.header._replace(attributes=codec), payload).to_bytes()


def gzip_members() -> bytes:
    """Return one record after 45 000 empty gzip members."""
    whole = batch_of_section(record_bytes(0, 0, None, b"v"), 1, 1)
    payload = compress(Compression.GZIP, b"") * 45_000 + compress(Compression.GZIP, whole.body[40:])
    return rebuilt_batch(whole.header._replace(attributes=Compression.GZIP), payload).to_bytes()


def record_headers() -> bytes:
    """Return one record with 450 000 headers."""
    headers: list[tuple[str, bytes | None]] = [("", None)] * 450_000
    return batch_of_section(record_bytes(0, 0, None, b"v", headers), 1, 1).to_bytes()


def wrong_records() -> bytes:
    """Return 500 000 records with LogAppendTime but no timestamp, compressed to 400 bytes."""
    count = 500_000
    section = record_bytes(0, 0, None, b"") * count
    header = batch_of_section(section, count, 1).header._replace(
        attributes=Compression.ZSTD | LOG_APPEND_TIME, max_timestamp_ms=-1
    )
    return rebuilt_batch(header, compress(Compression.ZSTD, section)).to_bytes()


BATCHES: dict[str, Callable[[], bytes]] = {
    "100000 tiny records": tiny_records,
    "a gzip bomb": lambda: bomb(Compression.GZIP),
    "an lz4 bomb": lambda: bomb(Compression.LZ4),
    "a zstd bomb": lambda: bomb(Compression.ZSTD),
    "45000 gzip members": gzip_members,
    "450000 record headers": record_headers,
    "500000 wrong records": wrong_records,
}


@pytest.mark.alone
@pytest.mark.parametrize("name", BATCHES)
def test_heartbeats_are_answered_meanwhile(name: str) -> None:
    """Heartbeats take less than 100 ms on a quiet machine while a batch is validated."""
    data = PartitionProduceData(index=0, records=BATCHES[name]())
    request = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=60_000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    with Broker({"message.max.bytes": 4_000_000}) as broker, heart(broker) as probe:
        create_topic(broker.bootstrap_servers, "t", 1)
        case = Case("Produce", name, request, 9)
        # Repeat once, because a single late heartbeat may be noise of a busy machine.
        for _ in range(2):
            figure = measured(broker, probe, case)
            print(figure)
            if figure.worst_ms <= WORST_MS * slowness():
                break
        else:
            pytest.fail(str(figure))
        assert broker.log_lines("request.failed") == []
