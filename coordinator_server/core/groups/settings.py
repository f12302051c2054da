"""What groups are made with: the settings that the core reads, and the way to what is outside.

The settings are plain numbers, handed in by the shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class GroupKind(StrEnum):
    """The kinds of groups; the values are the group types that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupSettings(NamedTuple):
    """Broker settings of groups with Kafka's defaults; times in milliseconds.

    `new_member_join_timeout_ms` is a constant of Kafka, no setting: how long a new member may stay
    parked in JoinGroup before it is removed. Those that begin with `consumer_` are of the groups of
    KIP-848, those with `share_` and `streams_` of share groups and of streams groups; a group may
    have some of them as configs of its own. `protocols` are those that are on.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    max_size: int = 2**31 - 1
    offset_metadata_max_length: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_assignment_interval_ms: int = 1_000
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_num_standby_replicas: int = 0
    streams_acceptable_recovery_lag: int = 10_000
    streams_task_offset_interval_ms: int = 60_000
    streams_max_size: int = 2**31 - 1
    protocols: frozenset[GroupKind] = frozenset(GroupKind)


class KnownPartition(Protocol):
    """A partition of a topic."""

    @property
    def replicas(self) -> Sequence[int]:
        """The ids of its brokers."""


class KnownTopic(Protocol):
    """A topic of the cluster."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def topic_id(self) -> bytes:
        """Its id (16 bytes)."""

    @property
    def partitions(self) -> Sequence[KnownPartition]:
        """Its partitions, in order."""


class TopicsView(Protocol):
    """The topics of the cluster, as a group that assigns partitions needs them."""

    @property
    def racks(self) -> Mapping[int, str]:
        """The racks of the brokers that have one, by id."""

    @property
    def revision(self) -> int:
        """Another number after topics were created, deleted or extended; it only rises."""

    @property
    def created_revision(self) -> int:
        """The revision at which a topic was last created."""

    def topic(self, name: str) -> KnownTopic | None:
        """The topic of this name."""

    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        """The topic of this id."""

    def listed_topics(self) -> Iterator[KnownTopic]:
        """Every topic that regular expressions are matched with."""


class NoTopics:
    """A cluster without topics."""

    racks: Mapping[int, str] = {}
    revision = created_revision = 0

    def topic(self, name: str) -> KnownTopic | None:
        """None."""

    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        """None."""

    def listed_topics(self) -> Iterator[KnownTopic]:
        """No topic."""
        return iter(())


_NO_TOPICS = NoTopics()

DEFAULT_WRITE_BYTES = 1_048_588
"""Kafka's default of `message.max.bytes`."""


def _default_write_bytes() -> int:
    return DEFAULT_WRITE_BYTES


def _no_configs(_: str) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class GroupEnvironment:
    """What every group of a coordinator is made with; the core reaches nothing else.

    `settings` are replaced when settings of the broker change at run time.

    `new_member_id(prefix)` makes member ids of classic groups, and `new_uuid()` those of consumer
    groups, as the core has no randomness. `in_place_of(kind, group)` makes a blank group of a kind
    with the offsets of another one (`kinds.in_place_of`). `configs_of(group_id)` are the configs
    that a group has of its own (KIP-848). `largest_write_bytes()` is what the log takes at once.
    """

    settings: GroupSettings
    new_member_id: Callable[[str], str]
    new_uuid: Callable[[], str]
    in_place_of: Callable[[GroupKind, Any], Any]
    topics: TopicsView = _NO_TOPICS
    configs_of: Callable[[str], Mapping[str, str]] = _no_configs
    largest_write_bytes: Callable[[], int] = _default_write_bytes
