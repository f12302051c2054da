"""The settings that the core reads, as plain numbers handed in by the shell."""

from __future__ import annotations

from typing import NamedTuple


class GroupSettings(NamedTuple):
    """Broker settings of classic groups with Kafka's defaults; times in milliseconds.

    `new_member_join_timeout_ms` is a constant of Kafka, no setting: how long a new member may stay
    parked in JoinGroup before it is removed.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    max_size: int = 2**31 - 1
    offset_metadata_max_length: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
