"""FindCoordinator (key 10): finds the coordinator of a group or a transaction. Versions 0-6.

Version 1 adds the key type (0 group, 1 transaction) and an error message; version 3 is flexible;
version 4 allows several keys (KIP-699); version 5 only adds an error code; version 6 adds key type
2, share groups (KIP-932).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class FindCoordinatorRequest(Message, versions=(0, 6), flexible_since=3):
    """The keys to look up; a single key up to version 3."""

    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)
    coordinator_keys: list[str] = field(ARRAY(STRING), since=4)


class Coordinator(Message):
    """The coordinator of one key, or an error."""

    key: str = field(STRING, since=4)
    node_id: int = field(INT32, since=4)
    host: str = field(STRING, since=4)
    port: int = field(INT32, since=4)
    error_code: int = field(INT16, since=4)
    error_message: str | None = field(STRING, since=4, nullable_since=4)


class FindCoordinatorResponse(Message, versions=(0, 6), flexible_since=3):
    """The coordinators; up to version 3 a single one, in the fields of the response itself."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable_since=1)
    node_id: int = field(INT32, until=3)
    host: str = field(STRING, until=3)
    port: int = field(INT32, until=3)
    coordinators: list[Coordinator] = field(ARRAY(Coordinator), since=4)
