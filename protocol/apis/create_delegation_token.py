"""CreateDelegationToken (key 38): creates a token for authentication (KIP-48). Versions 1-3.

Version 2 is flexible, version 3 allows owners other than the requester (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT16, INT32, INT64, STRING, Message, field


class CreatableRenewers(Message):
    """A principal that may renew the token."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class CreateDelegationTokenRequest(Message, versions=(1, 3), flexible_since=2):
    """The owner, the renewers and the maximum lifetime in ms; -1 is the broker's maximum."""

    owner_principal_type: str | None = field(STRING, since=3, nullable_since=3)
    owner_principal_name: str | None = field(STRING, since=3, nullable_since=3)
    renewers: list[CreatableRenewers] = field(ARRAY(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


class CreateDelegationTokenResponse(Message, versions=(1, 3), flexible_since=2):
    """The new token. Timestamps are milliseconds since the epoch."""

    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp_ms: int = field(INT64)
    expiry_timestamp_ms: int = field(INT64)
    max_timestamp_ms: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    throttle_time_ms: int = field(INT32)
