"""The one table of settings: name, type, default, range and meaning of each.

Names and defaults are Kafka 4.1's; `advertised.listeners=auto`, `published.*`, `broker.count` and
`group.events.*` are ours. The
properties file, the environment, `--set`, DescribeConfigs, the defaults of topics and
docs/settings.md are all read from this table, so none of them can know a setting that another
one does not. Plain tuples, because the table is built at every start.
"""

from enum import IntEnum
from typing import NamedTuple

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: lists are tuples, None is Kafka's null."""


class Kind(IntEnum):
    """The type of a setting; the numbers are those of DescribeConfigs' config_type (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """One setting; `least` and `most` are inclusive, `topic` is its name as a topic's config."""

    name: str
    kind: Kind
    default: Value
    meaning: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    topic: str | None = None


class TopicSetting(NamedTuple):
    """A topic's config: the broker settings that give its default, first set one wins.

    `sources` are (broker setting, factor to the topic config's unit). `default` counts when none
    of the sources has a value.
    """

    name: str
    setting: Setting
    sources: tuple[tuple[str, int], ...]
    default: Value


def _boolean(name: str, default: bool, meaning: str, topic: str | None = None) -> Setting:
    return Setting(name, Kind.BOOLEAN, default, meaning, topic=topic)


def _string(
    name: str,
    default: str | None,
    meaning: str,
    choices: tuple[str, ...] = (),
    topic: str | None = None,
) -> Setting:
    return Setting(name, Kind.STRING, default, meaning, choices=choices, topic=topic)


def _list(
    name: str,
    default: tuple[str, ...],
    meaning: str,
    choices: tuple[str, ...] = (),
    topic: str | None = None,
) -> Setting:
    return Setting(name, Kind.LIST, default, meaning, choices=choices, topic=topic)


def _short(name: str, default: int, meaning: str, least: int) -> Setting:
    return Setting(name, Kind.SHORT, default, meaning, least, 2**15 - 1)


def _int(
    name: str,
    default: int | None,
    meaning: str,
    least: int = 0,
    most: int = INT_MAX,
    topic: str | None = None,
) -> Setting:
    return Setting(name, Kind.INT, default, meaning, least, most, topic=topic)


def _long(
    name: str,
    default: int | None,
    meaning: str,
    least: int = 0,
    topic: str | None = None,
) -> Setting:
    return Setting(name, Kind.LONG, default, meaning, least, LONG_MAX, topic=topic)


def _double(
    name: str, default: float, meaning: str, least: float, most: float, topic: str | None = None
) -> Setting:
    return Setting(name, Kind.DOUBLE, default, meaning, least, most, topic=topic)


# One row is one or two lines: a table, not a page of calls.
# fmt: off
_LISTENERS = (
    _list("listeners", ("PLAINTEXT://:9092",),
         "Where to listen, NAME://HOST:PORT. An empty host is every interface, port 0 picks one."),
    _list("advertised.listeners", ("auto",),
         "Addresses that clients are told, NAME://HOST:PORT. `auto` (ours) tells each client the "
         "address that it reached us by, see docker.md."),
    _string("published.host", None,
         "Host (ours) that clients are told who came through a published port of a container: the "
         "gateway, and with a value also all who are in no network of ours. Without one it is "
         "localhost in a container, and for the gateway only."),
    _int("published.port", 0,
         "Port (ours) at which the listener is published, 0 for its own port; further brokers "
         "count on.", most=65535),
    _list("listener.security.protocol.map", ("PLAINTEXT:PLAINTEXT",),
         "Security protocol of each listener name. Only PLAINTEXT is served; a name that is not "
         "in the map is its own protocol."),
    _list("controller.listener.names", (),
         "Listeners of a KRaft controller; they are left out, there is no controller here."),
    _int("node.id", -1, "Id of this broker; -1 takes broker.id, and 1 without it.", least=-1),
    _int("broker.id", -1, "Older name of node.id.", least=-1),
    _string("broker.rack", None, "Rack of this broker, as Metadata shows it."),
    _int("broker.count", 1,
         "Brokers in this process (ours): the first has node.id and the ports of listeners, each "
         "further one the next id and the next ports. See cluster.md.", least=1, most=64),
)

