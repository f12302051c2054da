"""The small text files of a data directory, in Kafka's formats.

These are checkpoints (Kafka's CheckpointFile: a version line, a count line, one entry per line),
partition.metadata and meta.properties. A missing or damaged checkpoint is read as empty; recovery
then takes longer, but no data is lost.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping

from storage.disk import Disk, write_atomically

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

TopicPartition = tuple[str, int]


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it: 22 characters of URL-safe base64."""
    # Use binascii, because base64 imports the re module and slows down the start.
    text = binascii.b2a_base64(topic_id, newline=False).decode()
    return text.rstrip("=").replace("+", "-").replace("/", "_")


def parse_topic_id(text: str) -> bytes:
    """Return the 16 bytes of a printed topic id. Raises ValueError for an invalid text."""
    topic_id = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is no topic id")
    return topic_id


def _format_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join(["0", str(len(entries)), *entries, ""]).encode()


def _parse_lines(contents: bytes) -> list[list[str]]:
    """Return the fields of each entry; an empty list if the file is incomplete."""
    lines = contents.decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdigit():
        return []
    count = int(lines[1])
    entries = [line.split(" ") for line in lines[2 : 2 + count]]
    # A complete file has as many entries as its count line says, and a final newline.
    return entries if len(lines) == count + 3 and lines[-1] == "" else []


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Read a checkpoint of offsets by partition; empty if missing or damaged."""
    if not disk.exists(path):
        return {}
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partition, offset in _parse_lines(disk.read_file(path))
        }
    except ValueError:
        return {}


def write_offsets(
    disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    """Replace a checkpoint of offsets by partition."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    write_atomically(disk, path, _format_lines(lines), sync=sync)


def read_leader_epochs(disk: Disk, directory: str) -> list[tuple[int, int]]:
    """Return pairs (leader epoch, first offset), ascending; empty if missing or damaged."""
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    if not disk.exists(path):
        return []
    try:
        entries = [(int(epoch), int(start)) for epoch, start in _parse_lines(disk.read_file(path))]
    except ValueError:
        return []
    return sorted(entries)


def write_leader_epochs(disk: Disk, directory: str, epochs: Iterable[tuple[int, int]]) -> None:
    """Replace the leader-epoch-checkpoint of a partition, without a sync.

    The epochs are also in the batches.
    """
    lines = (f"{epoch} {start}" for epoch, start in epochs)
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    write_atomically(disk, path, _format_lines(lines), sync=False)


def read_partition_metadata(disk: Disk, directory: str) -> bytes | None:
    """Return the topic id of a partition directory; None if the file is missing or damaged."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not disk.exists(path):
        return None
    properties = dict(
        line.split(": ", 1) for line in disk.read_file(path).decode().splitlines() if ": " in line
    )
    try:
        return parse_topic_id(properties.get("topic_id", ""))
    except ValueError:
        return None


def write_partition_metadata(disk: Disk, directory: str, topic_id: bytes) -> None:
    """Write the topic id of a partition directory (KIP-516), without a sync.

    The topic id is also in the topic catalogue.
    """
    contents = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    write_atomically(disk, path, contents.encode(), sync=False)


def read_properties(contents: bytes) -> dict[str, str]:
    """Return the entries of a Java properties file without escapes, as Kafka writes them."""
    lines = (line.strip() for line in contents.decode("utf-8", "replace").splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def format_properties(properties: Mapping[str, str]) -> bytes:
    """Return a Java properties file with these entries."""
    return "".join(["#\n", *(f"{k}={v}\n" for k, v in properties.items())]).encode()
