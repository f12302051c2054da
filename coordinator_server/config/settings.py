"""The table of the broker's settings: name, type, default, range and meaning of each.

Names and defaults are those of Kafka's reference version (`protocol.REFERENCE_VERSION`);
`advertised.listeners=auto`, `published.*`, `broker.count` and `group.events.*` do not exist in
Kafka. The properties file, the environment, `--set`, DescribeConfigs and docs/settings.md all use
this table. Settings that are defaults of topic configs are derived from `storage.topic_settings`.
"""

from __future__ import annotations

from coordinator_server.config.authorizer_settings import AUTHORIZER_SETTINGS
from coordinator_server.config.group_settings import (
    GROUP_SETTINGS_WITHOUT_EFFECT,
    MODERN_GROUP_SETTINGS,
)
from coordinator_server.config.inert_settings import INERT_SETTINGS
from coordinator_server.config.rows import a_list as _list
from coordinator_server.config.rows import boolean as _boolean
from coordinator_server.config.rows import integer as _int
from coordinator_server.config.rows import long as _long
from coordinator_server.config.rows import short as _short
from coordinator_server.config.rows import string as _string
from coordinator_server.config.security_settings import (
    MAX_REAUTH_SETTING,
    SASL_SETTINGS,
    TLS_SETTINGS,
)
from storage.config_def import INT_MAX, Kind, Setting
from storage.topic_settings import (
    PRODUCER_ID_EXPIRATION_MS,
    TOPIC_SETTINGS,
    TOPIC_SETTINGS_WITHOUT_EFFECT,
)

CONNECTION_RATE = "max.connection.creation.rate"

QUOTAS = (
    Setting("quota.window.num", Kind.INT, 11,
            "Number of windows over which client quotas are measured.", 1, INT_MAX),
    Setting("quota.window.size.seconds", Kind.INT, 1,
            "Length of these windows in seconds.", 1, INT_MAX),
    Setting("controller.quota.window.num", Kind.INT, 11,
            "Number of windows over which controller mutation quotas are measured.", 1, INT_MAX),
    Setting("controller.quota.window.size.seconds", Kind.INT, 1,
            "Length of these windows in seconds.", 1, INT_MAX),
    Setting(CONNECTION_RATE, Kind.INT, INT_MAX,
            "Maximum number of accepted connections per second. For a single listener: "
            "`listener.name.NAME.max.connection.creation.rate`.", 0, INT_MAX),
)  # fmt: skip


DEV_SETTINGS = (
    Setting(
        "dev.security.dir",
        Kind.STRING,
        None,
        "Directory (ours) for a CA, certificates, users and client settings, which the first "
        "start creates. If set, PLAINTEXT listeners become SASL_SSL and the authorizer is "
        "enabled; see dev-security.md.",
    ),
)


QUORUM_VOTERS = "controller.quorum.voters"
"""Several quorum voters cause a warning; the setting has no other effect."""

# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
_LISTENERS = (
    _list("listeners", ("PLAINTEXT://:9092",),
         "Listeners, as NAME://HOST:PORT. An empty host listens on all interfaces; port 0 selects "
         "a free port."),
    _list("advertised.listeners", ("auto",),
         "Addresses that clients get, as NAME://HOST:PORT. With `auto` (ours) each client gets "
         "the address to which it connected, also in DescribeConfigs; see docker.md."),
    _string("published.host", None,
         "Advertised host (ours) for clients that connect through a published port of a "
         "container, that is, from the gateway of its network. If set, it also applies to clients "
         "outside of the container's networks. Default: localhost in a container, for the gateway "
         "only."),
    _int("published.port", 0,
         "Published port of the listener (ours), 0 for its own port; each further broker uses the "
         "next port.", most=65535),
    _string("listener.security.protocol.map",
         "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
         "Security protocol of each listener name; a name that is not in the map must be a "
         "protocol."),
    _list("controller.listener.names", None,
         "Listeners of a KRaft controller. They are ignored, because this broker has no "
         "controller."),
    _list(QUORUM_VOTERS, (), "Controllers, as ID@HOST:PORT. This broker has no controllers.",
         may_be_empty=True),
    _int("node.id", 1, "Id of this broker."),
    _int("broker.id", -1, "Older name of node.id.", least=-1),
    _string("broker.rack", None, "Rack of this broker, or of all brokers of the process."),
    _int("broker.count", 1,
         "Number of brokers in this process (ours). The first has node.id and the ports of "
         "listeners; each further broker has the next id and the next ports. See cluster.md.",
         least=1, most=64),
)

