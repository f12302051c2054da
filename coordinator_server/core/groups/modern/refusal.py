"""How a heartbeat is refused from anywhere below."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.errors import ErrorCode


class RefusedError(Exception):
    """A request is answered with an error; nothing is written."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
