"""The topics of a data directory: names, ids, partition counts, settings; in one small file of
ours.

Kafka keeps these in its metadata log, which a single broker has no use for. `topics.json` is
replaced atomically, so creating a topic is one step: directories come with the first record.
Deleting takes two: the topic moves to `deleting` first, so that a crash in the middle is finished
at the next start.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from storage.checkpoints import parse_topic_id, topic_id_text
from storage.disk import Disk, write_atomically
from storage.errors import StorageError

CATALOGUE_FILE = "topics.json"
_VERSION = 1


class PartitionLeadership(NamedTuple):
    """Who leads a partition (a broker's id, -1: nobody), since which epoch, and who may."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]


class TopicRecord(NamedTuple):
    """A topic; `topic_id` is 16 bytes, `configs` holds only what was set for it.

    `leadership` has an entry per partition, or none at all while there is one broker.
    """

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]
    leadership: tuple[PartitionLeadership, ...] = ()


class TopicCatalogue:
    """What `topics.json` says; `save` after every change."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{CATALOGUE_FILE}"
        self.topics: dict[str, TopicRecord] = {}
        self.deleting: dict[str, TopicRecord] = {}
        self.next_producer_id = 0
        if disk.exists(self._path):
            self._load()

    def _load(self) -> None:
        try:
            contents: dict[str, Any] = json.loads(self._disk.read_file(self._path))
            if contents["version"] != _VERSION:
                raise ValueError(f"version {contents['version']} is not {_VERSION}")
            self.next_producer_id = int(contents["next_producer_id"])
            for key, records in (("topics", self.topics), ("deleting", self.deleting)):
                for entry in contents[key]:
                    record = TopicRecord(
                        str(entry["name"]),
                        parse_topic_id(entry["topic_id"]),
                        int(entry["partitions"]),
                        {str(name): str(value) for name, value in entry["configs"].items()},
                        tuple(_leadership(one) for one in entry.get("leadership", ())),
                    )
                    records[record.name] = record
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(
                f"{self._path} is damaged ({error}); restore it, or move it away to have the "
                "topics found again by their directories, with default settings"
            ) from error

    def save(self) -> None:
        """Replace the file; StorageError (and nothing changed on the disk) when that fails."""
        contents = {
            "version": _VERSION,
            "next_producer_id": self.next_producer_id,
            "topics": [_entry(record) for record in self.topics.values()],
            "deleting": [_entry(record) for record in self.deleting.values()],
        }
        data = json.dumps(contents).encode()
        try:
            write_atomically(self._disk, self._path, data)
        except OSError as error:
            if not self._holds(data):
                raise StorageError(f"{self._path} cannot be written: {error}") from error
            # Renamed, and only the sync of the name failed: what a start would find is the new.

    def _holds(self, data: bytes) -> bool:
        try:
            return self._disk.read_file(self._path) == data
        except OSError:
            return False


def _entry(record: TopicRecord) -> dict[str, Any]:
    entry = {
        "name": record.name,
        "topic_id": topic_id_text(record.topic_id),
        "partitions": record.partition_count,
        "configs": record.configs,
    }
    if record.leadership:
        entry["leadership"] = record.leadership
    return entry


def _leadership(entry: Any) -> PartitionLeadership:
    leader_id, leader_epoch, replicas = entry
    return PartitionLeadership(int(leader_id), int(leader_epoch), tuple(map(int, replicas)))