_SOCKETS = (
    _int("socket.request.max.bytes", 104857600,
         "Maximum size of a request in bytes; a larger request closes its connection.", least=1),
    _int("socket.listen.backlog.size", 50,
         "Maximum number of connections that wait to be accepted.", least=1),
    _int("max.connections", INT_MAX,
         "Maximum number of open connections; a further connection waits until another is closed. "
         "For a single listener: `listener.name.NAME.max.connections`."),
    _int("max.connections.per.ip", INT_MAX,
         "Maximum number of connections from one address; a further connection is closed "
         "immediately."),
    _string("max.connections.per.ip.overrides", "",
            "Limits for single addresses, as HOST:COUNT,HOST:COUNT."),
    _long("connections.max.idle.ms", 600000,
         "Idle time after which a connection is closed; a negative value disables this.", least=-1),
)

_GROUPS = (
    _int("group.min.session.timeout.ms", 6000,
         "Minimum session timeout that a member can request."),
    _int("group.max.session.timeout.ms", 1800000,
         "Maximum session timeout that a member can request."),
    _int("group.initial.rebalance.delay.ms", 3000,
         "How long the first rebalance of an empty group waits for more members."),
    _int("group.max.size", INT_MAX, "Maximum number of members of a classic group.", least=1),
    _boolean("group.events.enable", True,
         "Whether rebalances are written to the topic __group_events (ours)."),
    _boolean("group.events.listed", False,
             "Whether requests for all topics return __group_events (ours); requests that name "
             "the topic always return it."),
    _int("group.events.history.size", 32,
         "Number of rebalance records that are kept in memory for each group (ours)."),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
         "Enabled group protocols; `classic` is required, and share groups are always enabled. "
         "Deprecated, as in Kafka.", choices=("classic", "consumer", "streams", "share")),
    _int("group.coordinator.append.linger.ms", -1,
         "Maximum time for which Kafka collects writes of a group into one batch; -1 adapts it to "
         "the load. This broker writes all waiting requests immediately.",
         least=-1),
    _int("group.coordinator.threads", 4, "Threads of the group coordinator.", least=1),
    _int("group.coordinator.background.threads", 2,
         "Threads that compute assignments and resolve regular expressions.", least=1),
    _int("group.coordinator.cached.buffer.max.bytes", 1048588,
         "Maximum size of the buffer that the coordinator keeps for its next write.", least=524288),
)

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4096,
         "Maximum length of the metadata of a commit, in UTF-16 code units."),
    _int("offsets.retention.minutes", 10080,
         "Time for which offsets are kept after their group has become empty.", least=1),
    _long("offsets.retention.check.interval.ms", 600000,
         "Interval between checks for expired offsets.", least=1),
    _int("offsets.commit.timeout.ms", 5000, "Maximum duration of a write of a group.", least=1),
    _int("offsets.load.buffer.size", 5242880,
         "Number of bytes per read while the offsets log is loaded.", least=1),
    _int("offsets.topic.num.partitions", 50,
         "Partitions of __consumer_offsets when it is created.", least=1),
    _short("offsets.topic.replication.factor", 3,
         "Replicas of __consumer_offsets, at most as many as there are brokers.", least=1),
    _int("offsets.topic.segment.bytes", 104857600,
         "Segment size of __consumer_offsets, the minimum for topics.", least=1048576),
    _int("offsets.topic.compression.codec", 0,
         "Compression of the coordinator's records; only 0 (none) is supported.", least=0, most=0),
)

