"""Pushed metrics: limits of the stored pushes, and of decompression."""

from __future__ import annotations

import gzip
import time

import pytest
import zstandard

from coordinator_server.config.config import Config
from coordinator_server.telemetry import telemetry as module
from coordinator_server.telemetry.payload import KeptPush, decompressed
from coordinator_server.telemetry.telemetry import Telemetry
from coordinator_server.topics.topic_configs import log_defaults
from protocol.compression import Compression, compress
from protocol.errors import ProtocolError
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk

COMPRESSED = [one for one in Compression if one is not Compression.NONE]


def kept(count: int, size_bytes: int) -> Telemetry:
    """Return telemetry with a push from each of `count` instances."""
    logs = LogManager.open(MemoryDisk(), "/data", log_defaults(Config()))
    telemetry = Telemetry(logs.catalogue, keeps_pushes=True)
    for number in range(count):
        push = KeptPush(
            {"client_instance_id": str(number)}, 1, 0, 1, False, Compression.NONE, bytes(size_bytes)
        )
        telemetry.keep(push)
    return telemetry


def test_the_oldest_pushes_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many pushes or bytes, the oldest pushes are dropped.

    A new push replaces the previous push of the same instance.
    """
    monkeypatch.setattr(module, "MOST_PUSHES", 3)
    assert list(kept(5, 1).pushes) == ["2", "3", "4"]
    monkeypatch.setattr(module, "MOST_PUSHED_BYTES", 25)
    telemetry = kept(5, 10)
    assert list(telemetry.pushes) == ["3", "4"]
    for _ in range(9):
        telemetry.keep(telemetry.pushes["3"])
    assert list(telemetry.pushes) == ["4", "3"]
    assert telemetry.pushes["3"].number == 10
    telemetry.clear()
    assert not telemetry.pushes


@pytest.mark.parametrize("compression", COMPRESSED)
def test_metrics_may_be_as_large_as_the_limit(compression: Compression) -> None:
    """Metrics may be exactly as large as the limit; larger metrics are refused quickly.

    This includes decompression bombs.
    """
    for count in (0, 1, 100_000):
        data = bytes(count)
        assert decompressed(compression, compress(compression, data), 100_000) == data
    with pytest.raises(ProtocolError):
        decompressed(compression, compress(compression, bytes(100_001)), 100_000)


def test_zstd_frames_of_many_small_blocks_are_read() -> None:
    """zstd frames are accepted by their actual size, even if their headers allow more."""
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = []
    for _ in range(20):
        parts += [
            compressor.compress(b"abc" * 9),
            compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        ]
    data = b"".join([*parts, compressor.flush()])
    assert decompressed(Compression.ZSTD, data, 1 << 20) == b"abc" * 180
    with pytest.raises(ProtocolError):
        decompressed(Compression.ZSTD, data, 500)


def test_many_empty_parts_take_no_time() -> None:
    """1 MB of empty gzip members is refused before all of it is read."""
    started = time.thread_time()
    with pytest.raises(ProtocolError, match="too many parts"):
        decompressed(Compression.GZIP, gzip.compress(b"") * 50_000, 1 << 20)
    assert time.thread_time() - started < 0.1
