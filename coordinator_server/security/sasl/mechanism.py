"""What the server side of a SASL mechanism is to the authenticator (Java's SaslServer)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from protocol.utf8 import JAVA_REPLACE


class SaslRefusalError(Exception):
    """The client is refused. The text is for the log alone, the client is told no details.

    Source: javax.security.sasl.SaslException, and how SaslServerAuthenticator answers it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SaslAuthenticationError(SaslRefusalError):
    """The client is refused, and told the text. The log has `reason` if that says more."""

    def __init__(self, told: str, reason: str | None = None) -> None:
        super().__init__(told if reason is None else reason)
        self.told = told


class UnreadableTokenError(Exception):
    """A token at which Kafka's mechanism throws something else: the connection is just closed."""


_MOST_BROKEN_BYTES = 4096


def text_of(token: bytes) -> str:
    """A token as text, as Java reads it. Raises UnreadableTokenError.

    What is no UTF-8 is replaced byte by byte, which takes too long for half a million.
    """
    if len(token) <= _MOST_BROKEN_BYTES:
        return token.decode("utf-8", JAVA_REPLACE)
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise UnreadableTokenError("a long token that is no UTF-8") from None


_NAME = re.compile(r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+")


def is_sasl_name(text: str) -> bool:
    """Whether a text is a name as messages have it: "=2C" is a comma, "=3D" an equals sign."""
    return _NAME.fullmatch(text.replace("=2C", "x").replace("=3D", "x")) is not None


def are_items(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a text is nothing but items of one pattern, one after the other.

    A group that an expression repeats would remember each place at which it may end.
    """
    position = 0
    while position < len(text):
        item = pattern.match(text, position)
        if item is None:
            return False
        position = item.end()
    return True


class Mechanism(Protocol):
    """The conversation with one client.

    `user` is the name that the client gave, for the log, and who it is once `is_complete`.
    `expires_at_ms` is when the credentials end, None if they do not. `has_token` says that they are
    a delegation token.
    """

    user: str
    is_complete: bool
    has_token: bool
    expires_at_ms: int | None

    def evaluate(self, token: bytes) -> bytes:
        """Take a token of the client and give the server's. Raises SaslError."""


NewMechanism = Callable[[], Mechanism]
