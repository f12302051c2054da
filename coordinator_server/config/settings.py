"""The table of the broker's settings: name, type, default, range and meaning of each.

Names and defaults are those of Kafka's reference version (`protocol.REFERENCE_VERSION`);
`advertised.listeners=auto`, `published.*`, `broker.count` and `group.events.*` are ours. The
properties file, the environment, `--set`, DescribeConfigs and docs/settings.md all use this table.
Settings that are defaults of topic configs are derived from `storage.topic_settings`.
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
from storage.config_def import INT_MAX, LONG_MAX, Kind, Setting, render
from storage.topic_settings import (
    PRODUCER_ID_EXPIRATION_MS,
    TOPIC_SETTINGS,
    TOPIC_SETTINGS_WITHOUT_EFFECT,
)

CONNECTION_RATE = "max.connection.creation.rate"

QUOTAS = (
    Setting("quota.window.num", Kind.INT, 11,
            "Samples that the quotas of clients look back on.", 1, INT_MAX),
    Setting("quota.window.size.seconds", Kind.INT, 1, "The length of each of them.", 1, INT_MAX),
    Setting("controller.quota.window.num", Kind.INT, 11,
            "Samples that the quotas of topic changes look back on.", 1, INT_MAX),
    Setting("controller.quota.window.size.seconds", Kind.INT, 1,
            "The length of each of them.", 1, INT_MAX),
    Setting(CONNECTION_RATE, Kind.INT, INT_MAX,
            "Most connections a second that are accepted; also of one listener, as "
            "`listener.name.NAME.max.connection.creation.rate`.", 0, INT_MAX),
)  # fmt: skip


DEV_SETTINGS = (
    Setting(
        "dev.security.dir",
        Kind.STRING,
        None,
        "Directory (ours) with an authority, certificates, users and settings of clients, which "
        "are made at the first start. With it listeners of the protocol PLAINTEXT are SASL_SSL "
        "and the authorizer is on, see dev-security.md.",
    ),
)


QUORUM_VOTERS = "controller.quorum.voters"
"""Several quorum voters cause a warning; the setting has no other effect."""

# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
_LISTENERS = (
    _list("listeners", ("PLAINTEXT://:9092",),
         "Where to listen, NAME://HOST:PORT. An empty host is every interface, port 0 picks one."),
    _list("advertised.listeners", ("auto",),
         "Addresses that clients get, NAME://HOST:PORT. With `auto` (ours) each client gets the "
         "address that it reached us by, which DescribeConfigs shows; see docker.md."),
    _string("published.host", None,
         "Host (ours) for clients that came through a published port of a container: the "
         "gateway, and with a value also all who are in no network of ours. Without one it is "
         "localhost in a container, and for the gateway only."),
    _int("published.port", 0,
         "Port (ours) at which the listener is published, 0 for its own port; further brokers "
         "count on.", most=65535),
    _string("listener.security.protocol.map",
         "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
         "Security protocol of each listener name; a name that is not in the map is its own "
         "protocol."),
    _list("controller.listener.names", None,
         "Listeners of a KRaft controller; they are left out, there is no controller here."),
    _list(QUORUM_VOTERS, (), "Controllers, ID@HOST:PORT; there are none here.",
         may_be_empty=True),
    _int("node.id", 1, "Id of this broker."),
    _int("broker.id", -1, "Older name of node.id, for which it counts.", least=-1),
    _string("broker.rack", None, "Rack of this broker, or of all brokers of the process."),
    _int("broker.count", 1,
         "Brokers in this process (ours): the first has node.id and the ports of listeners, each "
         "further one the next id and the next ports. See cluster.md.", least=1, most=64),
)

_SOCKETS = (
    _int("socket.request.max.bytes", 104857600,
         "Largest request in bytes; a longer one closes its connection.", least=1),
    _int("socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", least=1),
    _int("max.connections", INT_MAX,
         "Most connections at a time, one more waits until another one ends; also of one "
         "listener, as `listener.name.NAME.max.connections`."),
    _int("max.connections.per.ip", INT_MAX,
         "Most connections from one address; one more is closed at once."),
    _string("max.connections.per.ip.overrides", "",
            "Other limits of single addresses, HOST:COUNT,HOST:COUNT."),
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
    _boolean("group.events.listed", False,
             "Whether listings of all topics have __group_events; a request that names the topic "
             "always finds it (ours)."),
    _int("group.events.history.size", 32,
         "Records of rebalances that are kept in memory for each group (ours)."),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
         "Group protocols that are on. Classic has to be, and share groups are on in any case; "
         "deprecated, as in Kafka.", choices=("classic", "consumer", "streams", "share")),
    _int("group.coordinator.append.linger.ms", -1,
         "Longest time that a group's writes may be gathered into one batch, -1 as long as the "
         "load asks for. What waits in the mailbox is written at once here, nothing ever lingers.",
         least=-1),
    _int("group.coordinator.threads", 4, "Threads of the group coordinator.", least=1),
    _int("group.coordinator.background.threads", 2,
         "Threads that compute assignments and look topics up.", least=1),
    _int("group.coordinator.cached.buffer.max.bytes", 1048588,
         "Largest buffer that the coordinator keeps for its next write.", least=524288),
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
    _string("create.topics", None,
            "Topics (ours) that are created at the start unless they exist, as wurstmeister/kafka "
            "does: NAME:PARTITIONS:REPLICAS[:CLEANUP.POLICY][ --config NAME=VALUE]..."),
    _string("create.topics.separator", ",",
            "Characters (ours), each of which separates topics in create.topics; line breaks and "
            "blanks do so always."),
    _boolean("delete.topic.enable", True, "Whether topics can be deleted."),
    _int("num.partitions", 1, "Partitions of a topic that names none.", least=1),
    _int("default.replication.factor", 1,
         "Replicas of a topic that names none.", least=1, most=32767),
    _int("max.request.partition.size.limit", 2000,
         "Most partitions that one DescribeTopicPartitions answer holds.", least=1),
    _int("telemetry.max.bytes", 1024 * 1024,
         "Most bytes of metrics in one PushTelemetry request, also after decompression.", least=1),
    _int("fetch.max.bytes", 57671680, "Most bytes of one Fetch answer.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1000,
         "Fetch sessions that are kept at a time."),
    _int("producer.id.expiration.ms", PRODUCER_ID_EXPIRATION_MS,
         "How long the sequence numbers of a silent producer are kept.", least=1),
    _int("producer.id.expiration.check.interval.ms", 600000,
         "How often silent producers are looked for, to forget them.",
         least=1)._replace(internal=True),
)

_TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900000,
         "Longest transaction timeout that a producer may ask for.", least=1),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10000,
         "How often transactions that are open for too long are looked for, to abort them.",
         least=1),
    _int("transactional.id.expiration.ms", 604800000,
         "How long an unused transactional id is kept.", least=1),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3600000,
         "How often unused transactional ids are looked for.", least=1),
    _boolean("transaction.partition.verification.enable", True,
         "Whether records are refused for a partition that is not in the transaction (KIP-890)."),
    _int("add.partitions.to.txn.retry.backoff.ms", 20,
         "How long Kafka waits before it asks again whether records belong to the transaction, "
         "while the one before is ending. Here an end is answered once it is done.", least=1),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100,
         "For how long Kafka asks again.", least=0),
    _boolean("transaction.two.phase.commit.enable", False,
         "Whether Kafka allows transactions that never time out (KIP-939). It takes "
         "InitProducerId 6, which Kafka does not advertise either."),
    _int("transaction.state.log.num.partitions", 50,
         "Partitions of __transaction_state when it is created.", least=1),
    _short("transaction.state.log.replication.factor", 3,
         "Replicas of __transaction_state, at most as many as there are brokers.", least=1),
    _int("transaction.state.log.segment.bytes", 104857600,
         "Segment size of __transaction_state.", least=1),
    _int("transaction.state.log.min.isr", 2,
         "Replicas that must have a record of __transaction_state; there is one log.", least=1),
    _int("transaction.state.log.load.buffer.size", 5242880,
         "Bytes that are read at a time when transactional ids are loaded.", least=1),
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
         "Compression of what the share coordinator writes; only 0 (none) is served.",
         least=0, most=0),
    _int("share.coordinator.state.topic.prune.interval.ms", 300000,
         "How often records of __share_group_state that are out of date are deleted.",
         least=1)._replace(internal=True),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500,
         "Updates of a share partition after which its whole state is written.", most=500),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300000,
         "After how long the state of a share partition is written again, so that what lies "
         "before it can be deleted.", least=1)._replace(internal=True),
    _int("share.coordinator.append.linger.ms", -1,
         "Longest time that writes may be gathered into one batch, -1 as long as the load asks "
         "for. Nothing ever lingers here.", least=-1),
    _int("share.coordinator.write.timeout.ms", 5000,
         "Longest time that a write of the share coordinator may take.", least=1),
    _int("share.coordinator.load.buffer.size", 5242880,
         "Bytes that are read at a time when __share_group_state is loaded.", least=1),
    _int("share.coordinator.threads", 1, "Threads of the share coordinator.", least=1),
    _int("share.coordinator.cached.buffer.max.bytes", 1048588,
         "Largest buffer that the share coordinator keeps for its next write.", least=524288),
)

_LOGS = (
    _list("log.dir", ("/tmp/kafka-logs",), "Data directory, if log.dirs is not set."),
    _list("log.dirs", None, "Data directory; only the first of a list is used."),
    _list("cordoned.log.dirs", (), "Data directories that take no new partitions.",
         may_be_empty=True),
    _long("log.retention.check.interval.ms", 300000, "How often retention is applied.", least=1),
    _boolean("log.cleaner.enable", True, "Whether logs are compacted."),
    _long("log.cleaner.backoff.ms", 15000, "Pause of the cleaner when nothing is to do."),
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


def describe() -> str:
    """Return the table as Markdown, for docs/settings.md."""
    from protocol import REFERENCE_VERSION

    lines = [
        "# Settings",
        "",
        f"Names and defaults are those of Apache Kafka {REFERENCE_VERSION}; (ours) marks our own.",
        "Printed by `coordinator-server settings`. Order: default < properties file <",
        "environment (`KAFKA_GROUP_MAX_SIZE`: `_` is `.`, `__` is `_`, `___` is `-`) < `--set`.",
        "A setting of Kafka's that is not in these tables, or has no effect, is named in one",
        "warning line. What Kafka does not know either is named beside the setting that was",
        "probably meant; `serve --strict` refuses it.",
    ]
    for title, section in SECTIONS:
        lines += ["", f"## {title}", "", "| name | type | default | range | meaning |"]
        lines.append("|---|---|---|---|---|")
        for setting in section:
            meaning = setting.meaning
            if setting.name in WITHOUT_EFFECT:
                meaning += " No effect."
            if setting.name in TOPIC_CONFIGS:
                meaning += f" Topic config: `{TOPIC_CONFIGS[setting.name]}`."
            cells = (
                f"`{setting.name}`",
                setting.kind.name.lower(),
                render(setting.default) or "(none)",
                _range(setting),
                meaning,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _range(setting: Setting) -> str:
    """Return the range of a setting as text."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.least is None:
        return ""
    if setting.most in (INT_MAX, LONG_MAX):
        return f"{setting.least} or more"
    besides = "" if setting.besides is None else f", or {setting.besides}"
    return f"{setting.least} to {setting.most}{besides}"
