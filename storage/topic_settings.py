"""The table of topic settings (Kafka's TopicConfig, LogConfig and ServerTopicConfigSynonyms).

A row has the type, default, limits and meaning of a topic config, and the broker settings that
determine its default. `LogConfig`, the broker's settings, the checks of CreateTopics and
AlterConfigs, DescribeConfigs and docs/settings.md use this table. Names, defaults and limits are
Kafka's. This module imports almost nothing, because the container's health check loads the settings
every few seconds.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.config_def import INT_MAX, LONG_MAX, Kind, Setting

DAY_MS = 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000
MINUTE_MS = 60 * 1000

MAX_DECOMPRESSED_BYTES = 2**31 - 9
"""The longest array in Java; not a practical limit here."""

PRODUCER_ID_EXPIRATION_MS = DAY_MS
"""Default of producer.id.expiration.ms, which applies to logs but is not a topic config."""


class Source(NamedTuple):
    """A broker setting with the default of a topic config; `factor` converts the unit."""

    name: str
    kind: Kind
    factor: int = 1


class TopicSetting(NamedTuple):
    """A topic config, and its broker settings in order of precedence.

    The last source has the default of the row; the other sources have no default.
    """

    setting: Setting
    sources: tuple[Source, ...] = ()

    def source_settings(self) -> tuple[Setting, ...]:
        """Return the definitions of the broker settings, with the limits of this config."""
        rows = []
        for index, source in enumerate(self.sources):
            meaning, default = self.setting.meaning, self.setting.default
            if index + 1 < len(self.sources):
                following = self.sources[index + 1].name
                meaning, default = f"{meaning[:-1]}; if not set, {following} applies.", None
            elif source.factor != 1:
                assert isinstance(default, int)
                default //= source.factor
            most = self.setting.most
            if source.kind is not self.setting.kind:
                most = INT_MAX
            rows.append(
                self.setting._replace(
                    name=source.name, kind=source.kind, default=default, meaning=meaning, most=most
                )
            )
        return tuple(rows)


def _boolean(name: str, source: str | None, meaning: str) -> TopicSetting:
    setting = Setting(name, Kind.BOOLEAN, False, meaning)
    return TopicSetting(setting, (Source(source, Kind.BOOLEAN),) if source else ())


def _string(
    name: str, source: str, default: str, choices: tuple[str, ...], meaning: str
) -> TopicSetting:
    setting = Setting(name, Kind.STRING, default, meaning, choices=choices)
    return TopicSetting(setting, (Source(source, Kind.STRING),))


def _replicas(name: str, meaning: str) -> TopicSetting:
    return TopicSetting(Setting(name, Kind.LIST, (), meaning, may_be_empty=True))


def _int(
    name: str,
    source: str,
    default: int,
    least: int,
    meaning: str,
    *,
    most: int = INT_MAX,
    besides: int | None = None,
) -> TopicSetting:
    setting = Setting(name, Kind.INT, default, meaning, least, most, besides=besides)
    return TopicSetting(setting, (Source(source, Kind.INT),))


def _long(
    name: str, source: str | tuple[Source, ...], default: int, least: int | None, meaning: str
) -> TopicSetting:
    sources = (Source(source, Kind.LONG),) if isinstance(source, str) else source
    setting = Setting(name, Kind.LONG, default, meaning, least, LONG_MAX)
    return TopicSetting(setting, sources)


# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
_ROWS = (
    TopicSetting(Setting("cleanup.policy", Kind.LIST, ("delete",),
         "Treatment of old segments: `delete`, `compact` or both.",
         choices=("compact", "delete"), may_be_empty=True),
         (Source("log.cleanup.policy", Kind.LIST),)),
    _int("compression.gzip.level", "compression.gzip.level", -1, 1,
         "Level of gzip, -1 for its default.", most=9, besides=-1),
    _int("compression.lz4.level", "compression.lz4.level", 9, 1, "Level of lz4.", most=17),
    _string("compression.type", "compression.type", "producer",
         ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
         "Compression of stored batches; `producer` keeps the producer's compression."),
    _int("compression.zstd.level", "compression.zstd.level", 3, -131072, "Level of zstd.", most=22),
    _long("delete.retention.ms", "log.cleaner.delete.retention.ms", DAY_MS, 0,
         "Time for which a tombstone is kept after compaction."),
    _boolean("errors.deadletterqueue.group.enable", None,
         "Whether a share group may use the topic as its dead letter queue (KIP-1191)."),
    _long("file.delete.delay.ms", "log.segment.delete.delay.ms", MINUTE_MS, 0,
         "How long a deleted file stays on disk."),
    _long("flush.messages", "log.flush.interval.messages", LONG_MAX, 1,
         "Number of records after which the log is flushed to disk; 1 flushes before each "
         "response."),
    _long("flush.ms", (Source("log.flush.interval.ms", Kind.LONG),
         Source("log.flush.scheduler.interval.ms", Kind.LONG)), LONG_MAX, 0,
         "Maximum time until a record is flushed to disk."),
    _replicas("follower.replication.throttled.replicas",
         "Followers whose replication is throttled."),
    _int("index.interval.bytes", "log.index.interval.bytes", 4096, 0,
         "Number of bytes of log between two entries of the offset index."),
    TopicSetting(Setting("internal.segment.bytes", Kind.INT, None,
         "Size of a segment below the least of segment.bytes, for tests.", internal=True)),
    _replicas("leader.replication.throttled.replicas", "Leaders whose replication is throttled."),
    _long("local.retention.bytes", "log.local.retention.bytes", -2, -2,
         "Retention size of the local part of a tiered partition; -2 uses retention.bytes."),
    _long("local.retention.ms", "log.local.retention.ms", -2, -2,
         "Retention time of the local part of a tiered partition; -2 uses retention.ms."),
    _long("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", LONG_MAX, 1,
         "Maximum time until a record is subject to compaction."),
    _int("max.decompressed.message.bytes", "max.decompressed.message.bytes",
         MAX_DECOMPRESSED_BYTES, 1,
              "Maximum size of a record in a compressed batch, after decompression.",
         most=MAX_DECOMPRESSED_BYTES),
    _int("max.message.bytes", "message.max.bytes", 1048588, 0, "Maximum size of a record batch."),
    _long("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", HOUR_MS, 0,
         "Maximum difference of a record's timestamp to the broker's time, if later."),
    _long("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", LONG_MAX, 0,
         "Maximum difference of a record's timestamp to the broker's time, if earlier."),
    _string("message.timestamp.type", "log.message.timestamp.type", "CreateTime",
         ("CreateTime", "LogAppendTime"),
              "Timestamps of records: `CreateTime` (set by the producer) or `LogAppendTime` (set "
              "by the broker)."),
    TopicSetting(Setting("min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5,
         "Fraction of a log that must be dirty before the log is compacted.", 0, 1),
         (Source("log.cleaner.min.cleanable.ratio", Kind.DOUBLE),)),
    _long("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", 0, 0,
         "Minimum time until a record is subject to compaction."),
    _int("min.insync.replicas", "min.insync.replicas", 1, 1,
         "Replicas that must have a record of acks=all."),
    _boolean("preallocate", "log.preallocate",
         "Whether a new segment file is preallocated in its full size."),
    _long("remote.copy.lag.bytes", "log.remote.copy.lag.bytes", -1, -1,
         "Number of newer bytes after which a segment is copied to the remote tier."),
    _long("remote.copy.lag.ms", "log.remote.copy.lag.ms", 0, -1,
         "Age at which a segment is copied to the remote tier."),
    _boolean("remote.log.copy.disable", None,
         "Whether no more segments of a tiered topic are copied to the remote tier."),
    _boolean("remote.log.delete.on.disable", None,
         "Whether the remote part goes when tiering of a topic is turned off."),
    _boolean("remote.storage.enable", None, "Whether a topic is tiered; true is refused."),
    _long("retention.bytes", "log.retention.bytes", -1, None,
         "Size of a partition above which old segments are deleted; -1 means no limit."),
    _long("retention.ms", (Source("log.retention.ms", Kind.LONG),
         Source("log.retention.minutes", Kind.INT, MINUTE_MS),
         Source("log.retention.hours", Kind.INT, HOUR_MS)), 7 * DAY_MS, -1,
         "Retention time of records, -1 for ever."),
    _int("segment.bytes", "log.segment.bytes", 2**30, 2**20, "Largest size of a segment."),
    _int("segment.index.bytes", "log.index.size.max.bytes", 10485760, 4,
         "Largest size of an offset index."),
    _long("segment.jitter.ms", (Source("log.roll.jitter.ms", Kind.LONG),
         Source("log.roll.jitter.hours", Kind.INT, HOUR_MS)), 0, 0,
         "Random part of the age at which a segment is rolled."),
    _long("segment.ms", (Source("log.roll.ms", Kind.LONG),
         Source("log.roll.hours", Kind.INT, HOUR_MS)), 7 * DAY_MS, 1,
         "Age at which a segment is rolled."),
    _boolean("unclean.leader.election.enable", "unclean.leader.election.enable",
         "Whether a replica that is not in sync may become the leader."),
)
# fmt: on

TOPIC_SETTINGS: dict[str, TopicSetting] = {row.setting.name: row for row in _ROWS}
"""The table by topic config, in alphabetical order, as in Kafka's DescribeConfigs."""

TOPIC_SETTINGS_WITHOUT_EFFECT = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "file.delete.delay.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    }
)
"""Configs that are checked, stored and described but have no effect."""

_COMPACTED = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
# The share coordinator itself deletes records that are no longer needed (Kafka:
# ShareCoordinatorService).
_SHARE_STATE = {**_COMPACTED, "cleanup.policy": "delete", "retention.ms": "-1"}
INTERNAL_TOPIC_CONFIGS = {
    "__consumer_offsets": _COMPACTED,
    "__transaction_state": _COMPACTED,
    "__share_group_state": _SHARE_STATE,
}
"""Configs of Kafka's internal topics (GroupCoordinator.groupMetadataTopicConfigs and similar),
used for adopted topics, whose directories do not contain configs."""
