"""DescribeClientQuotas (key 48): quotas of users, clients and addresses (KIP-546). Versions 0-1.

Version 1 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, FLOAT64, INT8, INT16, INT32, STRING, Message, field


class QuotaFilterComponent(Message):
    """A filter for entities of a type (user, client-id, ip): 0 exact name, 1 default, 2 any."""

    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable_since=0)


class DescribeClientQuotasRequest(Message, versions=(0, 1), flexible_since=1):
    """Filters for entities; `strict` excludes entities with further types."""

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
    """The matching entities with quotas; null in case of an error."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    entries: list[QuotaEntry] | None = field(ARRAY(QuotaEntry), nullable_since=0)
