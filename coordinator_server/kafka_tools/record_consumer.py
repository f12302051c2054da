"""The console tools' consumer: partition assignment, positions and commits.

Implements the part of Java's KafkaConsumer that kafka-console-consumer.sh needs: one partition
assigned by hand, or topics as a member of a group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from coordinator_server.client import Client, ClientError, check
from coordinator_server.client.fetcher import Fetched, Fetcher, FetchSettings, Partition
from coordinator_server.client.group_member import GroupMember, MemberSettings, Membership
from coordinator_server.kafka_tools.filters import INTERNAL_TOPICS
from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.get_offsets import ask_offsets
from coordinator_server.kafka_tools.groups_read import committed_offsets
from coordinator_server.kafka_tools.log_offsets import LATEST
from protocol.errors import ErrorCode

_LONGEST_WAIT_S = 1.0
_RETRY_S = 0.1
_COMMIT_BY_NAME = 9


class ConsumerSettings(NamedTuple):
    """Consumer settings.

    `reset` is a timestamp: -1 is latest, -2 earliest, None raises an error.
    """

    member: MemberSettings
    fetch: FetchSettings
    reset: int | None = LATEST
    is_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    may_create_topics: bool = True
    excludes_internal: bool = True


class RecordConsumer:
    """Reads records one by one. `connect` creates its clients, `warn` receives errors of topics.

    `assigned` and `revoked` receive the partitions that a group member gains and loses.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        settings: ConsumerSettings,
        warn: Callable[[str, ErrorCode], None],
        assigned: Callable[[list[Partition]], None] = lambda _: None,
        revoked: Callable[[list[Partition]], None] = lambda _: None,
    ) -> None:
        self.client = connect()
        self._tell_assigned, self._tell_revoked = assigned, revoked
        self._settings = settings
        self._warn = warn
        self._member = GroupMember(connect, settings.member)
        self._membership: Membership | None = None
        self._topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._counts: dict[str, int] | None = None
        """The partition counts of the topics at the last join; None before the first join."""
        self._counts_at_s = 0.0
        self._positions: dict[Partition, int] = {}
        self._find_at_s = 0.0
        self._epochs: dict[Partition, int] = {}
        self._to_reset: set[Partition] = set()
        """The partitions without a committed offset, or with an offset outside the log."""
        self._fetcher = Fetcher(self.client, settings.fetch)
        self._ready: list[Iterator[Fetched]] = []
        """Fetched records that were not received yet, by partition."""
        self._committed_at_s = self._joining_since_s = time.monotonic()
        self.rebalance_s = 0.0
        """The total time without assigned partitions, up to the last assignment."""
        self._assigned: tuple[Partition, int] | None = None

    def assign(self, partition: Partition, offset: int) -> None:
        """Read one partition without a group, from an offset, -1 (latest) or -2 (earliest)."""
        self._assigned = (partition, offset)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics as a member of the group."""
        self._topics = list(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Read all topics whose whole name matches, as a member of the group."""
        self._pattern = pattern

    def receive(self, timeout_s: float | None) -> Fetched:
        """Return the next record. Raises TimeoutError, ClientError, ToolError."""
        start_s = time.monotonic()
        while True:
            fetched = self._next()
            if fetched is not None:
                return fetched
            rest_s = _LONGEST_WAIT_S
            if timeout_s is not None:
                rest_s = start_s + timeout_s - time.monotonic()
                if rest_s < 0:
                    raise TimeoutError
            self._poll(min(rest_s, _LONGEST_WAIT_S))

    def poll(self, timeout_s: float, most: int) -> list[Fetched]:
        """Wait for one fetch and return up to `most` of its records; empty on timeout.

        Raises the errors of `receive`.
        """
        try:
            polled = [self.receive(timeout_s)]
        except TimeoutError:
            return []
        while len(polled) < most and (fetched := self._next()) is not None:
            polled.append(fetched)
        return polled

    def _next(self) -> Fetched | None:
        """Return the next fetched record; None if all were received."""
        while self._ready:
            for fetched in self._ready[0]:
                self._positions[fetched.partition] = fetched.next_offset
                self._epochs[fetched.partition] = fetched.header.leader_epoch
                if fetched.record is not None:
                    return fetched
            del self._ready[0]
        return None

    def close(self) -> None:
        """Commit the positions, leave the group and close the client."""
        for piece in self._ready:
            # Kafka's tool seeks back to the first record that was not printed; this seek resets
            # the leader epoch.
            unread = next((item for item in piece if item.record is not None), None)
            if unread is not None:
                self._epochs[unread.partition] = -1
        try:
            if self._settings.is_auto_commit:
                # After a rebalance the commit may fail. Another member then reads the records
                # again.
                with suppress(ClientError):
                    self.commit(self._positions)
            if self._membership is not None:
                self._tell_revoked(self._membership.partitions)
        finally:
            self._member.close(self.client)
            self.client.close()

    def _poll(self, wait_s: float) -> None:
        """Do the next due step: join the group, find positions, or fetch.

        Waits up to `wait_s` seconds; a join may take longer.
        """
        if self._assigned is None and not self._is_member(wait_s):
            return
        self._find_positions()
        if not self._positions:
            time.sleep(min(wait_s, _RETRY_S))
            return
        pieces, errors = self._fetcher.fetch(self._positions, wait_s)
        for partition in errors:
            del self._positions[partition]
            self._to_reset.add(partition)
            self._find_at_s = 0.0
        self._ready = pieces

    def _is_member(self, wait_s: float) -> bool:
        """Join or commit if due; return whether partitions are assigned."""
        self._refresh_topics()
        if self._membership is None:
            if self._counts is None:
                time.sleep(min(wait_s, _RETRY_S))
                return False
            membership = self._member.wait(wait_s)
            if membership is None:
                return False
            self._membership = membership
            self.rebalance_s += time.monotonic() - self._joining_since_s
            self._positions.clear()
            self._epochs.clear()
            self._to_reset.clear()
            self._committed_at_s = time.monotonic()
            self._tell_assigned(membership.partitions)
        if self._member.must_rejoin():
            self._rejoin()
            return False
        interval_s = self._settings.auto_commit_interval_ms / 1000
        if self._settings.is_auto_commit and time.monotonic() > self._committed_at_s + interval_s:
            # Do not retry a failed commit, because the next commit includes these offsets. A
            # rebalance is reported by the heartbeat.
            with suppress(ClientError):
                self.commit(self._positions)
        return True

    def _rejoin(self) -> None:
        """Revoke all partitions and rejoin with the current subscription."""
        if self._settings.is_auto_commit and self._membership is not None:
            # The commit fails if a rebalance completed without this member. The records since the
            # last commit are then read again.
            with suppress(ClientError):
                self.commit(self._positions)
        if self._membership is not None:
            self._joining_since_s = time.monotonic()
            self._tell_revoked(self._membership.partitions)
        self._membership = None
        self._ready = []
        self._member.join(list(self._counts or ()) if self._pattern else self._topics)

    def _refresh_topics(self) -> None:
        """Refresh the topics at intervals; rejoin if topics or partition counts have changed."""
        now_s = time.monotonic()
        known = self._counts or {}
        is_missing = self._pattern is None and not known.keys() >= set(self._topics)
        age_s = _LONGEST_WAIT_S if is_missing else self._settings.metadata_max_age_ms / 1000
        if self._counts is not None and now_s < self._counts_at_s + age_s:
            return
        try:
            answer = self.client.metadata(
                None if self._pattern else self._topics,
                create=self._settings.may_create_topics and not self._pattern,
            )
        except ClientError as error:
            if not error.code.retriable:
                raise
            return
        self._counts_at_s = now_s
        counts = {}
        for topic in answer.topics:
            if self._pattern is not None and not self._is_wanted(topic):
                continue
            if topic.error_code:
                self._refuse(topic)
            else:
                counts[topic.name] = len(topic.partitions)
        if counts != self._counts:
            self._counts = counts
            self._rejoin()

    def _refuse(self, topic: Any) -> None:
        code = ErrorCode(topic.error_code)
        self._warn(topic.name, code)
        if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise ClientError(code, f"Invalid topics: [{topic.name}]")
        if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not code.retriable:
            check(code)

    def _is_wanted(self, topic: Any) -> bool:
        assert self._pattern is not None
        if self._settings.excludes_internal and (
            topic.is_internal or topic.name in INTERNAL_TOPICS
        ):
            return False
        return self._pattern.fullmatch(topic.name) is not None

    def _find_positions(self) -> None:
        """Find start positions for the assigned partitions that have none.

        After a retriable error, partitions stay without a position until the next attempt.
        """
        partitions = self._membership.partitions if self._membership is not None else []
        if self._assigned is not None:
            partitions = [self._assigned[0]]
        missing = [item for item in partitions if item not in self._positions]
        is_early = bool(self._positions) and time.monotonic() < self._find_at_s
        if not missing or is_early:
            return
        self._find_at_s = time.monotonic() + _RETRY_S
        try:
            if self._assigned is not None:
                is_first = self._assigned[0] not in self._to_reset
                self._reset(missing, self._assigned[1] if is_first else None)
                return
            self._use_committed([item for item in missing if item not in self._to_reset])
            self._reset([item for item in missing if item not in self._positions], None)
        except ClientError as error:
            if not error.code.retriable:
                raise

    def _use_committed(self, partitions: list[Partition]) -> None:
        """Seek to the committed offsets; partitions without one follow auto.offset.reset."""
        if not partitions:
            return
        group_offsets = committed_offsets(self.client, self._settings.member.group_id, partitions)
        for item, committed in group_offsets.items():
            self._positions[item] = committed.offset
            self._epochs[item] = committed.leader_epoch
        self._to_reset.update(item for item in partitions if item not in group_offsets)

    def _reset(self, partitions: list[Partition], start: int | None) -> None:
        """Seek to an offset, or according to `auto.offset.reset`."""
        if start is not None and start >= 0:
            self._positions |= dict.fromkeys(partitions, start)
            return
        timestamp = self._settings.reset if start is None else start
        if partitions and timestamp is None:
            names = ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions))
            raise ToolError(
                "org.apache.kafka.clients.consumer.NoOffsetForPartitionException",
                f"Undefined offset with no reset policy for partitions: [{names}]",
            )
        if not partitions or timestamp is None:
            return
        # Try only once, so that a partition without a leader does not delay the others.
        for item, offset in ask_offsets(self.client, dict.fromkeys(partitions, timestamp)).items():
            if not isinstance(offset, ClientError):
                self._positions[item] = offset
            elif not offset.code.retriable:
                raise offset

    def commit(self, positions: Mapping[Partition, int]) -> None:
        """Commit the positions of partitions. Raises ClientError."""
        from protocol.apis.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        member = self._membership
        self._committed_at_s = time.monotonic()
        if member is None or not positions:
            return
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for name, index in sorted(positions):
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=positions[name, index],
                    committed_leader_epoch=self._epochs.get((name, index), -1),
                    committed_metadata="",
                )
            )
        group = self._settings.member.group_id
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=self._settings.member.group_instance_id,
            topics=list(topics.values()),
        )
        answer = self.client.ask(
            request, self.client.coordinator(group), max_version=_COMMIT_BY_NAME
        )
        for topic in answer.topics:
            for partition in topic.partitions:
                check(partition.error_code)
