"""The catalogue of topics (names, ids, partition counts, configs) in the file `topics.json`.

The file also contains the configs of groups, brokers and client metrics subscriptions.

Kafka has these in its metadata log. `topics.json` is a log, too: the first line has the version,
every other line is a JSON list of the changes of one request, appended and synced before the
response. So the cost of a change does not depend on the number of topics. A crash leaves all
changes of a request or none, because an incomplete last line is ignored and removed by the next
write. The file is compacted when most changes are obsolete.

A deletion takes two changes: the topic is "deleting" until its directories are renamed, so that the
next start can finish an interrupted deletion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from storage.change_lines import DAMAGE, is_unwritten, line_error
from storage.checkpoints import parse_topic_id, topic_id_text
from storage.disk import CLOSED, Disk
from storage.errors import StorageError

CATALOGUE_FILE = "topics.json"
_VERSION = 2
_OLD_VERSION = 1
"""The old format: one JSON object with all topics, rewritten for every change."""

_COMPACTED_PER_STEP = 500
_DEAD_CHANGES_KEPT = 1000
# The config that the first start of a broker writes; it holds no secret.
_NO_SECRET = "min.insync.replicas"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class PartitionLeadership(NamedTuple):
    """The leader of a partition (a broker's id, -1 for none), its epoch, and the replicas.

    `adding` and `removing` are the replicas that an unfinished reassignment adds and removes.
    """

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicRecord(NamedTuple):
    """A topic; `topic_id` has 16 bytes, `configs` only the topic's own configs.

    `leadership` has one entry per partition, or is empty if one broker has always led everything.
    """

    name: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]
    leadership: tuple[PartitionLeadership, ...] = ()


class TopicCatalogue:
    """The contents of `topics.json`. Loading does not change the file, which may be in use.

    `topics`, `deleting`, `group_configs` (by group id), `broker_configs` (dynamic configs by broker
    id, "" for all brokers) and `client_metrics` (by subscription name) must only be changed with
    the methods. If a method raises StorageError, nothing has changed.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{CATALOGUE_FILE}"
        self.topics: dict[str, TopicRecord] = {}
        self.deleting: dict[str, TopicRecord] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        self._has_secrets = False
        self.next_producer_id = 0
        self.dropped_bytes = 0
        """Bytes at the end of the file that were ignored, because a write was not completed."""
        # The size of the complete lines; 0 without a file of this version.
        self._size_bytes = 0
        # The number of changes in the file.
        self._changes = 0
        self._unwritten: list[str] = []
        if disk.exists(self._path):
            self._load()

    # --- reading ----------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            first, *lines = self._disk.read_file(self._path).split(b"\n")
            head = json.loads(first)
            if head["version"] == _OLD_VERSION:
                self._load_old(head)
                return
            if head["version"] != _VERSION or not lines:
                raise ValueError(f"version {head['version']} is not {_VERSION}")
            self.dropped_bytes = len(lines.pop())  # an incomplete line
            self._size_bytes = len(first) + 1
            for number, line in enumerate(lines, start=2):
                if number > len(lines) and is_unwritten(line):
                    self.dropped_bytes += len(line) + 1
                    return
                try:
                    for change in json.loads(line):
                        self._apply(change)
                except DAMAGE as error:
                    raise ValueError(line_error(number, error)) from error
                self._size_bytes += len(line) + 1
        except DAMAGE as error:
            raise StorageError(
                f"{self._path} is damaged ({error}); restore it, or move it away to have the "
                "topics found again by their directories, with default settings"
            ) from error

    def _load_old(self, contents: dict[str, Any]) -> None:
        self.next_producer_id = int(contents["next_producer_id"])
        for key, records in (("topics", self.topics), ("deleting", self.deleting)):
            for entry in contents[key]:
                record = _record(entry)
                records[record.name] = record

    def _apply(self, change: dict[str, Any]) -> None:
        self._changes += 1
        ((kind, value),) = change.items()
        if kind == "topic":
            record = _record(value)
            self.topics[record.name] = record
        elif kind == "deleting":
            self.deleting[value] = self.topics.pop(value)
        elif kind == "deleted":
            self.deleting.pop(value, None)  # the topic is unknown if compaction has removed it
        elif kind == "next_producer_id":
            self.next_producer_id = int(value)
        elif kind == "group":
            _replace(self.group_configs, value["group_id"], value["configs"])
        elif kind == "broker":
            _replace(self.broker_configs, value["broker"], value["configs"])
            self._note_secrets(value["configs"])
        elif kind == "client_metrics":
            _replace(self.client_metrics, value["name"], value["configs"])
        else:
            raise ValueError(f"an unknown change: {kind}")

    # --- changing ---------------------------------------------------------------------------------

    def put(self, records: Sequence[TopicRecord]) -> None:
        """Add topics, or replace topics with the same names."""
        self._write(map(_topic, records))
        for record in records:
            self.topics[record.name] = record

    def begin_deletion(self, names: Sequence[str]) -> None:
        """Move topics to `deleting`, until `end_deletion`."""
        self._write(_change("deleting", name) for name in names)
        for name in names:
            self.deleting[name] = self.topics.pop(name)

    def end_deletion(self, name: str) -> None:
        """Remove a topic from `deleting`. Written with the next change, so may be repeated."""
        del self.deleting[name]
        self._unwritten.append(_change("deleted", name))

    def take_producer_ids(self, count: int) -> int:
        """Reserve `count` unused producer ids and return the first one."""
        first = self.next_producer_id
        self._write([_change("next_producer_id", first + count)])
        self.next_producer_id = first + count
        return first

    def put_group_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of groups, by group id. Empty configs remove the group."""
        self._write(_group(group_id, own) for group_id, own in configs.items())
        for group_id, own in configs.items():
            _replace(self.group_configs, group_id, own)

    def put_client_metrics(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of subscriptions, by name. Empty configs remove the subscription."""
        self._write(_subscription(name, own) for name, own in configs.items())
        for name, own in configs.items():
            _replace(self.client_metrics, name, own)

    def put_broker_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the configs of brokers, by id; "" stands for all brokers.

        Configs may be passwords, so only the owner can read the file once it has such configs.
        """
        for own in configs.values():
            self._note_secrets(own)
        self._write(_broker(name, own) for name, own in configs.items())
        for name, own in configs.items():
            _replace(self.broker_configs, name, own)

    def close(self) -> None:
        """Let all later changes fail with StorageError."""
        self._disk = CLOSED

    def _note_secrets(self, configs: Iterable[str]) -> None:
        self._has_secrets = self._has_secrets or any(config != _NO_SECRET for config in configs)

    def _write(self, changes: Iterable[str]) -> None:
        """Append one line and sync. Raises StorageError."""
        try:
            if not self._size_bytes:
                for _ in self.compaction_steps():
                    pass
            written = [*self._unwritten, *changes]
            self._append(f"[{','.join(written)}]\n".encode())
        except OSError as error:
            raise StorageError(f"{self._path} cannot be written: {error}") from error
        self._unwritten.clear()
        self._changes += len(written)

    def _append(self, line: bytes) -> None:
        file = self._disk.open(self._path, private=self._has_secrets)
        try:
            if file.size() > self._size_bytes:
                file.truncate(self._size_bytes)
            file.append([line])
            file.sync()
            self._size_bytes += len(line)
        except OSError:
            with suppress(OSError):  # the next write truncates the file
                file.truncate(self._size_bytes)
            raise
        finally:
            file.close()

    # --- compaction -------------------------------------------------------------------------------

    @property
    def is_mostly_dead(self) -> bool:
        """Whether compaction would halve the file, or the file has the old format."""
        live = len(self.topics) + len(self.deleting) + len(self.group_configs)
        live += len(self.broker_configs) + len(self.client_metrics)
        is_old = live > 0 and not self._size_bytes
        return is_old or self._changes > 2 * live + _DEAD_CHANGES_KEPT

    def compaction_steps(self) -> Iterator[None]:
        """Rewrite the file without obsolete changes, in steps. Raises OSError.

        Changes between the steps are written to the old file and copied at the end.
        """
        copied_bytes = self._size_bytes
        changes = self._changes
        deleting = list(self.deleting.values())
        entries = [_topic(record) for record in (*deleting, *self.topics.values())]
        entries += [_group(group_id, own) for group_id, own in self.group_configs.items()]
        entries += [_subscription(name, own) for name, own in self.client_metrics.items()]
        entries += [_broker(name, own) for name, own in self.broker_configs.items()]
        head = f'{{"version":{_VERSION}}}\n[{_change("next_producer_id", self.next_producer_id)}]\n'
        temporary = f"{self._path}.tmp"
        if self._disk.exists(temporary):
            self._disk.unlink(temporary)
        file = self._disk.open(temporary, create=True, private=self._has_secrets)
        try:
            file.append([head.encode()])
            for start in range(0, len(entries), _COMPACTED_PER_STEP):
                part = entries[start : start + _COMPACTED_PER_STEP]
                file.append([f"[{','.join(part)}]\n".encode()])
                file.sync()
                yield
            if deleting:
                part = [_change("deleting", record.name) for record in deleting]
                file.append([f"[{','.join(part)}]\n".encode()])
            if self._size_bytes > copied_bytes:
                file.append([self._since(copied_bytes)])
            file.sync()
            size_bytes = file.size()
        finally:
            file.close()
        self._disk.rename(temporary, self._path)
        self._size_bytes = 0  # if the sync below fails, the next write rewrites the file
        self._disk.sync_directory(self._path.rpartition("/")[0])
        self._size_bytes = size_bytes
        self._changes += len(entries) + len(deleting) + 1 - changes

    def _since(self, position: int) -> bytes:
        file = self._disk.open(self._path)
        try:
            return file.pread(self._size_bytes - position, position)
        finally:
            file.close()


def _change(kind: str, value: object) -> str:
    return _encode({kind: value})


def _group(group_id: str, configs: Mapping[str, str]) -> str:
    return _change("group", {"group_id": group_id, "configs": dict(configs)})


def _broker(name: str, configs: Mapping[str, str]) -> str:
    return _change("broker", {"broker": name, "configs": dict(configs)})


def _subscription(name: str, configs: Mapping[str, str]) -> str:
    return _change("client_metrics", {"name": name, "configs": dict(configs)})


def _replace(kept: dict[str, dict[str, str]], name: str, configs: Mapping[str, str]) -> None:
    """Replace the configs of a resource; empty configs remove the resource."""
    kept.pop(name, None)
    if configs:
        kept[name] = dict(configs)


def _topic(record: TopicRecord) -> str:
    entry: dict[str, Any] = {
        "name": record.name,
        "topic_id": topic_id_text(record.topic_id),
        "partitions": record.partition_count,
        "configs": record.configs,
    }
    if record.leadership:
        # The two lists of a reassignment are only written while the reassignment is unfinished.
        entry["leadership"] = [
            placement if placement.adding or placement.removing else placement[:3]
            for placement in record.leadership
        ]
    return _change("topic", entry)


def _record(entry: dict[str, Any]) -> TopicRecord:
    return TopicRecord(
        str(entry["name"]),
        parse_topic_id(entry["topic_id"]),
        int(entry["partitions"]),
        {str(name): str(value) for name, value in entry["configs"].items()},
        tuple(_leadership(entry) for entry in entry.get("leadership", ())),
    )


def _leadership(entry: Any) -> PartitionLeadership:
    leader_id, leader_epoch, *lists = entry
    return PartitionLeadership(
        int(leader_id), int(leader_epoch), *(tuple(map(int, replicas)) for replicas in lists)
    )
