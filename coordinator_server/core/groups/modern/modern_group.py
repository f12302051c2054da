"""ModernGroup: what consumer, share and streams groups have in common.

Members heartbeat, and the coordinator assigns. All durable state is made by records; requests and
timers only compute them. Epochs rise in steps of one. Source: Kafka's ModernGroup.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.modern.configs import config
from protocol.apis.list_groups import ListedGroup
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from coordinator_server.core.groups.effects import Effects, Steps
    from coordinator_server.core.groups.explain import Trigger
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.core.groups.purgatory import DelayedOperation
    from coordinator_server.core.groups.settings import GroupEnvironment

MEMBER_EPOCHS_SINCE = 9
"""The version of OffsetCommit from which on it carries a member epoch."""

FIRST_EPOCH = 1
"""Of the group and of its assignment, before a record says otherwise."""

NEVER_ASSIGNED_MS = 0
"""The assignment timestamp of a group without a computed assignment: none yet, or the last member
has gone. The next assignment need not wait for the assignment interval."""


class ModernGroup(Group):
    """A group whose members have epochs.

    `members`, `targets` and `currents` are by member id: what each member says of itself, what it
    shall have and what it has.
    """

    members: Mapping[str, Any]
    targets: Mapping[str, Any]
    currents: Mapping[str, Any]

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assigned_at_ms = NEVER_ASSIGNED_MS
        """When the target assignment was computed."""
        self.hashed_revision = -1
        """The revision of the topics that `metadata_hash` was computed of; soft."""
        self.static_ids: dict[str, str] = {}
        """Instance id -> member id, of static members."""
        self.sessions: dict[str, DelayedOperation[Any]] = {}
        """By member id: what `timers` has wait in the purgatory."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group_id!r} {self.state} epoch {self.epoch}>"

    @property
    @abstractmethod
    def state(self) -> StrEnum:
        """The state, which follows from all else."""

    @property
    def is_blank(self) -> bool:
        """Never: a blank one is a classic group."""
        return False

    @property
    def is_dead(self) -> bool:
        """Whether the group was unloaded."""
        return self.is_unloaded

    @property
    def is_vacant(self) -> bool:
        """Whether the group may be forgotten."""
        return self.is_unloaded

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members and not self.is_unloaded

    @property
    def member_count(self) -> int:
        """How many members the group has."""
        return len(self.members)

    # Offsets

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """A commit renews no session: heartbeats do."""

    def check_offset_delete(self) -> ErrorCode:
        """Always, but for topics that are read."""
        return ErrorCode.NONE

    @property
    def offsets_may_expire(self) -> bool:
        """In every state."""
        return True

    def expiry_starts_ms(self, stored: CommittedOffset) -> int:
        """From the commit."""
        return stored.commit_timestamp

    # Time

    def may_assign(self, interval: str, now_ms: int) -> bool:
        """Whether the last target assignment was computed long enough ago, by the config of the
        name `interval`, or the clock was set back since then."""
        shortest_ms = config(self, interval)
        if not self.assigned_at_ms or not shortest_ms:
            return True
        age_ms = now_ms - self.assigned_at_ms
        return age_ms < 0 or age_ms >= shortest_ms

    def expire_timers(self, now_ms: int, effects: Effects) -> Steps | None:
        """Run one delayed operation whose time has come: the next one has to see its records.

        It has to see those of others as well that wait to be written.
        """
        if not effects.writes:
            operation = next(self.purgatory.expired(now_ms), None)
            if operation is None:
                return None
            self.purgatory.has_new_deadline = True
            return operation.on_expiration(self, now_ms, effects)
        self.purgatory.has_new_deadline = True
        return None

    # Its end

    def listed(self) -> ListedGroup:
        """The group's entry in ListGroups; the protocol type is that of the kind."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.kind.value,
            group_state=self.state.value,
            group_type=self.kind.value,
        )

    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """Its tombstones have made it a classic group, which ends."""
        raise AssertionError(f"{self.group_id} still has records")
