"""DescribeDelegationToken (key 41): lists tokens (KIP-48). Versions 1-3.

Version 2 is flexible, version 3 adds the requester of a token (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT16, INT32, INT64, STRING, Message, field


class DescribeDelegationTokenOwner(Message):
    """An owner whose tokens are requested."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribeDelegationTokenRequest(Message, versions=(1, 3), flexible_since=2):
    """The owners of the requested tokens; null means all."""

    owners: list[DescribeDelegationTokenOwner] | None = field(
        ARRAY(DescribeDelegationTokenOwner), nullable_since=0
    )


class DescribedDelegationTokenRenewer(Message):
    """A principal that may renew a token."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribedDelegationToken(Message):
    """A token. Timestamps are milliseconds since the epoch."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp: int = field(INT64)
    expiry_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = field(ARRAY(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(Message, versions=(1, 3), flexible_since=2):
    """The tokens that the client is allowed to describe."""

    error_code: int = field(INT16)
    tokens: list[DescribedDelegationToken] = field(ARRAY(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
