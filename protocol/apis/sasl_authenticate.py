"""SaslAuthenticate (key 36): exchanges tokens of the SASL mechanism (KIP-152).

Versions 0-2, flexible from 2. Version 1 adds the session lifetime (KIP-368).
"""

from __future__ import annotations

from protocol.schema import BYTES, INT16, INT64, STRING, Message, field


class SaslAuthenticateRequest(Message, versions=(0, 2), flexible_since=2):
    """A token from the client."""

    auth_bytes: bytes = field(BYTES)


class SaslAuthenticateResponse(Message, versions=(0, 2), flexible_since=2):
    """A token from the server, or the error of the authentication."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1)
