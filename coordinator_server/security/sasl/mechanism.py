"""The server side of a SASL mechanism, as the authenticator uses it (Java's SaslServer)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from protocol.utf8 import JAVA_REPLACE


class SaslRefusalError(Exception):
    """The client is refused; the message is only logged, the client gets no details.

    Source: javax.security.sasl.SaslException, and its handling by SaslServerAuthenticator.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SaslAuthenticationError(SaslRefusalError):
    """The client is refused and gets the message `message`; `reason`, if given, is logged."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message if reason is None else reason)
        self.message = message


class UnreadableTokenError(Exception):
    """A token for which Kafka's mechanism throws another exception: the connection is closed."""


_MOST_BROKEN_BYTES = 4096


def text_of(token: bytes) -> str:
    """Decode a token as Java does. Raises UnreadableTokenError for long tokens with invalid UTF-8.

    Only short tokens get U+FFFD for invalid bytes, because replacing half a million bytes takes too
    long.
    """
    if len(token) <= _MOST_BROKEN_BYTES:
        return token.decode("utf-8", JAVA_REPLACE)
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise UnreadableTokenError("a long token that is no UTF-8") from None


_NAME = re.compile(r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+")


def is_sasl_name(text: str) -> bool:
    """Return whether a text is a valid SASL name: "=2C" is a comma, "=3D" an equals sign."""
    return _NAME.fullmatch(text.replace("=2C", "x").replace("=3D", "x")) is not None


def are_items(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a text consists only of consecutive matches of a pattern.

    A repeated group in one regex would keep a backtracking position for each item.
    """
    position = 0
    while position < len(text):
        item = pattern.match(text, position)
        if item is None:
            return False
        position = item.end()
    return True


class Mechanism(Protocol):
    """The authentication exchange with one client.

    `user` is the name that the client sent, and the authenticated user once `is_complete`.
    `expires_at_ms` is the expiry time of the credentials, or None. `has_token` means that they are
    a delegation token.
    """

    user: str
    is_complete: bool
    has_token: bool
    expires_at_ms: int | None

    def evaluate(self, token: bytes) -> bytes:
        """Process a token of the client and return the server's token. Raises SaslRefusalError."""


NewMechanism = Callable[[], Mechanism]
