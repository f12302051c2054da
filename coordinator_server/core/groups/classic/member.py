"""A member of a classic group, and the session timer of a member id."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from coordinator_server.core.groups.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import Effects, Reply
    from protocol.apis.join_group import JoinGroupResponse
    from protocol.apis.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""(protocol name, the member's metadata), in the member's order of preference."""


LISTS_SHARED, SHARED_LENGTH, SHARED_BYTES = 1024, 8, 4096
"""The number of cached protocol lists, and the largest list: entries and bytes."""


def shared_protocols(protocols: Protocols) -> Protocols:
    """Return a shared list equal to `protocols`, because most members have equal lists.

    A long list is returned unchanged.
    """
    if len(protocols) > SHARED_LENGTH:
        return protocols
    size_bytes = sum([len(name) + len(metadata) for name, metadata in protocols])
    return _shared(protocols) if size_bytes <= SHARED_BYTES else protocols


@lru_cache(LISTS_SHARED)
def _shared(protocols: Protocols) -> Protocols:
    return protocols


class MemberMetadata:
    """One member of a classic group (Kafka's ClassicGroupMember).

    `awaiting_join` and `awaiting_sync` are the replies to parked requests. `is_new` is set until
    the first JoinGroup is answered: until then the member does not know its id and cannot send
    heartbeats.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Reply[JoinGroupResponse] | None = None
        self.awaiting_sync: Reply[SyncGroupResponse] | None = None
        self.is_new = False
        self.session = DelayedHeartbeat(member_id)

    @property
    def is_static(self) -> bool:
        """Whether the member has a group instance id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def cannot_expire(self) -> bool:
        """Whether a parked request keeps the session alive; False for a new member."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return the metadata for `protocol`; the first entry if the protocol is listed twice."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class HasSessions(Protocol):
    """A group whose members have sessions."""

    def session_expired(self, member_id: str, now_ms: int, effects: Effects) -> None:
        """Handle the expiry of a member's session or of a pending member id."""


class DelayedHeartbeat(DelayedOperation[HasSessions]):
    """Expires the session of a member, or a pending member id."""

    __slots__ = ("member_id",)

    def __init__(self, member_id: str) -> None:
        super().__init__()
        self.member_id = member_id

    def on_expiration(self, group: HasSessions, now_ms: int, effects: Effects) -> None:
        """Expire the session. Source: GroupMetadataManager.expireClassicGroupMemberHeartbeat."""
        group.session_expired(self.member_id, now_ms, effects)
