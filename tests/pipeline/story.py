"""Record a workload as segment files, together with a description of every record.

Times, member ids and bytes are fixed, so the pipeline always makes the same tables, which can be
compared row by row. Our broker or Kafka can be started on the files. `Told` describes each record;
`model.py` works from these descriptions alone. The workload itself is in `scenes.py`.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from protocol import offsets_log as log
from protocol.batch import Record, build_batch
from protocol.compression import Compression
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.hashing import partition_for
from protocol.schema import Message

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

START_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
AT_MS = START_MS + 2 * HOUR_MS
OFFSETS_TOPIC = "__consumer_offsets"
EVENTS_TOPIC = "__group_events"
METADATA_FILE = "partition.metadata"
OFFSETS_PARTITIONS = 4
SESSION_MS = 30 * MINUTE_MS  # long, so that a broker that starts on these files expires no member
NO_TOPIC_ID = bytes(16)

Assignment = dict[str, list[int]]


def topic_id_of(topic: str) -> bytes:
    """Return the topic id in the directories of a topic."""
    return topic.rjust(16)[-16:].encode()


@dataclass(frozen=True)
class Member:
    """A member of a generation."""

    member_id: str
    assigned: Assignment
    topics: tuple[str, ...] = ("orders",)
    instance: str | None = None
    client_id: str = "app"
    host: str = "/10.0.0.7"

    def message(self) -> log.RecordedMember:
        """Return the member in the form of the record's field."""
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics), user_data=None, owned_partitions=[]
        )
        parts = [
            TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in self.assigned.items()
        ]
        return log.RecordedMember(
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.client_id,
            client_host=self.host,
            rebalance_timeout=5 * MINUTE_MS,
            session_timeout=SESSION_MS,
            subscription=encode_subscription(subscription, 1),
            assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts), 1),
        )


@dataclass(frozen=True)
class Commit:
    """A committed offset, or its removal (`offset` None)."""

    topic: str
    partition: int
    offset: int | None
    metadata: str | None = None
    leader_epoch: int | None = None
    expires_ms: int | None = None
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True)
class Generation:
    """A classic group at the end of a rebalance, or its removal (`number` None)."""

    number: int | None
    members: tuple[Member, ...] = ()
    protocol: str | None = None


@dataclass(frozen=True)
class Modern:
    """A record of a KIP-848 group, or its removal (`value` None).

    The kind `share` is an epoch of a share group.
    """

    kind: str
    member_id: str | None
    value: Any


@dataclass(frozen=True)
class Strange:
    """A record that cannot be decoded, and the reason."""

    reason: str
    record_type: int
    key: bytes
    value: bytes


Said = Commit | Generation | Modern | Strange


@dataclass(frozen=True)
class Told:
    """The content and place of a record of the offsets topic.

    `producer_id` is -1 for a record outside of transactions.
    """

    log_partition: int
    log_offset: int
    at_ms: int
    group: str | None
    record_bytes: int
    producer_id: int
    said: Said


@dataclass(frozen=True)
class Event:
    """A rebalance in `__group_events`."""

    group: str
    generation: int
    trigger: str
    reason: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True)
