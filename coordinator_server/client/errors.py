"""The one exception of the client. It carries Kafka's error code, so that a tool can act on it."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import ErrorCode


class ClientError(Exception):
    """A broker cannot be asked, or refuses. The message is the broker's, else Kafka's text.

    Where no broker answered, the code is that of the exception Java's clients would raise:
    NETWORK_EXCEPTION (no connection), REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, INVALID_CONFIG.
    """

    def __init__(self, code: int, message: str | None = None) -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:  # of a newer broker
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(self.code.message if message is None else message)


class UnsupportedSettingError(ClientError):
    """A setting of Kafka's clients that this client does not have, where ignoring it would harm."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class TlsError(ClientError):
    """A handshake that another attempt cannot mend (Java's SslAuthenticationException).

    Kafka has no error code for it; this one ends a client as well.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class SaslError(ClientError):
    """A broker that refuses a mechanism or a user; `mechanisms` are those that it offers."""

    def __init__(self, code: int, message: str | None, mechanisms: Sequence[str] = ()) -> None:
        super().__init__(code, message)
        self.mechanisms = tuple(mechanisms)


def check(code: int, message: str | None = None) -> None:
    """Raise ClientError unless `code`, of an answer, is 0."""
    if code:
        raise ClientError(code, message)
