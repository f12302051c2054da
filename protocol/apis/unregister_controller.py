"""UnregisterController (key 94): removes the registration of a controller. Version 0, flexible."""

from __future__ import annotations

from protocol.schema import INT16, INT32, STRING, Message, field


class UnregisterControllerRequest(Message, versions=(0, 0), flexible_since=0):
    """The controller to unregister."""

    controller_id: int = field(INT32)


class UnregisterControllerResponse(Message, versions=(0, 0), flexible_since=0):
    """The error code and message of the removal."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
