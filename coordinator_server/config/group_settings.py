"""Settings of consumer, share and streams groups, and the per-group configs.

Part of the table of settings.
"""

from coordinator_server.config.rows import a_list as _list
from coordinator_server.config.rows import boolean as _boolean
from coordinator_server.config.rows import integer as _int
from coordinator_server.config.rows import long as _long
from coordinator_server.config.rows import string as _string
from storage.config_def import INT_MAX, Setting


def _modern(kind: str) -> tuple[Setting, ...]:
    """Return the settings that consumer, share and streams groups have in common (KIP-848)."""
    stem, title = f"group.{kind}", f"a {kind} group"
    return (
        _int(f"{stem}.session.timeout.ms", 45000, f"Session timeout of members of {title}.", 1),
        _int(f"{stem}.min.session.timeout.ms", 45000, f"Shortest session timeout of {title}.", 1),
        _int(f"{stem}.max.session.timeout.ms", 60000, f"Longest session timeout of {title}.", 1),
        _int(
            f"{stem}.heartbeat.interval.ms",
            5000,
            f"Heartbeat interval of members of {title}.",
            1,
        ),
        _int(
            f"{stem}.min.heartbeat.interval.ms", 5000, f"Shortest heartbeat interval of {title}.", 1
        ),
        _int(
            f"{stem}.max.heartbeat.interval.ms", 15000, f"Longest heartbeat interval of {title}.", 1
        ),
        _int(
            f"{stem}.assignment.interval.ms",
            1000,
            f"Shortest time between two assignments of {title}.",
        ),
        _int(f"{stem}.min.assignment.interval.ms", 0, f"Shortest assignment interval of {title}."),
        _int(
            f"{stem}.max.assignment.interval.ms", 15000, f"Longest assignment interval of {title}."
        ),
        _boolean(
            f"{stem}.assignor.offload.enable",
            True,
            f"Whether Kafka computes assignments of {title} in separate threads. This broker "
            "computes long assignments in steps.",
        )._replace(internal=True),
    )


CONSUMER_ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Kafka's assignor classes and the names of the assignors."""
STREAMS_ASSIGNOR_CLASS = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
SHARE_ASSIGNOR_CLASS = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"

DLQ_TOPIC = "errors.deadletterqueue.topic.name"
STREAMS_ASSIGNOR = "streams.assignor.name"
RACK_TAGS = "streams.rack.aware.assignment.tags"

GROUP_SETTINGS_WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        "group.consumer.assignor.offload.enable",
        "group.share.assignor.offload.enable",
        "group.streams.assignor.offload.enable",
        "group.streams.num.warmup.replicas",
        "group.streams.rack.aware.assignment.tags",
    }
)
"""Group settings that are checked and described but have no effect."""

# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
# Consumer, share and streams groups (KIP-848, KIP-932, KIP-1071). Many of these settings can be
# overridden per group.
MODERN_GROUP_SETTINGS = (
    *_modern("consumer"),
    _int("group.consumer.max.size", INT_MAX,
         "Maximum number of members of a consumer group.", least=1),
    _list("group.consumer.assignors", ("uniform", "range"),
         "Server-side assignors, by name or by Kafka's class; the first is the default.",
         choices=("uniform", "range", *CONSUMER_ASSIGNOR_CLASSES)),
    _string("group.consumer.migration.policy", "bidirectional",
         "Directions in which a group may migrate between the classic and the consumer protocol.",
         choices=("bidirectional", "upgrade", "downgrade", "disabled")),
    _int("group.consumer.regex.refresh.interval.ms", 600000,
         "Interval at which regular expressions in subscriptions are resolved again.",
         least=10000)._replace(internal=True),
    *_modern("share"),
    _int("group.share.max.size", 200,
         "Maximum number of members of a share group.", least=1, most=1000),
    _list("group.share.assignors", ("simple",),
         "The server-side assignor, by name or by Kafka's class; exactly one is allowed.",
         choices=("simple", SHARE_ASSIGNOR_CLASS)),
    _string("errors.deadletterqueue.topic.name.prefix", "dlq.",
            "Required prefix of the names of dead letter queues (KIP-1191); if empty, every name "
            "is allowed."),
    _boolean("errors.deadletterqueue.auto.create.topics.enable", False,
             "Whether a dead letter queue is created by the first write to it (KIP-1191)."),
    _int("group.share.initialize.retry.interval.ms", 30000,
         "Delay before a share group retries initializing share-partition state; "
         "offsets.commit.timeout.ms applies if it is longer.", least=1)._replace(internal=True),
    _int("group.share.delivery.count.limit", 5,
         "Maximum number of deliveries of a record to a share group.", least=2, most=10),
    _int("group.share.min.delivery.count.limit", 2,
         "Minimum delivery count limit of a share group.", least=2, most=5),
    _int("group.share.max.delivery.count.limit", 10,
         "Maximum delivery count limit of a share group.", least=5, most=25),
    _int("group.share.partition.max.record.locks", 2000,
         "Maximum number of records of a partition that a share group can lock.",
         least=100, most=10000),
    _int("group.share.min.partition.max.record.locks", 100,
         "Minimum of the limit of record locks that a share group can set.", least=100, most=2000),
    _int("group.share.max.partition.max.record.locks", 4000,
         "Maximum of the limit of record locks that a share group can set.",
         least=2000, most=10000),
    _int("group.share.record.lock.duration.ms", 30000,
         "Duration of the acquisition lock of a record.", least=1000, most=3600000),
    _int("group.share.min.record.lock.duration.ms", 15000,
         "Minimum lock duration that a share group can set.", least=1000, most=30000),
    _int("group.share.max.record.lock.duration.ms", 60000,
         "Maximum lock duration that a share group can set.", least=30000, most=3600000),
    _int("group.share.max.share.sessions", 2000,
         "Maximum number of share sessions of a broker; further sessions are refused.", least=1),
    *_modern("streams"),
    _int("group.streams.max.size", INT_MAX,
         "Maximum number of members of a streams group.", least=1),
    _int("group.streams.initial.rebalance.delay.ms", 3000,
         "Time for which the first assignment of an empty streams group waits for more members."),
    _int("group.streams.num.standby.replicas", 0, "Number of standby replicas of each task."),
    _int("group.streams.max.standby.replicas", 2,
         "Maximum number of standby replicas that a group can set."),
    _list("group.streams.assignors", ("sticky",),
          "Assignors of tasks, by name or by Kafka's class; the first is the default.",
          choices=("sticky", STREAMS_ASSIGNOR_CLASS)),
    _list("group.streams.rack.aware.assignment.tags", (),
          "Client tags over which standby tasks are distributed; the sticky assignor ignores tags.",
          may_be_empty=True),
    _long("group.streams.acceptable.recovery.lag", 10000,
          "Maximum lag in records at which a task counts as caught up; members receive the value "
          "in heartbeat responses."
          )._replace(internal=True),
    _int("group.streams.num.warmup.replicas", 2,
         "Number of concurrent warm-up tasks of a group; the sticky assignor assigns no warm-up "
         "tasks."
         )._replace(internal=True),
    _int("group.streams.max.warmup.replicas", 20,
         "Maximum number of warm-up tasks that a group can set.")._replace(internal=True),
    _int("group.streams.task.offset.interval.ms", 60000,
         "Interval at which members report the offsets of their tasks.",
         least=1)._replace(internal=True),
    _int("group.streams.min.task.offset.interval.ms", 15000,
         "Minimum task offset interval that a group can set.", least=1)._replace(internal=True),
)
# fmt: on


_BY_NAME = {setting.name: setting for setting in MODERN_GROUP_SETTINGS}

# Group configs whose default is the broker setting with the same name after "group.".
_INHERITED = (
    *(
        f"{kind}.{name}"
        for kind in ("consumer", "share", "streams")
        for name in (
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "assignment.interval.ms",
            "assignor.offload.enable",
        )
    ),
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "streams.acceptable.recovery.lag",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags",
    "streams.task.offset.interval.ms",
)

# fmt: off
_OWN = (
    _string("share.auto.offset.reset", "latest", "Where a share group without offsets begins."),
    _string("share.isolation.level", "read_uncommitted", "Which records a share group reads.",
            ("read_committed", "read_uncommitted")),
    _boolean("share.renew.acknowledge.enable", True,
             "Whether members of a share group may renew their locks (KIP-1222)."),
    _string(DLQ_TOPIC, "",
            "Topic for records that a share group gives up, its dead letter queue (KIP-1191)."),
    _boolean("errors.deadletterqueue.copy.record.enable", False,
             "Whether key and value of a record go to the dead letter queue, or headers alone."),
)
# fmt: on

_ASSIGNOR_OF_A_GROUP = _string(
    "group.streams.assignors", None, "Assignor of the tasks of a streams group."
)

GROUP_SETTINGS: dict[str, Setting] = (
    {name: _BY_NAME[f"group.{name}"] for name in _INHERITED}
    | {STREAMS_ASSIGNOR: _ASSIGNOR_OF_A_GROUP}
    | {setting.name: setting for setting in _OWN}
)
"""The configs of a group (Kafka's GroupConfig) by name: the broker setting with the default, or a
setting that exists for groups only."""
