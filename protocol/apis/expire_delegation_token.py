"""ExpireDelegationToken (key 40): changes the expiry of a token (KIP-48). Versions 1-2.

Version 2 is flexible.
"""

from __future__ import annotations

from protocol.schema import BYTES, INT16, INT32, INT64, Message, field


class ExpireDelegationTokenRequest(Message, versions=(1, 2), flexible_since=2):
    """The token's HMAC and its remaining lifetime in ms; a negative value expires the token now."""

    hmac: bytes = field(BYTES)
    expiry_time_period_ms: int = field(INT64)


class ExpireDelegationTokenResponse(Message, versions=(1, 2), flexible_since=2):
    """The expiry time in milliseconds since the epoch."""

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
