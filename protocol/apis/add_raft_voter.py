"""AddRaftVoter (key 80): adds a voter to the quorum (KIP-853). Versions 0-1, flexible.

Version 1 may request a response before the new set of voters is committed.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, UINT16, UUID, Message, field


class VoterListener(Message):
    """A listener of the voter."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


class AddRaftVoterRequest(Message, versions=(0, 1), flexible_since=0):
    """The voter to add; a null cluster id is not checked."""

    cluster_id: str | None = field(STRING, nullable_since=0)
    timeout_ms: int = field(INT32)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    listeners: list[VoterListener] = field(ARRAY(VoterListener))
    ack_when_committed: bool = field(BOOL, since=1, default=True)


class AddRaftVoterResponse(Message, versions=(0, 1), flexible_since=0):
    """The error code and message of the addition."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