_SOCKETS = (
    _int("socket.request.max.bytes", 104857600,
         "Largest request in bytes; a longer one closes its connection.", least=1),
    _int("socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", least=1),
    _int("max.connections", INT_MAX,
         "Most connections at a time; one more is closed at once."),
    _long("connections.max.idle.ms", 600000,
         "A connection that is silent for so long is closed; negative turns it off.", least=-1),
)

_GROUPS = (
    _int("group.min.session.timeout.ms", 6000,
         "Shortest session timeout that a member may ask for."),
    _int("group.max.session.timeout.ms", 1800000,
         "Longest session timeout that a member may ask for."),
    _int("group.initial.rebalance.delay.ms", 3000,
         "How long the first rebalance of an empty group waits for more members."),
    _int("group.max.size", INT_MAX, "Most members of a classic group.", least=1),
    _boolean("group.events.enable", True,
         "Whether rebalances are written to the topic __group_events (ours)."),
    _int("group.events.history.size", 32,
         "Records of rebalances that are kept in memory for each group (ours)."),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
         "Group protocols that are on.", choices=("classic", "consumer", "streams", "share")),
    _int("group.coordinator.append.linger.ms", 5,
         "Longest time that a group's writes may be gathered into one batch. What waits in the "
         "mailbox is written at once here, so nothing ever lingers."),
    _int("group.consumer.session.timeout.ms", 45000,
         "Session timeout of members of a consumer group (KIP-848).", least=1),
    _int("group.consumer.min.session.timeout.ms", 45000,
         "Shortest session timeout of a consumer group.", least=1),
    _int("group.consumer.max.session.timeout.ms", 60000,
         "Longest session timeout of a consumer group.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5000,
         "Heartbeat interval that members of a consumer group are told.", least=1),
    _int("group.consumer.min.heartbeat.interval.ms", 5000,
         "Shortest heartbeat interval of a consumer group.", least=1),
    _int("group.consumer.max.heartbeat.interval.ms", 15000,
         "Longest heartbeat interval of a consumer group.", least=1),
    _int("group.consumer.max.size", INT_MAX, "Most members of a consumer group.", least=1),
    _list("group.consumer.assignors", ("uniform", "range"),
         "Server-side assignors; the first is the default."),
    _string("group.consumer.migration.policy", "bidirectional",
         "Which way a group may change between the classic and the consumer protocol.",
         choices=("bidirectional", "upgrade", "downgrade", "disabled")),
    _int("group.consumer.regex.refresh.interval.ms", 600000,
         "How often the topics of a subscription by regular expression are looked up.",
         least=10000),
)

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4096,
         "Longest metadata text of a commit, in UTF-16 units."),
    _int("offsets.retention.minutes", 10080,
         "How long offsets are kept once their group is empty.", least=1),
    _long("offsets.retention.check.interval.ms", 600000,
         "How often expired offsets are looked for.", least=1),
    _int("offsets.commit.timeout.ms", 5000, "Longest time that a group's write may take.", least=1),
    _int("offsets.load.buffer.size", 5242880,
         "Bytes read at a time when the offsets log is loaded.", least=1),
    _int("offsets.topic.num.partitions", 50,
         "Partitions of __consumer_offsets when it is created.", least=1),
    _short("offsets.topic.replication.factor", 3,
         "Replicas of __consumer_offsets, at most as many as there are brokers.", least=1),
    _int("offsets.topic.segment.bytes", 104857600,
         "Segment size of __consumer_offsets; the least that a topic may have.", least=1048576),
    _int("offsets.topic.compression.codec", 0,
         "Compression of what the coordinator writes; only 0 (none) is served.", least=0, most=0),
)

