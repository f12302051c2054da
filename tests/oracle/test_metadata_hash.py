"""The metadata hashes in the unit tests are the hashes of Kafka's own class."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.kafka_process import SECONDS, java
from tests.unit.core.groups.consumer.hashed_topics import CASES, Hashed

PROGRAM = Path(__file__).with_name("MetadataHash.java")


@pytest.mark.nightly
def test_the_hashes_are_kafkas() -> None:
    """The hashes are equal, including topics with racks and names beyond the basic plane."""
    lines = "".join(json.dumps(to_json(case)) + "\n" for case in [Hashed([], {}, 0), *CASES])
    done = subprocess.run(
        java(str(PROGRAM)), input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert [*map(int, done.stdout.split())] == [0, *(case.hashed for case in CASES)]


def to_json(case: Hashed) -> list[dict[str, Any]]:
    """Return a case as the Java program reads it."""
    return [
        {
            "name": topic.name,
            "id": [
                int.from_bytes(half, "big", signed=True)
                for half in (topic.topic_id[:8], topic.topic_id[8:])
            ],
            "racks": [
                [case.racks[one] for one in partition.replicas] if case.racks else []
                for partition in topic.partitions
            ],
        }
        for topic in case.topics
    ]
