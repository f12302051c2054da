"""What creating a topic costs, by how many topics there are.

    python -m benchmarks.topics

Each request creates one topic in a data directory on the disk; one fsync belongs to it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.topic_catalogue import TopicRecord

EXISTING = (0, 1_000, 10_000, 100_000)
CREATED = 200


def create_us(directory: Path, existing: int) -> tuple[float, float]:
    """Microseconds of CPU, and of wall time, to create one topic where so many exist."""
    manager = LogManager.open(LocalDisk(), str(directory), LogConfig())
    topics = [_topic(f"e{number}") for number in range(existing)]
    manager.create_topics(topics)
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(CREATED):
        manager.create_topics([_topic(f"n{number}")])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    manager.close()
    return cpu / CREATED * 1e6, wall / CREATED * 1e6


def _topic(name: str) -> TopicRecord:
    return TopicRecord(name, name.encode().ljust(16, b"-"), 1, {})


def main() -> int:
    """Print the table."""
    print("\nexisting topics  CPU us per new topic  wall us")
    for existing in EXISTING:
        with tempfile.TemporaryDirectory() as directory:
            cpu, wall = create_us(Path(directory) / "data", existing)
        print(f"{existing:15}  {cpu:20.0f}  {wall:7.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
