"""RefusedError: refuse a heartbeat from any depth of the call stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.errors import ErrorCode


class RefusedError(Exception):
    """The request is answered with `error` and `message`; no record is written."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
