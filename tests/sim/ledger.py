"""Compares the log with the responses: the replay law, and acknowledged commits.

The ledger replays every record, as it is appended, into a group of its own. An acknowledged commit
must stay until a tombstone removes it, and a tombstone needs a reason.
"""

from __future__ import annotations

from typing import Any

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import EMPTY, STABLE
from coordinator_server.core.groups.group import Group
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.offset_fetch import OffsetFetchRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from tests.harness.one_group import GROUP, Answer, OneGroupBroker, durable_state

E = ErrorCode
Place = tuple[str, int]


class Ledger:
    """The ledger of one broker: `shadow` is the replayed group, `stored` the acknowledged commits.

    If responses wait for a sync, a record may be in the log but not yet acknowledged.
    """

    def __init__(self, broker: OneGroupBroker) -> None:
        self.broker = broker
        self.shadow: Group = GroupMetadata(GROUP, broker.environment)
        self.written: dict[Place, set[int]] = {}
        """Every offset that was ever written, by partition."""
        self.read = 0
        self._is_answering = False
        self.stored: dict[Place, tuple[int, str, int]] = {}
        """Offset, metadata and expiry time in ms (-1: no expiry of its own)."""
        self.dropped: set[Place] = set()
        self.may_drop: set[Place] = set()
        """Offsets that this step may drop: see `expired`."""

    def places(self) -> set[Place]:
        """The partitions with a stored offset."""
        return {
            (topic, one)
            for topic, offsets in self.shadow.offsets.by_topic.items()
            for one in offsets
        }

    @property
    def recorded(self) -> GroupMetadataValue | None:
        """The last GroupMetadata record of a classic group."""
        assert isinstance(self.shadow, GroupMetadata)
        return self.shadow.recorded

    def answered(self, answer: Answer) -> None:
        """Record the acknowledged commits of a response, or compare its fetched offsets."""
        if self.broker.flushes:
            self._is_answering = True
            self.catch_up()
            self._is_answering = False
        response: Any = answer.response
        match answer.request:
            case OffsetCommitRequest() as request:
                told = {
                    (topic.name, one.partition_index): one.error_code
                    for topic in response.topics
                    for one in topic.partitions
                }
                expires_ms = -1
                if request.retention_time_ms != -1:
                    expires_ms = self.broker.now_ms + request.retention_time_ms
                for topic in request.topics:
                    for one in topic.partitions:
                        place = (topic.name, one.partition_index)
                        if told[place] == E.NONE and self.broker.flushes:
                            assert one.committed_offset in self.written[place], "never written"
                        elif told[place] == E.NONE:
                            metadata = one.committed_metadata or ""
                            self.stored[place] = (one.committed_offset, metadata, expires_ms)
            case OffsetFetchRequest() if response.error_code == E.NONE:
                fetched = {
                    (topic.name, one.partition_index): (one.committed_offset, one.metadata)
                    for topic in response.topics
                    for one in topic.partitions
                }
                if self.broker.flushes:
                    # The response to a commit waits for its sync. A fetch may therefore return an
                    # older offset than a commit that was appended before.
                    for place, (offset, _) in fetched.items():
                        assert offset in self.written[place], f"{place}: {offset} never written"
                    return
                stored = {place: value[:2] for place, value in self.stored.items()}
                assert fetched == stored, f"fetched {fetched}, acknowledged {stored}"

    def catch_up(self, *, may_hold_unanswered: bool = False) -> None:
        """Read the appended records and compare them with the acknowledged commits.

        After a crash, an offset may come from a commit that was written but not answered.
        """
        log = self.broker.log
        written: set[Place] = set()
        self.dropped = set()
        for key_bytes, value_bytes in log[self.read :]:
            key = decode_key(key_bytes)
            assert not isinstance(key, UnknownKey)
            if isinstance(key, OffsetCommitKey):
                place = (key.topic, key.partition)
                written.add(place)
                if value_bytes is None:
                    assert place in self.may_drop, f"the offset of {place} is dropped"
                    self.dropped.add(place)
                    self.stored.pop(place, None)
            value = decode_value(key, value_bytes)
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                self.written.setdefault(place, set()).add(value.offset)
            self.shadow = self.shadow.replay((key, value))
        self.read = len(log)
        if not self._is_answering:
            self.may_drop = set()
        held = {
            (topic, partition): (value.offset, value.metadata, value.expire_timestamp)
            for topic, partitions in self.shadow.offsets.by_topic.items()
            for partition, value in partitions.items()
        }
        if may_hold_unanswered or self.broker.flushes:
            self.stored |= {place: held[place] for place in written & held.keys()}
        assert held == self.stored, f"acknowledged {self.stored}, the log has {held}"

    def check_durable_state(self, group: Group | None) -> None:
        """Check the replay law: the durable state must match the log."""
        if group is not None:
            assert durable_state(group) == durable_state(self.shadow), "the replay law"
        elif self.broker.is_coordinator:
            assert self.shadow.is_blank or self.broker.write_failed, "a group is lost"

    def expired(self, group: GroupMetadata | None) -> set[Place]:
        """Return the offsets that a retention check must drop now (KIP-211)."""
        return {place for place, ms in self.expiries(group).items() if ms <= self.broker.now_ms}

    def expiries(self, group: GroupMetadata | None) -> dict[Place, int]:
        """Return the expiry time in ms of each offset, for the current state of the group."""
        if group is None:
            return {}
        has_members = group.protocol_type is not None and group.state is not EMPTY
        if has_members and not (
            group.state is STABLE
            and group.protocol_type == "consumer"
            and group.subscribed_topics is not None
        ):
            return {}
        expiries: dict[Place, int] = {}
        for topic, partition in self.places():
            if has_members and topic in (group.subscribed_topics or ()):
                continue
            value = self.shadow.offsets.by_topic[topic][partition]
            since_ms = value.commit_timestamp
            if group.protocol_type is not None and group.state is EMPTY:
                since_ms = group.state_timestamp_ms or since_ms
            expires_ms = since_ms + self.broker.settings.offsets_retention_ms
            if value.expire_timestamp != -1:
                expires_ms = value.expire_timestamp
            expiries[topic, partition] = expires_ms
        return expiries
