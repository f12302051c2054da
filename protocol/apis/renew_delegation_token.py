"""RenewDelegationToken (key 39): extends a token's lifetime (KIP-48). Versions 1-2.

Version 2 is flexible.
"""

from __future__ import annotations

from protocol.schema import BYTES, INT16, INT32, INT64, Message, field


class RenewDelegationTokenRequest(Message, versions=(1, 2), flexible_since=2):
    """The token's HMAC and its new lifetime in ms, from now."""

    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


class RenewDelegationTokenResponse(Message, versions=(1, 2), flexible_since=2):
    """The expiry time in milliseconds since the epoch."""

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
