"""RenewDelegationToken (key 39): have a token live longer (KIP-48). Versions 1-2, 2 is flexible."""

from __future__ import annotations

from protocol.schema import BYTES, INT16, INT32, INT64, Message, field


class RenewDelegationTokenRequest(Message, versions=(1, 2), flexible_since=2):
    """Which token, by its HMAC, and for how long from now."""

    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


class RenewDelegationTokenResponse(Message, versions=(1, 2), flexible_since=2):
    """When the token ends, in milliseconds since the epoch."""

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
