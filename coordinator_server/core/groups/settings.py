"""The settings of the core, and GroupEnvironment: the functions that groups call outside it.

The settings are plain values; `coordinator` passes them to the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class GroupKind(StrEnum):
    """The kinds of groups; the values are the group types in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupSettings(NamedTuple):
    """Broker settings of groups, with Kafka's defaults; times in milliseconds.

    `new_member_join_timeout_ms` is a constant in Kafka, not a setting: the longest time that a new
    member may wait in JoinGroup before it is removed. The prefixes `consumer_` (KIP-848), `share_`
    and `streams_` mark settings of consumer, share and streams groups; group configs override some
    of them. `protocols` are the enabled group protocols.
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
        """The broker ids of the replicas."""


class KnownTopic(Protocol):
    """A topic of the cluster."""

    @property
    def name(self) -> str:
        """The topic name."""

    @property
    def topic_id(self) -> bytes:
        """The topic id (16 bytes)."""

    @property
    def partitions(self) -> Sequence[KnownPartition]:
        """The partitions, in order."""


class TopicsView(Protocol):
    """The topics of the cluster, as partition assignment needs them."""

    @property
    def racks(self) -> Mapping[int, str]:
        """Broker id -> rack, for brokers with a rack."""

    @property
    def revision(self) -> int:
        """A number that rises whenever topics are created, deleted or extended."""

    @property
    def created_revision(self) -> int:
        """The revision of the most recent topic creation."""

    def topic(self, name: str) -> KnownTopic | None:
        """Return the topic with this name, or None."""

    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        """Return the topic with this id, or None."""

    def listed_topics(self) -> Iterator[KnownTopic]:
        """Iterate over the topics that regular expressions are matched against."""


class NoTopics:
    """A cluster without topics."""

    racks: Mapping[int, str] = {}
    revision = created_revision = 0

    def topic(self, name: str) -> KnownTopic | None:
        """Return None."""

    def topic_by_id(self, topic_id: bytes) -> KnownTopic | None:
        """Return None."""

    def listed_topics(self) -> Iterator[KnownTopic]:
        """Return an empty iterator."""
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
    """The environment that all groups of a coordinator share; the core accesses nothing else.

    `settings` are replaced when broker settings change at run time.

    The core has no randomness: `new_member_id(prefix)` makes member ids for classic groups,
    `new_uuid()` for consumer groups. `in_place_of(kind, group)` makes a blank group of a kind with
    the offsets of another group (`kinds.in_place_of`). `configs_of(group_id)` returns the group
    configs (KIP-848). `largest_write_bytes()` is the largest batch that the log accepts.
    """

    settings: GroupSettings
    new_member_id: Callable[[str], str]
    new_uuid: Callable[[], str]
    in_place_of: Callable[[GroupKind, Any], Any]
    topics: TopicsView = _NO_TOPICS
    configs_of: Callable[[str], Mapping[str, str]] = _no_configs
    largest_write_bytes: Callable[[], int] = _default_write_bytes
