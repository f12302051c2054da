"""ClassicMembership: members, static ids, pending ids, leader and protocol votes.

The data half of Kafka's ClassicGroup, without time or requests. Counts are updated with every
change, so that the cost of a request does not grow with the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic.member import (
    DelayedHeartbeat,
    MemberMetadata,
    Protocols,
)
from protocol.hashing import java_bucket

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Reply
    from protocol.apis.join_group import JoinGroupResponse


_TABLE_SIZE = 16
"""The table size of a small Java HashMap."""


class ClassicMembership:
    """The members by id, in join order, and derived data.

    `pending` has the member ids that were given out but not used yet (MEMBER_ID_REQUIRED).
    """

    __slots__ = ("_supported", "awaiting_join", "leader_id", "members", "pending", "static_ids")

    def __init__(self) -> None:
        self.members: dict[str, MemberMetadata] = {}
        self.static_ids: dict[str, str] = {}
        self.pending: dict[str, DelayedHeartbeat] = {}
        self.leader_id: str | None = None
        self.awaiting_join = 0
        self._supported: dict[str, int] = {}

    def add(self, member: MemberMetadata) -> None:
        """Add a member; the first member becomes the leader."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids
            self.static_ids[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, +1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: MemberMetadata) -> None:
        """Remove a member without parked requests.

        If the member was the leader, the longest-standing member becomes leader.
        """
        assert member.awaiting_join is None
        assert member.awaiting_sync is None
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        self._count(member.protocols, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: MemberMetadata, new_member_id: str) -> None:
        """Give a static member a new id; its position and leadership are kept."""
        old_member_id = member.member_id
        assert member.group_instance_id is not None
        self.members = {
            new_member_id if member_id == old_member_id else member_id: known_member
            for member_id, known_member in self.members.items()
        }
        self.static_ids[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        member.member_id = new_member_id

    def set_protocols(self, member: MemberMetadata, protocols: Protocols) -> None:
        """Replace the protocols of a member."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, +1)

    def park_join(
        self, member: MemberMetadata, reply: Reply[JoinGroupResponse]
    ) -> Reply[JoinGroupResponse] | None:
        """Park a JoinGroup until the end of the join phase; return the reply that it replaces."""
        replaced = member.awaiting_join
        if replaced is None:
            self.awaiting_join += 1
        member.awaiting_join = reply
        return replaced

    def take_join(self, member: MemberMetadata) -> Reply[JoinGroupResponse] | None:
        """Remove and return the parked JoinGroup of a member, or None."""
        reply = member.awaiting_join
        if reply is not None:
            self.awaiting_join -= 1
            member.awaiting_join = None
        return reply

    @property
    def all_joined(self) -> bool:
        """Whether every member waits in JoinGroup and no member id is pending."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members in ms; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """If the leader has not rejoined, make the first joined member leader.

        Returns False if no member has joined.
        """
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def supports_any(self, names: Iterable[str]) -> bool:
        """Return whether at least one protocol of `names` is supported by every member."""
        count = len(self.members)
        return any(self._supported.get(name) == count for name in names)

    def selected_protocol(self) -> str:
        """Return the protocol with the most votes; each member votes for its first common protocol.

        Ties are broken by the order of Java's HashMap, as in Kafka.
        """
        count = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            for name, _ in member.protocols:
                if self._supported[name] == count:
                    votes[name] += 1
                    break
        assert votes, "members without a common protocol"
        return max(votes, key=lambda name: (votes[name], -java_bucket(name, _TABLE_SIZE)))

    def _count(self, protocols: Protocols, by: int) -> None:
        """Add `by` to the number of members that support each of the protocols.

        A name that is listed twice counts once. With at most one member the table is rebuilt, so
        that a long list is not counted entry by entry.
        """
        if len(self.members) <= 1:
            members = self.members.values()
            names = (name for member in members for name, _ in member.protocols)
            self._supported = dict.fromkeys(names, 1)
            return
        for name in dict(protocols):
            count = self._supported.get(name, 0) + by
            if count:
                self._supported[name] = count
            else:
                del self._supported[name]
