"""Helpers of the tests of tools: a data directory, and running a tool."""

from __future__ import annotations

from pathlib import Path

from coordinator_server.cli import main
from protocol.compression import Compression
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.unit.storage.support import NOW_MS, TOPIC_ID, batch

SEGMENTS = Path(__file__).parents[2] / "data" / "segments"
OLDER_SEGMENTS = SEGMENTS.with_name("segments-4.1")
SEGMENT_NAMES = sorted(path.name for path in SEGMENTS.iterdir() if path.is_dir())
CODECS = list(Compression)
APPENDS = 60


def open_manager(directory: Path, **settings: str) -> LogManager:
    """Return the opened data directory on the real file system."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    defaults = LogConfig().overridden(named)
    return LogManager.open(LocalDisk(durable=False), str(directory), defaults, now_ms=NOW_MS)


def make_data_directory(directory: Path) -> None:
    """Create topic `t` of two partitions: all codecs, an idempotent producer, several segments."""
    manager = open_manager(directory, internal_segment_bytes="4096", index_interval_bytes="256")
    manager.create_topic("t", TOPIC_ID, 2, {})
    for number in range(APPENDS):
        for partition in (0, 1):
            data = batch(
                *(b"value-%d-%d" % (number, one) * 5 for one in range(3)),
                timestamp_ms=NOW_MS + number * 10,
                compression=CODECS[number % len(CODECS)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=number * 3,
            )
            manager.log("t", partition).append(data, NOW_MS)
    manager.close()


def run(*arguments: str | Path) -> int:
    """Run a tool as the command line does; return the exit code."""
    return main([str(argument) for argument in arguments])


def flip(path: Path, position: int) -> None:
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(bytes(data))
