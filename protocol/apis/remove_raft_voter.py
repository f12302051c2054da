"""RemoveRaftVoter (key 81): removes a voter from the quorum (KIP-853). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import INT16, INT32, STRING, UUID, Message, field


class RemoveRaftVoterRequest(Message, versions=(0, 0), flexible_since=0):
    """The voter to remove; a null cluster id is not checked."""

    cluster_id: str | None = field(STRING, nullable_since=0)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)


class RemoveRaftVoterResponse(Message, versions=(0, 0), flexible_since=0):
    """The error code and message of the removal."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
