"""ConsumerGroup: one group of the consumer protocol (KIP-848).

Only records change the state; requests and timers only compute records. Derived data (topic
subscribers, partition owners) is updated with every record. Source: Kafka's ConsumerGroup and
ModernGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.member import (
    NOTHING_OWNED,
    ConsumerGroupState,
    holds_at,
)
from coordinator_server.core.groups.consumer.records import (
    current_of,
    current_record,
    epoch_record,
    group_tombstones,
    member_of,
    member_record,
    regex_of,
    regex_record,
    target_epoch_record,
    target_of,
    target_record,
)
from coordinator_server.core.groups.consumer.regex import NEVER_RESOLVED
from coordinator_server.core.groups.modern.modern_group import CommittingGroup
from coordinator_server.core.groups.offsets import is_too_long
from coordinator_server.core.groups.settings import GroupKind
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import LegacyOffsetCommitKey, OffsetCommitKey

if TYPE_CHECKING:
    from coordinator_server.core.caller import MayDescribe
    from coordinator_server.core.groups.consumer.member import ConsumerMember, CurrentAssignment
    from coordinator_server.core.groups.consumer.regex import ResolvedRegex
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.purgatory import DelayedOperation
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupEnvironment
    from protocol.apis.offset_commit import OffsetCommitRequest

EMPTY, ASSIGNING, RECONCILING, STABLE, DEAD = ConsumerGroupState


class ConsumerGroup(CommittingGroup):
    """A group whose partitions the coordinator assigns.

    `members` (subscriptions), `targets` (target assignments) and `currents` (current assignments)
    are by member id. `owners` maps topic id and partition to the member that owns the partition or
    still has to revoke it.
    """

    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.currents: dict[str, CurrentAssignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        """Regular expression -> its matching topics, for the resolved expressions of members."""
        self.has_legacy_record = False
        """Whether the log holds a record from Kafka before 4.1 that has to be deleted."""

        self.owners: dict[bytes, dict[int, str]] = {}
        self.readers: Counter[str] = Counter()
        """Topic name -> number of members that subscribe to the name."""
        self.regex_members: dict[str, int] = {}
        """Regular expression -> number of members that subscribe to the expression."""

        self.classic_count = 0
        """The number of members that use the classic protocol."""
        self.classic_protocols: dict[str, int] = {}
        """Protocol name -> number of classic-protocol members that list the protocol."""

        self.resolved_revision = -1
        """The topics revision that expressions were last resolved against; not durable."""
        # Member id -> timer in the purgatory.
        self.revocations: dict[str, DelayedOperation[ConsumerGroup]] = {}
        self.rejoins: dict[str, DelayedOperation[ConsumerGroup]] = {}
        self.syncs: dict[str, DelayedOperation[ConsumerGroup]] = {}
        self.resolution: DelayedOperation[ConsumerGroup] | None = None
        self.may_describe: MayDescribe | None = None
        """The describe permissions of the member whose heartbeat triggered the resolution."""

    # Durable state

    def replay(self, record: CoordinatorRecord) -> Group:
        """Apply a record of this group, live or while the log is loaded."""
        self.is_new = False
        key, value = record
        match key:
            case OffsetCommitKey() | LegacyOffsetCommitKey():
                self.offsets.replay(key, value)
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._set_current(member_id, None if value is None else current_of(value))
            case ConsumerGroupMemberMetadataKey(member_id=member_id):
                assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
                self._set_member(member_id, None if value is None else member_of(member_id, value))
            case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                self.targets.pop(member_id, None)
                if value is not None:
                    self.targets[member_id] = target_of(value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
                    self.assignment_epoch = value.assignment_epoch
                    self.assigned_at_ms = value.assignment_timestamp
            case ConsumerGroupRegularExpressionKey(regular_expression=expression):
                assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
                self.resolved.pop(expression, None)
                if value is not None:
                    self.resolved[expression] = regex_of(value)
            case ConsumerGroupPartitionMetadataKey():
                self.has_legacy_record = value is not None
            case ConsumerGroupMetadataKey():
                if value is None:
                    classic: Group = self.environment.in_place_of(GroupKind.CLASSIC, self)
                    return classic
                assert isinstance(value, ConsumerGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        return self

    def _set_member(self, member_id: str, member: ConsumerMember | None) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._discount(before)
            if self.static_ids.get(before.instance_id or "") == member_id:
                del self.static_ids[before.instance_id or ""]
        if member is None:
            for waiting in (self.sessions, self.revocations, self.rejoins, self.syncs):
                if member_id in waiting:
                    self.purgatory.cancel(waiting.pop(member_id))
            return
        self.members[member_id] = member
        self._count(member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member_id

    def _count(self, member: ConsumerMember) -> None:
        self.readers.update(member.topics)
        self._count_the_rest(member, 1)

    def _discount(self, member: ConsumerMember) -> None:
        readers = self.readers
        for topic in member.topics:
            if readers[topic] > 1:
                readers[topic] -= 1
            else:
                del readers[topic]
        self._count_the_rest(member, -1)

    def _count_the_rest(self, member: ConsumerMember, delta: int) -> None:
        if member.regex:
            count(self.regex_members, member.regex, delta)
        if member.classic is not None:
            self.classic_count += delta
            for protocol in member.classic.supported_protocols:
                count(self.classic_protocols, protocol.name, delta)

    def _set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """Set a member's current assignment and update the owners."""
        before = self.currents.pop(member_id, NOTHING_OWNED)
        after = NOTHING_OWNED if current is None else current
        for topic_id, partitions in before.held_beyond(after):
            of_topic = self.owners.get(topic_id, {})
            for partition in partitions:
                if of_topic.get(partition) == member_id:
                    del of_topic[partition]
            if not of_topic:
                self.owners.pop(topic_id, None)
        if current is None:
            return
        self.currents[member_id] = current
        for topic_id, partitions in current.held_beyond(before):
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

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
        records += [
            regex_record(group_id, expression, resolution)
            for expression, resolution in self.resolved.items()
        ]
        if self.has_legacy_record:
            key = ConsumerGroupPartitionMetadataKey(group_id=group_id)
            records.append((key, ConsumerGroupPartitionMetadataValue()))
        return records

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones that delete the group."""
        return group_tombstones(self.group_id, self.members, self.resolved)

    # Derived state

    @property
    def state(self) -> ConsumerGroupState:
        """The group state. Source: ConsumerGroup.maybeUpdateGroupState."""
        if self.is_unloaded:
            return DEAD
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        epoch = self.assignment_epoch
        if all(self.current(member_id).is_reconciled_to(epoch) for member_id in self.members):
            return STABLE
        return RECONCILING

    def current(self, member_id: str) -> CurrentAssignment:
        """Return a member's current assignment."""
        return self.currents.get(member_id, NOTHING_OWNED)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a member owns the partition or still has to revoke it."""
        return partition in self.owners.get(topic_id, ())

    def topics_of(self, member: ConsumerMember) -> Iterator[str]:
        """Yield the topic names of a member's subscription.

        A name can occur twice, and the topics need not exist.
        """
        yield from member.topics
        if member.regex:
            yield from self.resolved.get(member.regex, NEVER_RESOLVED).topics

    def subscribed_topics(
        self, came: Iterable[ConsumerMember] = (), gone: Iterable[ConsumerMember] = ()
    ) -> set[str]:
        """Return all subscribed topic names after adding `came` and removing `gone` members."""
        expressions, lost = dict(self.regex_members), Counter[str]()
        for member in gone:
            lost.update(member.topics)
            if member.regex:
                count(expressions, member.regex, -1)
        names = set(self.readers)
        names.difference_update(topic for topic, by in lost.items() if self.readers[topic] == by)
        for member in came:
            names.update(member.topics)
            if member.regex:
                count(expressions, member.regex, 1)
        for expression in expressions:
            names |= self.resolved.get(expression, NEVER_RESOLVED).topics
        return names

    def changes_assignor(self, before: ConsumerMember, after: ConsumerMember) -> bool:
        """Return whether replacing member `before` by `after` changes the preferred assignor.

        Source: Kafka's hasPreferredServerAssignorChanged.
        """
        if before.assignor == after.assignor:
            return False
        chosen = self.preferred_assignor(self.members)
        return chosen != self.preferred_assignor(self.members_with(after))

    def preferred_assignor(self, members: Mapping[str, ConsumerMember]) -> str:
        """Return the assignor that most members name, or the broker's first if no member names one.

        Ties are broken alphabetically; the last name wins, as in Kafka.
        """
        votes: dict[str, int] = {}
        for member in members.values():
            if member.assignor:
                count(votes, member.assignor, 1)
        if not votes:
            return self.settings.consumer_assignors[0]
        return max((votes[name], name) for name in votes)[1]

    # Offsets

    def check_member_epoch(self, request: OffsetCommitRequest, member: ConsumerMember) -> ErrorCode:
        """Return the error if the commit's member epoch is not accepted, or NONE."""
        current = self.current(member.member_id)
        received = request.generation_id_or_member_epoch
        if received == current.epoch:
            return ErrorCode.NONE
        stale = ErrorCode.STALE_MEMBER_EPOCH
        if member.classic is not None:
            stale = ErrorCode.ILLEGAL_GENERATION
        if received > current.epoch:
            return stale
        limit = self.settings.offset_metadata_max_length
        for topic in request.topics:
            known = self.environment.topics.topic(topic.name)
            topic_id = topic.topic_id if known is None else known.topic_id
            for partition in topic.partitions:
                if is_too_long(partition.committed_metadata, limit):
                    continue  # too long metadata has its own error, which takes precedence
                if not holds_at(current, topic_id, partition.partition_index, received):
                    return stale
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check that a member sends its current epoch; return the error or NONE.

        Returns UNKNOWN_SERVER_ERROR for an epoch without a member id, because Kafka throws.
        """
        if member_id is None:
            return ErrorCode.NONE if member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == self.current(member.member_id).epoch:
            return ErrorCode.NONE
        if member.classic is not None:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`."""
        if topic in self.readers:
            return True
        return any(topic in resolution.topics for resolution in self.resolved.values())


def count(counts: dict[str, int], name: str, by: int) -> None:
    """Add `by` to the count of `name`; remove the entry if the count becomes 0."""
    counts[name] = counts.get(name, 0) + by
    if not counts[name]:
        del counts[name]
