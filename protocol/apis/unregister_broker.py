"""UnregisterBroker (key 64): removes the registration of a broker. Version 0, flexible."""

from __future__ import annotations

from protocol.schema import INT16, INT32, STRING, Message, field


class UnregisterBrokerRequest(Message, versions=(0, 0), flexible_since=0):
    """The broker to unregister."""

    broker_id: int = field(INT32)


class UnregisterBrokerResponse(Message, versions=(0, 0), flexible_since=0):
    """The error code and message of the removal."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