_TOPICS = (
    _boolean("auto.create.topics.enable", True, "Whether asking for a topic may create it."),
    _boolean("delete.topic.enable", True, "Whether topics can be deleted."),
    _int("num.partitions", 1, "Partitions of a topic that names none.", least=1),
    _int("default.replication.factor", 1,
         "Replicas of a topic that names none.", least=1, most=32767),
    _int("max.request.partition.size.limit", 2000,
         "Most partitions that one DescribeTopicPartitions answer holds.", least=1),
    _int("fetch.max.bytes", 57671680, "Most bytes of one Fetch answer.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1000,
         "Fetch sessions that are kept at a time."),
    _int("producer.id.expiration.ms", 86400000,
         "How long the sequence numbers of a silent producer are kept.", least=1),
    _int("transaction.max.timeout.ms", 900000,
         "Longest transaction timeout that a producer may ask for.", least=1),
)

_LOGS = (
    _string("log.dir", "/tmp/kafka-logs", "Data directory, if log.dirs is not set."),
    _string("log.dirs", None, "Data directory; only the first of a list is used."),
    _list("log.cleanup.policy", ("delete",),
         "What happens to old segments.", choices=("compact", "delete"), topic="cleanup.policy"),
    _string("compression.type", "producer",
         "Compression of stored batches; `producer` keeps them as they come.",
         choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
         topic="compression.type"),
    _int("log.segment.bytes", 1073741824,
         "Largest size of a segment.", least=1048576, topic="segment.bytes"),
    _long("log.roll.ms", None, "Age at which a segment is closed; else log.roll.hours.", least=1),
    _int("log.roll.hours", 168, "Age at which a segment is closed.", least=1),
    _long("log.roll.jitter.ms", None, "Random part of it; else log.roll.jitter.hours."),
    _int("log.roll.jitter.hours", 0, "Random part of the age."),
    _long("log.retention.ms", None,
         "How long records are kept, -1 for ever; else log.retention.minutes.", least=-1),
    _int("log.retention.minutes", None,
         "How long records are kept; else log.retention.hours.", least=-1),
    _int("log.retention.hours", 168, "How long records are kept.", least=-1),
    _long("log.retention.bytes", -1,
         "Size of a partition above which old segments go; -1 is no limit.",
         least=-1, topic="retention.bytes"),
    _long("log.retention.check.interval.ms", 300000, "How often retention is applied.", least=1),
    _long("log.segment.delete.delay.ms", 60000,
         "How long a deleted file stays on disk.", topic="file.delete.delay.ms"),
    _int("message.max.bytes", 1048588, "Largest record batch.", topic="max.message.bytes"),
    _string("log.message.timestamp.type", "CreateTime",
         "Whose clock stamps the records.",
         choices=("CreateTime", "LogAppendTime"), topic="message.timestamp.type"),
    _long("log.message.timestamp.before.max.ms", LONG_MAX,
         "How far a record's timestamp may lie in the past.",
         least=0, topic="message.timestamp.before.max.ms"),
    _long("log.message.timestamp.after.max.ms", 3600000,
         "How far a record's timestamp may lie in the future.",
         least=0, topic="message.timestamp.after.max.ms"),
    _int("log.index.interval.bytes", 4096,
         "Bytes of log between two entries of the offset index.",
         least=0, topic="index.interval.bytes"),
    _int("log.index.size.max.bytes", 10485760,
         "Largest size of an offset index.", least=4, topic="segment.index.bytes"),
    _long("log.flush.interval.messages", LONG_MAX,
         "Records after which the log is flushed to disk; 1 flushes before each answer.",
         least=1, topic="flush.messages"),
    _long("log.flush.interval.ms", None,
         "Longest time that a record waits for a flush; else log.flush.scheduler.interval.ms.",
         least=0),
    _long("log.flush.scheduler.interval.ms", LONG_MAX,
         "How often flushes are looked for.", least=1),
    _boolean("log.cleaner.enable", True, "Whether logs are compacted."),
    _long("log.cleaner.backoff.ms", 15000, "Pause of the cleaner when nothing is to do."),
    _double("log.cleaner.min.cleanable.ratio", 0.5,
         "Share of a log that must be dirty before it is compacted.",
         least=0, most=1, topic="min.cleanable.dirty.ratio"),
    _long("log.cleaner.min.compaction.lag.ms", 0,
         "How long a record stays as it was written.", topic="min.compaction.lag.ms"),
    _long("log.cleaner.max.compaction.lag.ms", LONG_MAX,
         "After how long a record must be looked at by the cleaner.",
         least=1, topic="max.compaction.lag.ms"),
    _long("log.cleaner.delete.retention.ms", 86400000,
         "How long a tombstone is kept.", topic="delete.retention.ms"),
    _boolean("log.preallocate", False,
         "Whether a segment's file is made in its full size.", topic="preallocate"),
    _int("min.insync.replicas", 1,
         "Replicas that must have a record of acks=all.", least=1, topic="min.insync.replicas"),
)
# fmt: on

