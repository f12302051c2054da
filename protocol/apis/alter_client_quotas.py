"""AlterClientQuotas (key 49): sets and removes quotas (KIP-546). Versions 0-1.

Version 1 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, FLOAT64, INT16, INT32, STRING, Message, field


class AlteredQuotaEntity(Message):
    """One part of an entity's name: type user, client-id or ip; a null name is the default."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable_since=0)


class QuotaOperation(Message):
    """One quota to set or to remove."""

    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


class AlterQuotaEntry(Message):
    """The changes of one entity."""

    entity: list[AlteredQuotaEntity] = field(ARRAY(AlteredQuotaEntity))
    ops: list[QuotaOperation] = field(ARRAY(QuotaOperation))


class AlterClientQuotasRequest(Message, versions=(0, 1), flexible_since=1):
    """The entities to change, or only to validate."""

    entries: list[AlterQuotaEntry] = field(ARRAY(AlterQuotaEntry))
    validate_only: bool = field(BOOL)


class AlteredQuotaEntry(Message):
    """One entity's result."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    entity: list[AlteredQuotaEntity] = field(ARRAY(AlteredQuotaEntity))


class AlterClientQuotasResponse(Message, versions=(0, 1), flexible_since=1):
    """One result per entity."""

    throttle_time_ms: int = field(INT32)
    entries: list[AlteredQuotaEntry] = field(ARRAY(AlteredQuotaEntry))
