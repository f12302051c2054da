"""PLAIN: user name and password in clear text (RFC 4616).

Source: Kafka's PlainSaslServer and PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from coordinator_server.security.sasl.mechanism import SaslAuthenticationError, text_of

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER_PREFIX = "user_"
"""Prefix of the options with user passwords."""

_NOBODYS_PASSWORD = b"\0"  # matches no password, because no password contains NUL


class Plain:
    """The exchange with one client; `passwords` by user name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user = ""
        self.is_complete = self.has_token = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Check name and password. Raises SaslAuthenticationError, with Kafka's messages."""
        parts = text_of(token).split("\0", 3)
        if len(parts) != 3:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        self.user = user
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        expected_bytes = _NOBODYS_PASSWORD if expected is None else _bytes(expected)
        if not hmac.compare_digest(_bytes(password), expected_bytes):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.is_complete = True
        return b""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