SECTIONS: tuple[tuple[str, tuple[Setting, ...]], ...] = (
    ("Listeners and identity", _LISTENERS),
    ("Connections", _SOCKETS),
    ("Consumer groups", _GROUPS),
    ("Committed offsets", _OFFSETS),
    ("Topics, producers and fetches", _TOPICS),
    ("Logs, and the defaults of topics", _LOGS),
)
"""The whole table, in the order of docs/settings.md."""

SETTINGS: dict[str, Setting] = {
    setting.name: setting for _, section in SECTIONS for setting in section
}


WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        "broker.rack",
        "group.coordinator.append.linger.ms",
        "group.coordinator.rebalance.protocols",
        *(name for name in SETTINGS if name.startswith("group.consumer.")),
        "log.cleaner.enable",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.preallocate",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.segment.delete.delay.ms",
        "min.insync.replicas",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "transaction.max.timeout.ms",
    }
)
"""Settings that are checked and described but change nothing, at least so far."""


def _topic_settings() -> dict[str, TopicSetting]:
    """Topic configs that equal a broker setting, and those that have several units."""
    table = {
        setting.topic: TopicSetting(
            setting.topic, setting, ((setting.name, 1),), default=setting.default
        )
        for setting in SETTINGS.values()
        if setting.topic is not None
    }
    hour, minute = 3600000, 60000
    several = (
        ("retention.ms", "log.retention", (("ms", 1), ("minutes", minute), ("hours", hour))),
        ("segment.ms", "log.roll", (("ms", 1), ("hours", hour))),
        ("segment.jitter.ms", "log.roll.jitter", (("ms", 1), ("hours", hour))),
        ("flush.ms", "log.flush", (("interval.ms", 1), ("scheduler.interval.ms", 1))),
    )
    for name, stem, units in several:
        sources = tuple((f"{stem}.{unit}", factor) for unit, factor in units)
        table[name] = TopicSetting(name, SETTINGS[sources[0][0]], sources, default=None)
    return table


TOPIC_SETTINGS: dict[str, TopicSetting] = _topic_settings()
"""Configs that a topic may have of its own, by their name there (Kafka's LogConfig)."""


def describe() -> str:
    """The table as the Markdown page docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Printed by `coordinator-server settings`. Order: default < properties file <",
        "environment (`KAFKA_GROUP_MAX_SIZE`: `_` is `.`, `__` is `_`, `___` is `-`) < `--set`.",
        "A setting that is not in these tables, or has no effect, is named in one warning line.",
    ]
    for title, section in SECTIONS:
        lines += ["", f"## {title}", "", "| name | type | default | range | meaning |"]
        lines.append("|---|---|---|---|---|")
        for setting in section:
            meaning = setting.meaning
            if setting.name in WITHOUT_EFFECT:
                meaning += " No effect so far."
            if setting.topic is not None:
                meaning += f" Topic config: `{setting.topic}`."
            cells = (
                f"`{setting.name}`",
                setting.kind.name.lower(),
                render(setting.default) or "(none)",
                _range(setting),
                meaning,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def render(value: Value) -> str | None:
    """A value as Kafka writes it in DescribeConfigs; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _range(setting: Setting) -> str:
    """The range of a setting in words."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.least is None:
        return ""
    if setting.most in (INT_MAX, LONG_MAX):
        return f"{setting.least} or more"
    return f"{setting.least} to {setting.most}"
