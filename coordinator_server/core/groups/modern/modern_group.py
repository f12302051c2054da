"""ModernGroup: the state and behaviour that consumer, share and streams groups share.

Members send heartbeats, and the coordinator assigns partitions. Only records change durable state;
requests and timers only compute records. Epochs rise in steps of one. Source: Kafka's ModernGroup.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from coordinator_server.core.groups.group import Group
from protocol.apis.list_groups import ListedGroup
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.explain import Trigger
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.offsets import CommittedOffset
    from coordinator_server.core.groups.purgatory import DelayedOperation
    from coordinator_server.core.groups.settings import GroupEnvironment
    from coordinator_server.steps import Steps
    from protocol.apis.offset_commit import OffsetCommitRequest


MEMBER_EPOCHS_SINCE = 9
"""The first OffsetCommit version that carries a member epoch."""

FIRST_EPOCH = 1
"""The group epoch and assignment epoch before any record sets them."""

NEVER_ASSIGNED_MS = 0
"""The assignment timestamp of a group that has no assignment yet, or whose last member has left.
The next assignment need not wait for the assignment interval."""


class ModernGroup(Group):
    """A group whose members have epochs.

    `members` (the attributes that members send), `targets` (target assignments) and `currents`
    (current assignments) are by member id.
    """

    members: Mapping[str, Any]
    targets: Mapping[str, Any]
    currents: Mapping[str, Any]

    def __init__(self, group_id: str, environment: GroupEnvironment) -> None:
        super().__init__(group_id, environment)
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assigned_at_ms = NEVER_ASSIGNED_MS
        """The time at which the target assignment was computed, in ms."""
        self.hashed_revision = -1
        """The topics revision that `metadata_hash` was computed from; not durable."""
        self.static_ids: dict[str, str] = {}
        """Instance id -> member id of static members."""
        self.sessions: dict[str, DelayedOperation[Any]] = {}
        """Member id -> session timer in the purgatory."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group_id!r} {self.state} epoch {self.epoch}>"

    @property
    @abstractmethod
    def state(self) -> StrEnum:
        """The group state, derived from the group's other attributes."""

    @property
    def is_blank(self) -> bool:
        """Always False: a blank group is a classic group."""
        return False

    @property
    def is_dead(self) -> bool:
        """Whether the group was unloaded."""
        return self.is_unloaded

    @property
    def is_vacant(self) -> bool:
        """Whether the group object can be removed."""
        return self.is_unloaded

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members and not self.is_unloaded

    @property
    def member_count(self) -> int:
        """The number of members."""
        return len(self.members)

    def members_with(self, member: Any) -> dict[str, Any]:
        """Return the members after a request.

        `member` replaces its old entry, or the static member with the same instance id.
        """
        members = {**self.members, member.member_id: member}
        previous_id = self.static_ids.get(member.instance_id or "")
        if previous_id is not None and previous_id != member.member_id:
            del members[previous_id]
        return members

    # Offsets

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """Do nothing: only heartbeats renew a session, commits do not."""

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE: offsets can always be deleted, except for subscribed topics."""
        return ErrorCode.NONE

    @property
    def offsets_may_expire(self) -> bool:
        """True: offsets can expire in every state."""
        return True

    def expiry_starts_ms(self, stored: CommittedOffset) -> int:
        """Return the commit timestamp."""
        return stored.commit_timestamp

    # Time

    def may_assign(self, interval: str, now_ms: int) -> bool:
        """Return whether the assignment interval has passed since the last target assignment.

        `interval` is the name of the interval's config. Also returns True if the clock was set back
        since the last assignment.
        """
        shortest_ms = config(self, interval)
        if not self.assigned_at_ms or not shortest_ms:
            return True
        age_ms = now_ms - self.assigned_at_ms
        return age_ms < 0 or age_ms >= shortest_ms

    def expire_timers(self, now_ms: int, effects: Effects) -> Steps | None:
        """Run one expired delayed operation, if no write is pending.

        Each operation must see the records of earlier operations and requests, which are replayed
        only when their writes are settled.
        """
        if not effects.writes:
            operation = next(self.purgatory.expired(now_ms), None)
            if operation is None:
                return None
            self.purgatory.has_new_deadline = True
            return operation.on_expiration(self, now_ms, effects)
        self.purgatory.has_new_deadline = True
        return None

    # Listing and removal

    def listed(self) -> ListedGroup:
        """Return the group's entry in ListGroups; the protocol type is the kind's name."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.kind.value,
            group_state=self.state.value,
            group_type=self.kind.value,
        )

    def end(self, trigger: Trigger, now_ms: int, effects: Effects) -> None:
        """Never called: the tombstones have replaced this group with a classic group.

        Raises AssertionError.
        """
        raise AssertionError(f"{self.group_id} still has records")


class CommittingGroup(ModernGroup):
    """A ModernGroup whose members commit offsets: a consumer or streams group."""

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Check the member and its epoch; return the error or NONE.

        An older member epoch is accepted if the member has held all committed partitions since that
        epoch. Errors: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH,
        ILLEGAL_GENERATION.
        """
        if request.generation_id_or_member_epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if api_version < MEMBER_EPOCHS_SINCE and getattr(member, "classic", None) is None:
            return ErrorCode.UNSUPPORTED_VERSION
        return self.check_member_epoch(request, member)

    def check_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Check like `check_commit`, but accept commits without a member."""
        received = request.generation_id_or_member_epoch
        if received < 0 and not self.members:
            return ErrorCode.NONE
        if received == -1 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self.check_member_epoch(request, member)

    @abstractmethod
    def check_member_epoch(self, request: OffsetCommitRequest, member: Any) -> ErrorCode:
        """Return the error of a commit with a stale epoch of a known member, or NONE."""


def config(group: Group, name: str) -> int:
    """Return a group's value of a numeric config, or the broker's value without an override.

    The field of GroupSettings has the name of the config, with underscores for dots.
    """
    own = group.environment.configs_of(group.group_id).get(name)
    if own is not None:
        return int(own)
    number: int = getattr(group.settings, name.replace(".", "_"))
    return number
