"""ShareGroup: one share group (KIP-932).

Only records change the state; requests and timers only compute records. Source: Kafka's ShareGroup
and ModernGroup.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.modern.modern_group import ModernGroup
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share.member import NOTHING_ASSIGNED
from coordinator_server.core.groups.share.partitions import PartitionStates, without_topics
from coordinator_server.core.groups.share.records import (
    current_of,
    current_record,
    epoch_record,
    group_tombstones,
    member_of,
    member_record,
    partitions_of,
    states_of,
    states_record,
    target_epoch_record,
    target_record,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import LegacyOffsetCommitKey, OffsetCommitKey
from protocol.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupEnvironment, KnownTopic
    from coordinator_server.core.groups.share.member import ShareAssignment, ShareMember
    from coordinator_server.steps import Steps
    from protocol.apis.offset_commit import OffsetCommitRequest


class ShareGroupState(StrEnum):
    """The state of a share group; the values are the names in ShareGroupDescribe."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(ModernGroup):
    """A group whose members share partitions.

    `members` (subscriptions), `targets` (target assignments) and `currents` (current assignments)
    are by member id. `states` are the partitions with share-partition state; None until the first
    state record is replayed.
    """

    kind = GroupKind.SHARE

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.currents: dict[str, ShareAssignment] = {}
        self.states: PartitionStates | None = None

        self.complete_revision = -1
        """The topics revision at which all subscribed partitions were initialized; not durable."""
        self.asked_at_ms = 0
        """The time in ms of the last write of `states`, or of loading the group; not durable."""
        self._topics: frozenset[str] | None = None
        self._existing: dict[tuple[str, ...], tuple[KnownTopic, ...]] = {}
        self._existing_revision = -1
        self._has_unassigned: bool | None = None

    # Durable state

    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded."""
        self.is_new = False
        key, value = record
        match key:
            case OffsetCommitKey() | LegacyOffsetCommitKey():
                self.offsets.replay(key, value)
            case ShareGroupCurrentMemberAssignmentKey(member_id=member_id):
                self.currents.pop(member_id, None)
                if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
                    self.currents[member_id] = current_of(value)
            case ShareGroupMemberMetadataKey(member_id=member_id):
                assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
                self._set_member(member_id, value)
            case ShareGroupTargetAssignmentMemberKey(member_id=member_id):
                self._has_unassigned = None
                self.targets.pop(member_id, None)
                if isinstance(value, ShareGroupTargetAssignmentMemberValue):
                    self.targets[member_id] = partitions_of(value.topic_partitions)
            case ShareGroupTargetAssignmentMetadataKey():
                if isinstance(value, ShareGroupTargetAssignmentMetadataValue):
                    self.assignment_epoch = value.assignment_epoch
                    self.assigned_at_ms = value.assignment_timestamp
            case ShareGroupStatePartitionMetadataKey():
                self._has_unassigned = None
                self.complete_revision = -1
                self.states = None
                if isinstance(value, ShareGroupStatePartitionMetadataValue):
                    self.states = states_of(value)
            case ShareGroupMetadataKey():
                if value is None:
                    classic: Group = self.environment.in_place_of(GroupKind.CLASSIC, self)
                    return classic
                assert isinstance(value, ShareGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        return self

    def _set_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        self._topics = self._has_unassigned = None
        self.complete_revision = -1
        self._existing.clear()
        if value is None:
            self.members.pop(member_id, None)
            session = self.sessions.pop(member_id, None)
            if session is not None:
                self.purgatory.cancel(session)
        else:
            self.members[member_id] = member_of(member_id, value)

    def state_records(self) -> list[CoordinatorRecord]:
        """Return the records that restore the group's state."""
        group_id = self.group_id
        records = [member_record(group_id, member) for member in self.members.values()]
        records.append(epoch_record(group_id, self.epoch, self.metadata_hash))
        records += [
            target_record(group_id, member_id, target) for member_id, target in self.targets.items()
        ]
        records.append(target_epoch_record(group_id, self.assignment_epoch, self.assigned_at_ms))
        records += [
            current_record(group_id, member_id, owned) for member_id, owned in self.currents.items()
        ]
        if self.states is not None:
            records.append(states_record(group_id, self.states))
        return records

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones that delete the group, which has no members."""
        return group_tombstones(self.group_id)

    def has_state_of(self, topic_ids: Collection[bytes]) -> bool:
        """Return whether any of these topics has or is getting share-partition state."""
        if self.states is None:
            return False
        return any(
            topic in topic_ids
            for topics in (self.states.initializing, self.states.initialized, self.states.deleting)
            for topic in topics
        )

    def forgetting_topics(self, topic_ids: Collection[bytes]) -> list[CoordinatorRecord]:
        """Return the record that drops deleted topics from `states`.

        The share coordinator deletes the state of deleted topics on its own. Source:
        maybeCleanupShareGroupState.
        """
        if self.states is None or not self.has_state_of(topic_ids):
            return []
        initializing, initialized, deleting = self.states
        left = PartitionStates(
            without_topics(initializing, topic_ids),
            without_topics(initialized, topic_ids),
            {topic_id: name for topic_id, name in deleting.items() if topic_id not in topic_ids},
        )
        return [states_record(self.group_id, left)]

    # Derived state

    @property
    def state(self) -> ShareGroupState:
        """The group state. Source: ShareGroup.maybeUpdateGroupState."""
        if self.is_unloaded:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def current(self, member_id: str) -> ShareAssignment:
        """Return a member's current assignment."""
        return self.currents.get(member_id, NOTHING_ASSIGNED)

    @property
    def topics(self) -> frozenset[str]:
        """The names of all subscribed topics; the topics need not exist."""
        if self._topics is None:
            self._topics = frozenset().union(*(member.topics for member in self.members.values()))
        return self._topics

    def existing(self, names: tuple[str, ...]) -> tuple[KnownTopic, ...]:
        """Return the topics of a subscription that exist."""
        existing = self._known_existing(names)
        if existing is None:
            topics = self.environment.topics
            existing = tuple(topic for name in names if (topic := topics.topic(name)) is not None)
            self._keep(names, existing)
        return existing

    def look_up(self, names: tuple[str, ...]) -> Steps:
        """Compute the result of `existing` in steps, and cache it."""
        if self._known_existing(names) is None:
            topics, existing = self.environment.topics, []
            for number, name in enumerate(names, start=1):
                topic = topics.topic(name)
                if topic is not None:
                    existing.append(topic)
                if not number % STEP_ITEMS:
                    yield
            self._keep(names, tuple(existing))

    def _keep(self, names: tuple[str, ...], existing: tuple[KnownTopic, ...]) -> None:
        if len(self._existing) > len(self.members):
            # Drop the cache when it gets large: refused requests leave entries, too.
            self._existing.clear()
        self._existing[names] = existing

    def _known_existing(self, names: tuple[str, ...]) -> tuple[KnownTopic, ...] | None:
        revision = self.environment.topics.revision
        if revision != self._existing_revision:
            self._existing_revision = revision
            self._existing.clear()
        return self._existing.get(names)

    @property
    def has_unassigned(self) -> bool:
        """Whether the initialized and assigned partitions of a subscribed topic differ.

        Source: initializedAssignmentPending of GroupMetadataManager.
        """
        if self._has_unassigned is None:
            self._has_unassigned = self._find_unassigned()
        return self._has_unassigned

    def _find_unassigned(self) -> bool:
        if self.states is None:
            return False
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()) | partitions
        return any(
            topic.name in self.topics and assigned.get(topic_id) != topic.partitions
            for topic_id, topic in self.states.initialized.items()
        )

    # Offsets: a share group has no committed offsets

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Return GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Return GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_delete(self) -> ErrorCode:
        """Return GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`."""
        return topic in self.topics

    @property
    def offsets_may_expire(self) -> bool:
        """False: a share group does not expire, it can only be deleted."""
        return False
