"""DescribeDelegationToken (key 41): the tokens that there are (KIP-48). Versions 1-3.

Version 2 is flexible, version 3 tells who asked for a token (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT16, INT32, INT64, STRING, Message, field


class DescribeDelegationTokenOwner(Message):
    """Somebody whose tokens are asked for."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribeDelegationTokenRequest(Message, versions=(1, 3), flexible_since=2):
    """Whose tokens; null means all."""

    owners: list[DescribeDelegationTokenOwner] | None = field(
        ARRAY(DescribeDelegationTokenOwner), nullable_since=0
    )


class DescribedDelegationTokenRenewer(Message):
    """Somebody who may renew a token."""

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
    """The tokens that the client may see."""

    error_code: int = field(INT16)
    tokens: list[DescribedDelegationToken] = field(ARRAY(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
