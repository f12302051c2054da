"""A topic's settings: Kafka's names, defaults and checks (Kafka's TopicConfig and LogConfig, 4.1).

`SETTINGS` is the one table; `LogConfig` is its typed form that the log reads. Values arrive as
strings, as CreateTopics and AlterConfigs carry them. Settings that mean nothing to a broker without
replicas and tiers are checked and kept as strings, so that DescribeConfigs returns what was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from storage.errors import TopicConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Kind = Literal["BOOLEAN", "DOUBLE", "INT", "LIST", "LONG", "STRING"]
Value = bool | float | int | str | tuple[str, ...]


class TopicSetting(NamedTuple):
    """One row: its name, type, default, the broker setting it falls back to, and its limits."""

    name: str
    kind: Kind
    default: str
    broker_name: str | None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


def _number(
    name: str,
    kind: Kind,
    default: float,
    broker_name: str | None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> TopicSetting:
    return TopicSetting(name, kind, str(default), broker_name, minimum, maximum)


_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_DAY_MS = 24 * 60 * 60 * 1000

SETTINGS: dict[str, TopicSetting] = {
    setting.name: setting
    for setting in (
        TopicSetting(
            "cleanup.policy", "LIST", "delete", "log.cleanup.policy", choices=("compact", "delete")
        ),
        TopicSetting("compression.type", "STRING", "producer", "compression.type", choices=_CODECS),
        _number("compression.gzip.level", "INT", -1, "compression.gzip.level", -1, 9),
        _number("compression.lz4.level", "INT", 9, "compression.lz4.level", 1, 17),
        _number("compression.zstd.level", "INT", 3, "compression.zstd.level", -131072, 22),
        _number(
            "delete.retention.ms", "LONG", _DAY_MS, "log.cleaner.delete.retention.ms", 0, LONG_MAX
        ),
        _number("file.delete.delay.ms", "LONG", 60000, "log.segment.delete.delay.ms", 0, LONG_MAX),
        _number("flush.messages", "LONG", LONG_MAX, "log.flush.interval.messages", 1, LONG_MAX),
        _number("flush.ms", "LONG", LONG_MAX, "log.flush.interval.ms", 0, LONG_MAX),
        TopicSetting("follower.replication.throttled.replicas", "LIST", "", None),
        _number("index.interval.bytes", "INT", 4096, "log.index.interval.bytes", 0, INT_MAX),
        # Kafka's own way round the 1 MiB minimum of segment.bytes, for tests; -1 is "not set".
        _number("internal.segment.bytes", "INT", -1, None, -1, INT_MAX),
        TopicSetting("leader.replication.throttled.replicas", "LIST", "", None),
        _number("local.retention.bytes", "LONG", -2, "log.local.retention.bytes", -2, LONG_MAX),
        _number("local.retention.ms", "LONG", -2, "log.local.retention.ms", -2, LONG_MAX),
        _number(
            "max.compaction.lag.ms",
            "LONG",
            LONG_MAX,
            "log.cleaner.max.compaction.lag.ms",
            1,
            LONG_MAX,
        ),
        _number("max.message.bytes", "INT", 1048588, "message.max.bytes", 0, INT_MAX),
        _number(
            "message.timestamp.after.max.ms",
            "LONG",
            3600000,
            "log.message.timestamp.after.max.ms",
            0,
            LONG_MAX,
        ),
        _number(
            "message.timestamp.before.max.ms",
            "LONG",
            LONG_MAX,
            "log.message.timestamp.before.max.ms",
            0,
            LONG_MAX,
        ),
        TopicSetting(
            "message.timestamp.type",
            "STRING",
            "CreateTime",
            "log.message.timestamp.type",
            choices=("CreateTime", "LogAppendTime"),
        ),
        _number(
            "min.cleanable.dirty.ratio", "DOUBLE", 0.5, "log.cleaner.min.cleanable.ratio", 0, 1
        ),
        _number(
            "min.compaction.lag.ms", "LONG", 0, "log.cleaner.min.compaction.lag.ms", 0, LONG_MAX
        ),
        _number("min.insync.replicas", "INT", 1, "min.insync.replicas", 1, INT_MAX),
        TopicSetting("preallocate", "BOOLEAN", "false", "log.preallocate"),
        TopicSetting("remote.log.copy.disable", "BOOLEAN", "false", None),
        TopicSetting("remote.log.delete.on.disable", "BOOLEAN", "false", None),
        TopicSetting("remote.storage.enable", "BOOLEAN", "false", None),
        _number("retention.bytes", "LONG", -1, "log.retention.bytes", -(2**63), LONG_MAX),
        _number("retention.ms", "LONG", 7 * _DAY_MS, "log.retention.ms", -1, LONG_MAX),
        _number("segment.bytes", "INT", 2**30, "log.segment.bytes", 2**20, INT_MAX),
        _number("segment.index.bytes", "INT", 10485760, "log.index.size.max.bytes", 4, INT_MAX),
        _number("segment.jitter.ms", "LONG", 0, "log.roll.jitter.ms", 0, LONG_MAX),
        _number("segment.ms", "LONG", 7 * _DAY_MS, "log.roll.ms", 1, LONG_MAX),
        TopicSetting(
            "unclean.leader.election.enable", "BOOLEAN", "false", "unclean.leader.election.enable"
        ),
    )
}


def parse_setting(name: str, text: str) -> Value:
    """Return the typed value of a setting; TopicConfigError with Kafka's sentence for a bad one."""
    setting = SETTINGS.get(name)
    if setting is None:
        raise TopicConfigError(f"Unknown topic config name: {name}")
    text = text.strip()
    if setting.kind == "STRING":
        if text not in setting.choices:
            raise _bad(name, text, f"String must be one of: {', '.join(setting.choices)}")
        return text
    if setting.kind == "LIST":
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        for item in items if setting.choices else ():
            if item not in setting.choices:
                raise _bad(name, text, f"String must be one of: {', '.join(setting.choices)}")
        return items
    if setting.kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise _bad(name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    return _parse_number(setting, text)


def _parse_number(setting: TopicSetting, text: str) -> float | int:
    try:
        value = float(text) if setting.kind == "DOUBLE" else int(text)
    except ValueError:
        raise _bad(setting.name, text, f"Not a number of type {setting.kind}") from None
    if setting.kind == "INT" and not -(2**31) <= value <= INT_MAX:
        raise _bad(setting.name, text, "Not a number of type INT")
    if setting.kind == "LONG" and not -(2**63) <= value <= LONG_MAX:
        raise _bad(setting.name, text, "Not a number of type LONG")
    if setting.minimum is not None and not value >= setting.minimum:
        raise _bad(setting.name, text, f"Value must be at least {setting.minimum}")
    if setting.maximum is not None and not value <= setting.maximum:
        raise _bad(setting.name, text, f"Value must be no more than {setting.maximum}")
    return value


def _bad(name: str, text: str, reason: str) -> TopicConfigError:
    return TopicConfigError(f"Invalid value {text} for configuration {name}: {reason}")


class LogConfig(NamedTuple):
    """The settings a log reads, typed; times in milliseconds, sizes in bytes, -1 is "no limit"."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    delete_retention_ms: int = _DAY_MS
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1048588
    message_timestamp_after_max_ms: int = 3600000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10485760
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    producer_id_expiration_ms: int = _DAY_MS

    @property
    def compacts(self) -> bool:
        """Whether the log keeps the last record per key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    def overridden(self, configs: Mapping[str, str]) -> LogConfig:
        """Return these settings with a topic's own on top; TopicConfigError for a bad one."""
        changes: dict[str, Value] = {}
        for name, text in configs.items():
            value = parse_setting(name, text)
            attribute = name.replace(".", "_")
            if name == "internal.segment.bytes":
                if isinstance(value, int) and value > 0:
                    changes["segment_bytes"] = value
            elif attribute in self._fields:
                changes.setdefault(attribute, value)
        if not changes:
            return self
        config: LogConfig = self._replace(**changes)  # type: ignore[arg-type]  # checked by kind
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise TopicConfigError(
                "conflict topic config setting min.compaction.lag.ms "
                f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
                f"({config.max_compaction_lag_ms})"
            )
        return config
