"""Beginning the state of partitions at the share coordinator: what a group asks, and the answer.

Source: maybeCreateInitializeShareGroupStateRequest of GroupMetadataManager, persisterInitialize of
GroupCoordinatorService and what that calls.
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
"""Who reads first from a partition decides where the group begins (share.auto.offset.reset)."""


ADDED_START_OFFSET = 0
"""A group reads partitions that are added to a known topic from their start."""


class Initialization(NamedTuple):
    """Partitions whose state shall begin, at an epoch; `known_topics` had partitions before."""

    partitions: tuple[AssignedSharePartition, ...]
    epoch: int
    known_topics: frozenset[bytes]

    def begin(self, group: ShareGroup, now_ms: int, effects: Effects) -> None:
        """Ask for it, now that the record says so."""
        group.asked_at_ms = now_ms
        offsets = {
            one: ADDED_START_OFFSET
            if one.topic_id in self.known_topics
            else UNINITIALIZED_START_OFFSET
            for one in self.partitions
        }
        effects.ask(StateCall(offsets, self.epoch, self._answered))

    def _answered(
        self, group: ShareGroup, errors: StateErrors, now_ms: int, effects: Effects
    ) -> None:
        """Either all of them have begun, or all are asked for again by the next heartbeat."""
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
    """What has to be initialized of the topics that a group reads, with the record that says so.

    `member` is as it is after the heartbeat at hand, which the group does not know yet.
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
    """Record that the state of partitions has begun."""
    done = by_topic(partitions)
    states = with_initialized(group.states or NO_STATES, done, group.environment.topics)
    write_states(group, states, effects)


def write_states(group: ShareGroup, states: PartitionStates, effects: Effects) -> None:
    """Record of which partitions there is state."""

    def done(_: ErrorCode, now_ms: int, __: Effects) -> None:
        group.asked_at_ms = now_ms

    effects.write([states_record(group.group_id, states)], done)