class Written:
    """A record of a topic that groups read."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    record_bytes: int
    producer_id: int


@dataclass
class Partition:
    """The batches of one partition, its first and its next offset."""

    batches: list[bytes] = field(default_factory=list)
    first_offset: int = 0
    next_offset: int = 0


class Story:
    """Collects records in the order in which they are added, and writes them as segments."""

    def __init__(self) -> None:
        self.partitions: defaultdict[tuple[str, int], Partition] = defaultdict(Partition)
        self.told: list[Told] = []
        self.written: list[Written] = []
        self.events: list[Event] = []
        self.progress: list[tuple[str, str, str, int, int, int, int]] = []
        self.ended: list[tuple[str, int, int, int, bool]] = []
        """Markers of transactions: topic, partition, offset of the marker, producer id,
        committed."""
        self._codecs = cycle(Compression)

    def begin_at(self, topic: str, partition: int, first_offset: int) -> None:
        """Set the log start, as if earlier records had been removed."""
        log_ = self.partitions[topic, partition]
        log_.first_offset = log_.next_offset = first_offset

    def produce(
        self, topic: str, partition: int, times_ms: Sequence[int], producer_id: int = -1
    ) -> None:
        """Add a batch of records of 24 bytes (key 4, value 20), one for each time."""
        records = [(at_ms, b"key.", b"v" * 20) for at_ms in times_ms]
        first = self._append(topic, partition, records, producer_id=producer_id)
        self.written += [
            Written(topic, partition, first + index, at_ms, 24, producer_id)
            for index, at_ms in enumerate(times_ms)
        ]

    def end_produced(
        self, topic: str, partition: int, at_ms: int, producer_id: int, *, commits: bool
    ) -> None:
        """Add the marker that ends a transaction in a data partition."""
        self._mark(topic, partition, at_ms, producer_id, commits=commits)

    def commit(
        self,
        at_ms: int,
        group: str,
        topic: str,
        offsets: dict[int, int],
        *,
        metadata: str = "",
        value_version: int = 4,
        expires_ms: int = -1,
        producer_id: int = -1,
        topic_id: bytes = NO_TOPIC_ID,
    ) -> None:
        """Add a batch of commits by partition, transactional if there is a producer id."""
        records: list[tuple[int, bytes, bytes | None]] = []
        said: list[Said] = []
        for partition, offset in offsets.items():
            key = log.OffsetCommitKey(group=group, topic=topic, partition=partition)
            value = log.OffsetCommitValue(
                offset=offset,
                leader_epoch=0,
                metadata=metadata,
                commit_timestamp=at_ms,
                expire_timestamp=expires_ms,
                topic_id=topic_id,
            )
            encoded = log.encode_key(key), log.encode_value(value, value_version)
            records.append((at_ms, *encoded))
            said.append(
                Commit(
                    topic,
                    partition,
                    offset,
                    metadata,
                    0 if value_version >= 3 else None,
                    None if expires_ms < 0 else expires_ms,
                    topic_id,
                )
            )
        self._tell(group, records, said, producer_id)

    def commit_long_ago(
        self, at_ms: int, group: str, topic: str, partition: int, offset: int
    ) -> None:
        """Add a commit with the key type of brokers before 0.9."""
        key = log.LegacyOffsetCommitKey(group=group, topic=topic, partition=partition)
        value = log.LegacyOffsetCommitValue(offset=offset, metadata="", commit_timestamp=at_ms)
        record = at_ms, log.encode_key(key), log.encode_value(value, 0)
        self._tell(group, [record], [Commit(topic, partition, offset, "")])

    def forget(self, at_ms: int, group: str, topic: str, partitions: Iterable[int]) -> None:
        """Add tombstones of committed offsets."""
        for one in partitions:
            key = log.OffsetCommitKey(group=group, topic=topic, partition=one)
            self._tell(group, [(at_ms, log.encode_key(key), None)], [Commit(topic, one, None)])

    def generation(
        self, at_ms: int, group: str, generation: int, *members: Member, protocol: str = "range"
    ) -> None:
        """Add a group at the end of a rebalance; without members it is empty."""
        value = log.GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            current_state_timestamp=at_ms,
            members=[member.message() for member in members],
        )
        record = at_ms, _group_key(group), log.encode_value(value, 3)
        said = Generation(generation, members, protocol if members else None)
        self._tell(group, [record], [said])

    def remove(self, at_ms: int, group: str) -> None:
        """Add the tombstone of a group."""
        self._tell(group, [(at_ms, _group_key(group), None)], [Generation(None)])

    def modern(
        self, at_ms: int, group: str, kind: str, key: Message, value: Message | None
    ) -> None:
        """Add a record of a KIP-848 group."""
        data = None if value is None else log.encode_value(value, 0)
        said = Modern(kind, getattr(key, "member_id", None), value)
        self._tell(group, [(at_ms, log.encode_key(key), data)], [said])

    def share(self, at_ms: int, group: str) -> None:
        """Add epoch 5 of a share group without members (ShareGroupMetadata)."""
        name = group.encode()
        key = b"\x00\x0b" + len(name).to_bytes(2, "big") + name
        said = Modern("share", None, "epoch")
        self._tell(group, [(at_ms, key, b"\x00\x00\x00\x00\x00\x05" + bytes(9))], [said])

    def strange(self, at_ms: int, index: int, key: bytes, value: bytes, reason: str) -> None:
        """Add a record with these bytes to a partition of the offsets topic."""
        first = self._append(OFFSETS_TOPIC, index, [(at_ms, key, value)])
        said = Strange(reason, int.from_bytes(key[:2], "big"), key, value)
        self.told.append(Told(index, first, at_ms, None, len(key) + len(value), -1, said))

    def end_transaction(self, at_ms: int, group: str, producer_id: int, *, commits: bool) -> None:
        """Add the marker that ends a transaction in the group's partition of the offsets topic."""
        index = partition_for(group, OFFSETS_PARTITIONS)
        self._mark(OFFSETS_TOPIC, index, at_ms, producer_id, commits=commits)

    def explain(self, event: Event) -> None:
        """Add a record of `__group_events`, which our broker writes."""
        said = {
            "group": event.group,
            "generation_before": event.generation - 1,
            "generation": event.generation,
            "trigger": event.trigger,
            "reason": event.reason,
            "culprit": {"instance": None, "client_id": "somebody"},
            "started_ms": event.started_ms,
            "ended_ms": event.ended_ms,
            "join_ms": 5,
            "sync_ms": 7,
            "outcome": "stable",
        }
        record = event.ended_ms, event.group.encode(), json.dumps(said).encode()
        self._append(EVENTS_TOPIC, 0, [record])
        self.events.append(event)

    def write(self, directory: Path) -> None:
        """Write a log directory with a segment for each partition."""
        self.write_part(directory, 0.0, 1.0)

    def write_part(self, directory: Path, begin: float, end: float) -> None:
        """Append the batches between two fractions, from 0.0 to 1.0, of every partition."""
        for (topic, index), partition in self.partitions.items():
            folder = directory / f"{topic}-{index}"
            folder.mkdir(parents=True, exist_ok=True)
            # A broker recognises a topic's directory by this file.
            topic_id = base64.urlsafe_b64encode(topic_id_of(topic)).decode()[:22]
            (folder / METADATA_FILE).write_text(f"version: 0\ntopic_id: {topic_id}\n")
            count = len(partition.batches)
            with (folder / f"{partition.first_offset:020}.log").open("ab") as segment:
                batches = partition.batches[round(begin * count) : round(end * count)]
                segment.write(b"".join(batches))

    def _tell(
        self,
        group: str,
        records: Sequence[tuple[int, bytes, bytes | None]],
        said: Sequence[Said],
        producer_id: int = -1,
    ) -> None:
        """Add a batch of records with their descriptions."""
        index = partition_for(group, OFFSETS_PARTITIONS)
        first = self._append(OFFSETS_TOPIC, index, records, producer_id=producer_id)
        for delta, ((at_ms, key, value), one) in enumerate(zip(records, said, strict=True)):
            size = len(key) + len(value or b"")
            self.told.append(Told(index, first + delta, at_ms, group, size, producer_id, one))

    def _mark(self, topic: str, index: int, at_ms: int, producer_id: int, *, commits: bool) -> None:
        key = b"\x00\x00\x00\x01" if commits else b"\x00\x00\x00\x00"
        marker = (at_ms, key, b"\x00\x00\x00\x00\x00\x00")
        offset = self._append(topic, index, [marker], producer_id=producer_id, control=True)
        self.ended.append((topic, index, offset, producer_id, commits))

    def _append(
        self,
        topic: str,
        index: int,
        records: Sequence[tuple[int, bytes, bytes | None]],
        *,
        producer_id: int = -1,
        control: bool = False,
    ) -> int:
        """Add a batch and return the offset of its first record."""
        partition = self.partitions[topic, index]
        first = partition.next_offset
        batch = build_batch(
            [
                Record(first + delta, at_ms, key, value)
                for delta, (at_ms, key, value) in enumerate(records)
            ],
            leader_epoch=0,
            compression=Compression.NONE if control else next(self._codecs),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=-1 if control else 0,
            transactional=producer_id >= 0,
            control=control,
        ).to_bytes()
        partition.batches.append(batch)
        partition.next_offset += len(records)
        return first


def _group_key(group: str) -> bytes:
    return log.encode_key(log.GroupMetadataKey(group=group))
