"""Read how far Spark's streaming queries have read Kafka, from checkpoints or progress events.

Structured Streaming does not commit to a group. A checkpoint has `offsets/N` (the end of
micro-batch N) and `commits/N` (written when N is done). A progress event has the same end offsets
in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.sources.source import InputError

ProgressRow = tuple[str, str | None, str, int, int, int, int | None]


def read_progress(path: str) -> list[ProgressRow]:
    """Return rows of `schema.SPARK_PROGRESS` from a checkpoint folder or a file of JSON lines.

    Batches of a checkpoint that were planned but not done are left out. Raises InputError if the
    path is neither.
    """
    place = Path(path)
    if place.is_file():
        return list(_from_events(place))
    if not (place / "offsets").is_dir():
        raise InputError(f"--spark-checkpoint {path}: it is no checkpoint and no file of progress")
    return list(_from_checkpoint(place))


def _from_checkpoint(place: Path) -> Iterator[ProgressRow]:
    try:
        query_id = json.loads((place / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"--spark-checkpoint {place}: its metadata cannot be read") from error
    for path in sorted(place.glob("offsets/[0-9]*"), key=lambda path: int(path.name)):
        if not (place / "commits" / path.name).exists():
            continue
        lines = path.read_text().splitlines()[1:]  # the first line is the format version
        if not lines:
            continue
        timestamp_ms = _parsed(lines[0]).get("batchTimestampMs")
        for line in lines[1:]:
            for topic, partition, end in _offsets(_parsed(line)):
                yield query_id, None, topic, partition, int(path.name), end, timestamp_ms


def _from_events(place: Path) -> Iterator[ProgressRow]:
    for line in place.read_text().splitlines():
        event = _parsed(line)
        event = event.get("progress", event)
        if "id" not in event or "batchId" not in event:
            continue
        timestamp_ms = None
        if "timestamp" in event:
            timestamp_ms = round(datetime.fromisoformat(event["timestamp"]).timestamp() * 1000)
        for source in event.get("sources", ()):
            ends = source.get("endOffset")
            ends = _parsed(ends) if isinstance(ends, str) else ends
            for topic, partition, end in _offsets(ends or {}):
                name = event.get("name")
                yield event["id"], name, topic, partition, event["batchId"], end, timestamp_ms


def _parsed(line: str) -> dict[str, Any]:
    """Parse a JSON object; return {} for other text, such as `-` for a source without offsets."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _offsets(said: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and offset of a Kafka source (`{"topic": {"0": 12}}`).

    Offsets of other kinds of sources have another form and are left out.
    """
    for topic, partitions in said.items():
        if isinstance(partitions, dict):
            for partition, end in partitions.items():
                if partition.isdigit() and isinstance(end, int):
                    yield topic, int(partition), end
