"""The exceptions of the client.

They carry Kafka's error code, so that a tool can handle the error.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import ErrorCode


class ClientError(Exception):
    """A request cannot be sent or is refused. The message is the broker's, or else Kafka's text.

    If no broker responded, the code matches the exception that Java's clients would raise:
    NETWORK_EXCEPTION (no connection), REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, INVALID_CONFIG.
    """

    def __init__(self, code: int, message: str | None = None) -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:  # a newer broker may send an error code that is unknown here
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(self.code.message if message is None else message)


class UnsupportedSettingError(ClientError):
    """A client setting of Kafka that is not supported here and must not be ignored silently."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class TlsError(ClientError):
    """A TLS handshake that a retry cannot fix (Java's SslAuthenticationException).

    Kafka has no error code for TLS. The code is SASL_AUTHENTICATION_FAILED, which clients do not
    retry either.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class SaslError(ClientError):
    """A broker rejected a SASL mechanism or a user; `mechanisms` are the broker's mechanisms."""

    def __init__(self, code: int, message: str | None, mechanisms: Sequence[str] = ()) -> None:
        super().__init__(code, message)
        self.mechanisms = tuple(mechanisms)


def check(code: int, message: str | None = None) -> None:
    """Raise ClientError unless `code`, from a response, is 0."""
    if code:
        raise ClientError(code, message)