_TOPICS = (
    _boolean("auto.create.topics.enable", True,
         "Whether a Metadata request may create a missing topic."),
    _string("create.topics", None,
            "Topics (ours) that are created at the start if they do not exist, in the format of "
            "wurstmeister/kafka: NAME:PARTITIONS:REPLICAS[:CLEANUP.POLICY][ --config "
            "NAME=VALUE]..."),
    _string("create.topics.separator", ",",
            "Characters that separate topics in create.topics (ours), in addition to line breaks "
            "and blanks."),
    _boolean("delete.topic.enable", True, "Whether topics can be deleted."),
    _int("num.partitions", 1, "Default number of partitions of a new topic.", least=1),
    _int("default.replication.factor", 1,
         "Default replication factor of a new topic.", least=1, most=32767),
    _int("max.request.partition.size.limit", 2000,
         "Maximum number of partitions in a DescribeTopicPartitions response.", least=1),
    _int("telemetry.max.bytes", 1024 * 1024,
         "Maximum size in bytes of the metrics in a PushTelemetry request, also after "
         "decompression.", least=1),
    _int("fetch.max.bytes", 57671680, "Maximum size in bytes of a Fetch response.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1000,
         "Maximum number of fetch sessions."),
    _int("producer.id.expiration.ms", PRODUCER_ID_EXPIRATION_MS,
         "Time for which the sequence numbers of an inactive producer are kept.", least=1),
    _int("producer.id.expiration.check.interval.ms", 600000,
         "Interval between checks for inactive producers.",
         least=1)._replace(internal=True),
)

_TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900000,
         "Maximum transaction timeout that a producer can request.", least=1),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10000,
         "Interval at which transactions that exceed their timeout are aborted.",
         least=1),
    _int("transactional.id.expiration.ms", 604800000,
         "Time after which an unused transactional id is removed.", least=1),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3600000,
         "Interval between checks for unused transactional ids.", least=1),
    _boolean("transaction.partition.verification.enable", True,
         "Whether the broker refuses records for a partition that is not in the transaction "
         "(KIP-890)."),
    _int("add.partitions.to.txn.retry.backoff.ms", 20,
         "Pause before Kafka verifies a partition again while the previous transaction is ending. "
         "This broker responds to EndTxn after the transaction has ended.", least=1),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100,
         "Maximum time for which Kafka repeats the verification.", least=0),
    _boolean("transaction.two.phase.commit.enable", False,
         "Whether transactions without a timeout are allowed (KIP-939). They need InitProducerId "
         "6, which neither Kafka nor this broker advertises."),
    _int("transaction.state.log.num.partitions", 50,
         "Partitions of __transaction_state when it is created.", least=1),
    _short("transaction.state.log.replication.factor", 3,
         "Replicas of __transaction_state, at most as many as there are brokers.", least=1),
    _int("transaction.state.log.segment.bytes", 104857600,
         "Segment size of __transaction_state.", least=1),
    _int("transaction.state.log.min.isr", 2,
         "Minimum in-sync replicas of __transaction_state; all replicas share one log.", least=1),
    _int("transaction.state.log.load.buffer.size", 5242880,
         "Number of bytes per read while transactional ids are loaded.", least=1),
)

_SHARE_COORDINATOR = (
    _int("share.coordinator.state.topic.num.partitions", 50,
         "Partitions of __share_group_state when it is created.", least=1),
    _short("share.coordinator.state.topic.replication.factor", 3,
         "Replicas of __share_group_state, at most as many as there are brokers.", least=1),
    _int("share.coordinator.state.topic.segment.bytes", 104857600,
         "Segment size of __share_group_state.", least=1),
    _short("share.coordinator.state.topic.min.isr", 2,
         "min.insync.replicas of __share_group_state when it is created.", least=1),
    _int("share.coordinator.state.topic.compression.codec", 0,
         "Compression of the share coordinator's records; only 0 (none) is supported.",
         least=0, most=0),
    _int("share.coordinator.state.topic.prune.interval.ms", 300000,
         "Interval at which outdated records of __share_group_state are deleted.",
         least=1)._replace(internal=True),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500,
         "Number of updates of a share partition after which a snapshot is written.", most=500),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300000,
         "Age at which the snapshot of a share partition is rewritten, so that earlier records "
         "can be deleted.", least=1)._replace(internal=True),
    _int("share.coordinator.append.linger.ms", -1,
         "Maximum time for which Kafka collects writes into one batch; -1 adapts it to the load. "
         "This broker writes immediately.", least=-1),
    _int("share.coordinator.write.timeout.ms", 5000,
         "Maximum duration of a write of the share coordinator.", least=1),
    _int("share.coordinator.load.buffer.size", 5242880,
         "Number of bytes per read while __share_group_state is loaded.", least=1),
    _int("share.coordinator.threads", 1, "Threads of the share coordinator.", least=1),
    _int("share.coordinator.cached.buffer.max.bytes", 1048588,
         "Maximum size of the buffer that the share coordinator keeps for its next write.",
         least=524288),
)

