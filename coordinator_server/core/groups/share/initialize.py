"""Initialization of share-partition state: the call to the share coordinator and its response.

Source: maybeCreateInitializeShareGroupStateRequest of GroupMetadataManager, persisterInitialize of
GroupCoordinatorService and the methods it calls.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.effects import AssignedSharePartition, StateCall
from coordinator_server.core.groups.share.leaving import topics_with
from coordinator_server.core.groups.share.partitions import (
    NO_STATES,
    by_topic,
    to_initialize,
    with_given_up,
    with_initialized,
    with_initializing,
)
from coordinator_server.core.groups.share.records import states_record

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects, StateErrors
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.share.member import ShareMember
    from coordinator_server.core.groups.share.partitions import PartitionStates
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Computation
    from protocol.errors import ErrorCode

UNINITIALIZED_START_OFFSET = -1
"""The first read of the partition sets the start offset (share.auto.offset.reset)."""


ADDED_START_OFFSET = 0
"""Partitions added to a topic that the group already reads start at offset 0."""


class Initialization(NamedTuple):
    """Partitions to initialize at an epoch.

    The group already had initialized partitions of `known_topics`.
    """

    partitions: tuple[AssignedSharePartition, ...]
    epoch: int
    known_topics: frozenset[bytes]

    def begin(self, group: ShareGroup, now_ms: int, effects: Effects) -> None:
        """Call the share coordinator, after the partitions were recorded as initializing."""
        group.asked_at_ms = now_ms
        offsets = {
            partition: ADDED_START_OFFSET
            if partition.topic_id in self.known_topics
            else UNINITIALIZED_START_OFFSET
            for partition in self.partitions
        }
        effects.ask(StateCall(offsets, self.epoch, self._answered))

    def _answered(
        self, group: ShareGroup, errors: StateErrors, now_ms: int, effects: Effects
    ) -> None:
        """Record the initialized partitions; after an error, the next heartbeat retries all."""
        if not errors:
            write_initialized(group, self.partitions, effects)
            return
        error = next(iter(errors.values()))
        effects.event("share_state.refused", group=group.group_id, error=error.name)
        if group.states is not None and group.states.initializing:
            gone = by_topic(self.partitions)
            write_states(
                group, with_given_up(group.states, gone, group.environment.topics), effects
            )


def initialization_due(
    group: ShareGroup,
    epoch: int,
    member: ShareMember,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Computation[Initialization | None]:
    """Return the partitions of subscribed topics that need state; append their record.

    Returns None if no partition needs state. `member` is the member after the current heartbeat,
    which the group state does not contain yet.
    """
    states, topics = group.states or NO_STATES, group.environment.topics
    is_known = member == group.members.get(member.member_id)
    if is_known and topics.revision == group.complete_revision:
        return None
    retries = now_ms - group.asked_at_ms >= group.settings.share_initialize_retry_interval_ms
    read = yield from topics_with(group, member, member)
    missing = to_initialize(states, read.values(), retries=retries)
    if not missing:
        if is_known and not states.initializing:
            group.complete_revision = topics.revision
        return None
    records.append(states_record(group.group_id, with_initializing(states, missing, topics)))
    partitions = [
        AssignedSharePartition(topic_id, partition)
        for topic_id, topic in missing.items()
        for partition in sorted(topic.partitions)
    ]
    known = states.initialized.keys() | states.initializing.keys()
    return Initialization(tuple(partitions), epoch, frozenset(known))


def write_initialized(
    group: ShareGroup, partitions: Collection[AssignedSharePartition], effects: Effects
) -> None:
    """Record that the state of the partitions is initialized."""
    done = by_topic(partitions)
    states = with_initialized(group.states or NO_STATES, done, group.environment.topics)
    write_states(group, states, effects)


def write_states(group: ShareGroup, states: PartitionStates, effects: Effects) -> None:
    """Record which partitions have state."""

    def done(_: ErrorCode, now_ms: int, __: Effects) -> None:
        group.asked_at_ms = now_ms

    effects.write([states_record(group.group_id, states)], done)
