"""The typed settings of a log: the topic settings that affect logs.

Defaults come from the table in `topic_settings`; a topic's own configs are strings from
CreateTopics and AlterConfigs. Other topic settings have no effect on a broker without replication
and tiered storage. These are checked and stored as text for DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from storage.config_def import InvalidValueError, Problem, Setting, Value, parse
from storage.errors import TopicConfigError
from storage.topic_settings import PRODUCER_ID_EXPIRATION_MS, TOPIC_SETTINGS

_T = TypeVar("_T")


# Messages of Kafka's ConfigException.
_INVALID = "Invalid value {text} for configuration {name}: "
_WORDS = {
    Problem.NOT_A_BOOLEAN: _INVALID + "Expected value to be either true or false",
    Problem.NOT_A_NUMBER: _INVALID + "Not a number of type {KIND}",
    Problem.BELOW_KIND: _INVALID + "Not a number of type {KIND}",
    Problem.ABOVE_KIND: _INVALID + "Not a number of type {KIND}",
    Problem.BELOW: _INVALID + "Value must be at least {least}",
    Problem.ABOVE: _INVALID + "Value must be no more than {most}",
    Problem.OUTSIDE: _INVALID + "Value must be between {least} and {most} or equal to {besides}",
    Problem.NOT_A_CHOICE: _INVALID + "String must be one of: {choices}",
    Problem.BLANK_ITEM: "Configuration '{name}' values must not be empty.",
}


_CHECKED = (
    "segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes",
    "flush.messages", "flush.ms", "retention.bytes", "retention.ms", "max.message.bytes",
    "max.decompressed.message.bytes", "index.interval.bytes", "delete.retention.ms",
    "min.compaction.lag.ms", "max.compaction.lag.ms", "file.delete.delay.ms",
    "min.cleanable.dirty.ratio", "cleanup.policy", "unclean.leader.election.enable",
    "min.insync.replicas", "compression.type", "compression.gzip.level",
    "compression.lz4.level", "compression.zstd.level", "preallocate",
    "message.timestamp.type", "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms", "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas", "remote.storage.enable", "local.retention.ms",
    "local.retention.bytes", "remote.log.copy.disable", "remote.copy.lag.ms",
    "remote.copy.lag.bytes", "remote.log.delete.on.disable",
    "errors.deadletterqueue.group.enable", "internal.segment.bytes",
)  # fmt: skip
"""Topic configs in the order of Kafka's LogConfig, which reports the first invalid value."""


def parse_topic_setting(name: str, text: str) -> Value:
    """Return the typed value of a topic config. Raises TopicConfigError with Kafka's message."""
    row = TOPIC_SETTINGS.get(name)
    if row is None:
        raise TopicConfigError(f"Unknown topic config name: {name}")
    return parse_client_config(row.setting, text)


def parse_client_config(setting: Setting, text: str) -> Value:
    """Return the typed value of a config set by a client.

    Raises TopicConfigError with Kafka's message.
    """
    try:
        return parse(setting, text)
    except InvalidValueError as error:
        raise TopicConfigError(error.worded(_WORDS)) from None


def _default(name: str, kind: type[_T]) -> _T:
    value = TOPIC_SETTINGS[name].setting.default
    assert type(value) is kind, name
    return value


class LogConfig(NamedTuple):
    """The settings of a log; times in milliseconds, sizes in bytes.

    Field names are topic config names with `_` for `.`. A negative retention means no limit.
    """

    cleanup_policy: tuple[str, ...] = _default("cleanup.policy", tuple)
    compression_type: str = _default("compression.type", str)
    delete_retention_ms: int = _default("delete.retention.ms", int)
    flush_messages: int = _default("flush.messages", int)
    flush_ms: int = _default("flush.ms", int)
    index_interval_bytes: int = _default("index.interval.bytes", int)
    max_compaction_lag_ms: int = _default("max.compaction.lag.ms", int)
    max_decompressed_message_bytes: int = _default("max.decompressed.message.bytes", int)
    max_message_bytes: int = _default("max.message.bytes", int)
    message_timestamp_after_max_ms: int = _default("message.timestamp.after.max.ms", int)
    message_timestamp_before_max_ms: int = _default("message.timestamp.before.max.ms", int)
    message_timestamp_type: str = _default("message.timestamp.type", str)
    min_cleanable_dirty_ratio: float = _default("min.cleanable.dirty.ratio", float)
    min_compaction_lag_ms: int = _default("min.compaction.lag.ms", int)
    retention_bytes: int = _default("retention.bytes", int)
    retention_ms: int = _default("retention.ms", int)
    segment_bytes: int = _default("segment.bytes", int)
    segment_index_bytes: int = _default("segment.index.bytes", int)
    segment_ms: int = _default("segment.ms", int)
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS

    @property
    def compacts(self) -> bool:
        """Whether the log keeps the last record per key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    def overridden(self, configs: Mapping[str, str], *, is_known: bool = False) -> LogConfig:
        """Return these settings overridden by a topic's own configs. Raises TopicConfigError.

        Conflicts are not checked for an existing topic (`is_known`), because the defaults may have
        changed since its creation.
        """
        changes: dict[str, Value] = {}
        for name in configs:
            if name not in TOPIC_SETTINGS:  # Kafka reports unknown names before invalid values
                raise TopicConfigError(f"Unknown topic config name: {name}")
        names = sorted(configs, key=_CHECKED.index) if len(configs) > 1 else configs
        for name in names:
            value = parse_topic_setting(name, configs[name])
            field = field_of(name)
            if name == "internal.segment.bytes":
                if isinstance(value, int) and value > 0:
                    changes["segment_bytes"] = value
            elif field is not None:
                changes.setdefault(field, value)
        if not changes:
            return self
        config: LogConfig = self._replace(**changes)  # type: ignore[arg-type]  # checked by kind
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms and not is_known:
            raise TopicConfigError(
                "conflict topic config setting min.compaction.lag.ms "
                f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
                f"({config.max_compaction_lag_ms})"
            )
        return config


def field_of(name: str) -> str | None:
    """Return the LogConfig field of a topic config; None if logs do not use the config."""
    field = name.replace(".", "_")
    return field if field in LogConfig._fields else None