_LOGS = (
    _list("log.dir", ("/tmp/kafka-logs",), "Data directory, if log.dirs is not set."),
    _list("log.dirs", None, "Data directory; only the first of a list is used."),
    _list("cordoned.log.dirs", (), "Data directories that get no new partitions.",
         may_be_empty=True),
    _long("log.retention.check.interval.ms", 300000,
         "Interval between checks of retention.", least=1),
    _boolean("log.cleaner.enable", True, "Whether logs are compacted."),
    _long("log.cleaner.backoff.ms", 15000, "Pause of the cleaner when no log needs compaction."),
)

_TOPIC_DEFAULTS = tuple(
    setting for row in TOPIC_SETTINGS.values() for setting in row.source_settings()
)
# fmt: on

SECTIONS: tuple[tuple[str, tuple[Setting, ...]], ...] = (
    ("Listeners and identity", _LISTENERS),
    ("Connections", _SOCKETS),
    ("TLS", TLS_SETTINGS),
    ("SASL", SASL_SETTINGS),
    ("Authorizer", AUTHORIZER_SETTINGS),
    ("Security for development", DEV_SETTINGS),
    ("Quotas", QUOTAS),
    ("Consumer groups", _GROUPS),
    ("Groups of the newer protocols", MODERN_GROUP_SETTINGS),
    ("Committed offsets", _OFFSETS),
    ("Topics, producers and fetches", _TOPICS),
    ("Transactions", _TRANSACTIONS),
    ("Share coordinator", _SHARE_COORDINATOR),
    ("Logs", _LOGS),
    ("Defaults of topics", _TOPIC_DEFAULTS),
    ("Without counterpart", INERT_SETTINGS),
)
"""The whole table, in the order of docs/settings.md."""

SETTINGS: dict[str, Setting] = {
    setting.name: setting for _, section in SECTIONS for setting in section
}

LISTENER_SETTINGS: dict[str, Setting] = {
    name: setting
    for name, setting in SETTINGS.items()
    if (name.startswith(("ssl.", "sasl.")) and setting not in INERT_SETTINGS)
    or name in (MAX_REAUTH_SETTING, CONNECTION_RATE, "max.connections")
}
"""Settings that can be overridden per listener, as listener.name.NAME.SETTING."""


TOPIC_CONFIGS: dict[str, str] = {
    source.name: name for name, row in TOPIC_SETTINGS.items() for source in row.sources
}
"""Broker setting -> the topic config whose default the setting determines."""

WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        QUORUM_VOTERS,
        "cordoned.log.dirs",
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.threads",
        "log.cleaner.enable",
        "offsets.load.buffer.size",
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "share.coordinator.threads",
        "share.coordinator.write.timeout.ms",
        "ssl.protocol",
        "transaction.state.log.load.buffer.size",
        "transaction.state.log.min.isr",
        "transaction.two.phase.commit.enable",
        *GROUP_SETTINGS_WITHOUT_EFFECT,
        *(setting.name for setting in INERT_SETTINGS),
        *(name for name, topic in TOPIC_CONFIGS.items() if topic in TOPIC_SETTINGS_WITHOUT_EFFECT),
    }
)
"""Settings that are checked and described but have no effect."""
