"""DescribeClientQuotas (key 48): quotas of users, clients and addresses (KIP-546). Versions 0-1.

Version 1 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, FLOAT64, INT8, INT16, INT32, STRING, Message, field


class QuotaFilterComponent(Message):
    """Entities of a type (user, client-id, ip): 0 of this name, 1 the default, 2 all of them."""

    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable_since=0)


class DescribeClientQuotasRequest(Message, versions=(0, 1), flexible_since=1):
    """Which entities; `strict` leaves those out that have further types."""

    components: list[QuotaFilterComponent] = field(ARRAY(QuotaFilterComponent))
    strict: bool = field(BOOL)


class DescribedQuotaEntity(Message):
    """One part of an entity's name; null is the default."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable_since=0)


class QuotaValue(Message):
    """One quota."""

    key: str = field(STRING)
    value: float = field(FLOAT64)


class QuotaEntry(Message):
    """The quotas of one entity."""

    entity: list[DescribedQuotaEntity] = field(ARRAY(DescribedQuotaEntity))
    values: list[QuotaValue] = field(ARRAY(QuotaValue))


class DescribeClientQuotasResponse(Message, versions=(0, 1), flexible_since=1):
    """The entities that have quotas; null entries with an error."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    entries: list[QuotaEntry] | None = field(ARRAY(QuotaEntry), nullable_since=0)
