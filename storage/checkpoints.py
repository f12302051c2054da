"""The small text files of a data directory, in Kafka's formats.

These are checkpoints (Kafka's CheckpointFile: a version line, a count line, one entry per line),
partition.metadata and meta.properties. A missing or damaged checkpoint is read as empty; recovery
then takes longer, but no data is lost.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Iterable, Mapping

from storage.disk import Disk, write_atomically
from storage.errors import StorageError

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
DELETE_SUFFIX = "-delete"  # the suffix of directories that are removed in the background
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

TopicPartition = tuple[str, int]


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition whose directory has this name; None for another name."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdigit() or topic == CLUSTER_METADATA_TOPIC:
        return None
    return topic, int(number)


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


class LeaderEpochs:
    """The epochs of one partition, ascending. Appended batches get the last epoch."""

    __slots__ = ("current", "entries")

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries = entries
        self.current = entries[-1][0] if entries else 0

    def begin(self, leader_epoch: int, offset: int) -> None:
        """Begin a later epoch at `offset`; epochs without a batch are dropped."""
        assert leader_epoch > self.current, (leader_epoch, self.current)
        self.current = leader_epoch
        self.entries = [entry for entry in self.entries if entry[1] < offset]
        self.entries.append((leader_epoch, offset))

    def end_offset(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above `leader_epoch`, and the end offset of that epoch.

        An epoch before all known epochs ends at the start of the first known epoch. Returns
        (-1, -1) for an epoch that has not begun. Source: LeaderEpochFileCache.endOffsetFor.
        """
        if not 0 <= leader_epoch <= self.current:
            return -1, -1
        if leader_epoch == self.current:
            return leader_epoch, log_end_offset
        result = leader_epoch
        for epoch, start in self.entries:
            if epoch > leader_epoch:
                return result, start
            result = epoch
        return result, log_end_offset

    def truncate(self, offset: int) -> None:
        """Remove the epochs that began at or after `offset`, the new log end."""
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def save(self, disk: Disk, directory: str, log_end_offset: int) -> None:
        """Write the checkpoint. If no epoch is known, the current epoch begins at the log end."""
        if not self.entries:
            self.entries = [(self.current, log_end_offset)]
        write_leader_epochs(disk, directory, self.entries)


def take_directory(disk: Disk, directory: str, node_id: int, cluster_id: str | None) -> str:
    """Return the cluster id of a data directory.

    A new directory gets `cluster_id`, or a random id if None. Raises StorageError if the directory
    belongs to another node, or if its file is damaged.
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not disk.exists(path):
        cluster_id = cluster_id or topic_id_text(os.urandom(16))
        properties = {
            "cluster.id": cluster_id,
            "directory.id": topic_id_text(os.urandom(16)),
            "node.id": str(node_id),
            "version": "1",
        }
        write_atomically(disk, path, format_properties(properties))
        return cluster_id
    properties = read_properties(disk.read_file(path))
    stored_node_id = properties.get("node.id", properties.get("broker.id", str(node_id)))
    if stored_node_id != str(node_id):
        raise StorageError(
            f"the data directory {directory} belongs to node {stored_node_id}, not {node_id}"
        )
    if not properties.get("cluster.id") or "version" not in properties:
        raise StorageError(
            f"{path} is damaged, it has no cluster.id or no version: put it back, or remove it "
            "and a start makes another one, with a new cluster id"
        )
    return properties["cluster.id"]
