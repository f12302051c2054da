"""Read a log directory: partitions, segments, checkpoints, and retention if recorded.

Directories of Kafka and of this project's broker have the same layout; the latter also has topic
configs (`topics.json`). Nothing is written or locked, so a broker may be running on the directory.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

from pipeline.sources.source import InputError
from storage.checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    read_offsets,
    read_partition_metadata,
    read_properties,
    topic_id_text,
)
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.producer_state import ProducerState, snapshot_path
from storage.topic_catalogue import TopicCatalogue

OFFSETS_TOPIC = "__consumer_offsets"
EVENTS_TOPIC = "__group_events"
SHARE_TOPIC = "__share_group_state"
RETENTION = "retention.ms"

_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<number>\d+)")
_SEGMENT = re.compile(r"(?P<base>\d{20})\.log(\.swap)?")
_SWAP_TRIES = 5
_SWAP_WAIT_SECONDS = 0.02


class LogPartition(NamedTuple):
    """The directory of one partition."""

    topic: str
    number: int
    path: str


class SegmentFile(NamedTuple):
    """A segment file when it was listed; a changed `inode` means that it was replaced."""

    path: str
    base_offset: int
    size_bytes: int
    inode: int


def partitions_of(log_dir: str, topic: str) -> list[LogPartition]:
    """Return the partitions of a topic that have a directory, in numerical order.

    Raises InputError if the log directory is missing or has no partition.
    """
    return [partition for partition in all_partitions(log_dir) if partition.topic == topic]


def all_partitions(log_dir: str) -> list[LogPartition]:
    """Return all partitions with a directory, in order.

    Raises InputError if the log directory is missing or has no partition.
    """
    directory = Path(log_dir)
    if not directory.is_dir():
        raise InputError(f"--log-dir {log_dir}: there is no such directory")
    partitions = []
    for path in directory.iterdir():
        named = _PARTITION.fullmatch(path.name)
        if named is not None and path.is_dir():
            partitions.append(LogPartition(named["topic"], int(named["number"]), str(path)))
    if not partitions:
        raise InputError(f"--log-dir {log_dir}: no partition lies there (a folder such as TOPIC-0)")
    return sorted(partitions)


def check_log_dir(log_dir: str) -> None:
    """Raise InputError if the directory is missing or has no partition of the offsets topic."""
    if not partitions_of(log_dir, OFFSETS_TOPIC):
        raise InputError(f"--log-dir {log_dir}: no partition of {OFFSETS_TOPIC} lies there")


def cluster_id_of(log_dir: str) -> str | None:
    """Return the cluster id of `meta.properties`; None without the file or the id."""
    try:
        contents = (Path(log_dir) / META_PROPERTIES_FILE).read_bytes()
    except FileNotFoundError:
        return None
    return read_properties(contents).get("cluster.id") or None


def segments_of(partition: LogPartition) -> list[SegmentFile]:
    """Return the segments in order of offset; none if the directory is missing or empty.

    Compaction swaps a segment with two renames; a file that is missing between them is looked for
    again.
    """
    for _ in range(_SWAP_TRIES):
        try:
            return _list_segments(partition)
        except FileNotFoundError:
            time.sleep(_SWAP_WAIT_SECONDS)
    return []


def _list_segments(partition: LogPartition) -> list[SegmentFile]:
    segments: dict[int, SegmentFile] = {}
    for path in sorted(Path(partition.path).iterdir()):  # read NAME.log before NAME.log.swap
        named = _SEGMENT.fullmatch(path.name)
        if named is None or int(named["base"]) in segments:
            continue
        status = path.stat()
        base_offset = int(named["base"])
        segments[base_offset] = SegmentFile(str(path), base_offset, status.st_size, status.st_ino)
    return [segments[base_offset] for base_offset in sorted(segments)]


def topic_id_of(partition: LogPartition) -> str | None:
    """Return the topic id of `partition.metadata` in Kafka's text form; None if unreadable."""
    topic_id = read_partition_metadata(LocalDisk(), partition.path)
    return None if topic_id is None else topic_id_text(topic_id)


def begun_before(partition: LogPartition, segment: SegmentFile) -> dict[int, int] | None:
    """Return the transactions that are open where a segment begins: first offset by producer id.

    They are read from the producer snapshot that a broker writes when it rolls a segment. Return
    None if there is no valid snapshot.
    """
    try:
        contents = Path(snapshot_path(partition.path, segment.base_offset)).read_bytes()
    except FileNotFoundError:
        return None
    state = ProducerState.decode(contents)
    return None if state is None else state.transactions


def log_starts(log_dir: str) -> dict[tuple[str, int], int]:
    """Return the log start offsets of the checkpoint file, by (topic, partition)."""
    return read_offsets(LocalDisk(), f"{log_dir}/{LOG_START_FILE}")


def cleaned_offsets(log_dir: str) -> dict[tuple[str, int], int]:
    """Return the cleaner's checkpoints: below them, no transaction is open."""
    return read_offsets(LocalDisk(), f"{log_dir}/{CLEANER_FILE}")


def retentions(log_dir: str) -> dict[str, int]:
    """Return `retention.ms` of topics with their own value, if this project's broker wrote it.

    Raises InputError.
    """
    try:
        topics = TopicCatalogue(LocalDisk(), log_dir).topics
    except StorageError as error:
        raise InputError(f"--log-dir {log_dir}: {error}") from error
    values = {name: int(topic.configs.get(RETENTION, -1)) for name, topic in topics.items()}
    return {name: retention_ms for name, retention_ms in values.items() if retention_ms >= 0}
