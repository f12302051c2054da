"""Dynamic configs of brokers: scopes, values, layers, effects (profile K)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import batches, broker_configs
from tests.conformance.broker_configs import (
    ALL,
    APPEND,
    DELETE,
    LOGGER,
    NODE,
    SET,
    SUBTRACT,
    alter,
    clean,
    replace,
    show,
)
from tests.conformance.stage import Area, Stage

AREA = Area("broker_configs", "k")

_NUMBERS = ["1", "0", "-1", "-2", " 7 ", "+7", "007", "x", "", "1.5", "2147483648", "1e3", None]
# Kafka accepts " 7 " for a group interval but leaves the interval unchanged.
_PLAIN = [one for one in _NUMBERS if one != " 7 "]
_MORE = ["9223372036854775807", "9223372036854775808", "1048575", "1048576", "524287", "524288"]
_BOOLEANS = ["true", "FALSE", " True ", "yes", "", "1"]
_DOUBLES = ["0", "1", "0.5", "2", "-0.5", "1e-5", "x", "", "1,5"]
_LISTS = ["compact", "delete", "delete, compact", "delete,delete", "", "compact,,delete", "x"]

VALUES: dict[str, Sequence[str | None]] = {
    "log.retention.ms": [*_NUMBERS, *_MORE],
    "log.retention.bytes": [*_NUMBERS, *_MORE],
    "log.roll.ms": [*_NUMBERS, *_MORE],
    "log.roll.jitter.ms": _NUMBERS,
    "log.flush.interval.ms": _NUMBERS,
    "log.flush.interval.messages": _NUMBERS,
    "log.segment.bytes": [*_NUMBERS, *_MORE],
    "log.segment.delete.delay.ms": _NUMBERS,
    "log.index.interval.bytes": _NUMBERS,
    "log.index.size.max.bytes": [*_NUMBERS, "3", "4"],
    "log.local.retention.ms": _NUMBERS,
    "log.local.retention.bytes": _NUMBERS,
    "log.remote.copy.lag.ms": _NUMBERS,
    "log.remote.copy.lag.bytes": _NUMBERS,
    "log.message.timestamp.after.max.ms": _NUMBERS,
    "log.message.timestamp.before.max.ms": _NUMBERS,
    "log.message.timestamp.type": ["LogAppendTime", "CreateTime", "createtime", "", " x "],
    "log.cleanup.policy": _LISTS,
    "log.preallocate": _BOOLEANS,
    "log.cleaner.backoff.ms": _NUMBERS,
    "log.cleaner.delete.retention.ms": _NUMBERS,
    "log.cleaner.min.compaction.lag.ms": _NUMBERS,
    "log.cleaner.max.compaction.lag.ms": _NUMBERS,
    "log.cleaner.min.cleanable.ratio": _DOUBLES,
    "log.cleaner.io.buffer.size": [*_NUMBERS, *_MORE],
    "log.cleaner.io.buffer.load.factor": _DOUBLES,
    "log.cleaner.io.max.bytes.per.second": [*_DOUBLES, "1000000", "12345678.5"],
    "log.cleaner.dedupe.buffer.size": [*_NUMBERS, "1048576", "1048577", "2097152"],
    "message.max.bytes": _NUMBERS,
    "max.decompressed.message.bytes": [*_NUMBERS, "2147483639", "2147483640"],
    "compression.type": ["gzip", "snappy", "none", "", "producer", "uncompressed", "GZIP"],
    "compression.gzip.level": [*_NUMBERS, "9", "10"],
    "compression.lz4.level": [*_NUMBERS, "17", "18"],
    "compression.zstd.level": [*_NUMBERS, "-131072", "-131073", "22", "23"],
    "unclean.leader.election.enable": _BOOLEANS,
    "producer.id.expiration.ms": _NUMBERS,
    "transaction.partition.verification.enable": _BOOLEANS,
    "max.connections": [*(one for one in _NUMBERS if one not in ("1", "0")), "1000"],
    "max.connection.creation.rate": [one for one in _NUMBERS if one not in ("1", "0")],
    "max.connections.per.ip": [*(one for one in _NUMBERS if one != "1"), "1000"],
    "max.connections.per.ip.overrides": ["10.0.0.1:5", "x", "10.0.0.1:x", "", "a:1,b:2"],
    "group.consumer.assignment.interval.ms": [*_PLAIN, "15000", "15001"],
    "group.share.assignment.interval.ms": [*_PLAIN, "15000", "15001"],
    "group.streams.assignment.interval.ms": [*_PLAIN, "15000", "15001"],
    "group.consumer.assignor.offload.enable": _BOOLEANS,
    "group.coordinator.cached.buffer.max.bytes": [*_NUMBERS, *_MORE],
    "share.coordinator.cached.buffer.max.bytes": [*_NUMBERS, *_MORE],
    "errors.deadletterqueue.auto.create.topics.enable": _BOOLEANS,
    "errors.deadletterqueue.topic.name.prefix": ["x", "__x", "", " a "],
    "remote.fetch.max.wait.ms": _NUMBERS,
    "remote.list.offsets.request.timeout.ms": _NUMBERS,
    "remote.log.index.file.cache.total.size.bytes": _NUMBERS,
    "follower.fetch.last.tiered.offset.enable": _BOOLEANS,
    "leader.replication.throttled.rate": _NUMBERS,
    "replica.alter.log.dirs.io.max.bytes.per.second": _NUMBERS,
    "cordoned.log.dirs": ["*", "*,/x", "/nope", "", "/a,/b"],
    "metric.reporters": ["nope.Class", "", "org.apache.kafka.common.metrics.JmxReporter"],
    "principal.builder.class": ["nope", ""],
    "sasl.login.refresh.buffer.seconds": ["1", "32767", "32768", "-32768", "-32769", "x"],
}

THREADS = {
    "num.io.threads": 8,
    "background.threads": 10,
    "num.recovery.threads.per.data.dir": 2,
    "num.replica.fetchers": 1,
    "log.cleaner.threads": 1,
    "remote.log.reader.threads": 10,
    "remote.log.manager.copier.thread.pool.size": 10,
    "remote.log.manager.expiration.thread.pool.size": 10,
    "remote.log.manager.follower.thread.pool.size": 2,
}


@AREA.each(setting=list(VALUES))
def values(t: Stage, setting: str) -> None:
    """Which values of {setting} are valid, and how are they described?"""
    clean(t)
    for value in VALUES[setting]:
        alter(t, f"set to {value!r}", NODE, (setting, SET, value))
        show(t, "shown", NODE, setting)
        alter(t, "deleted", NODE, (setting, DELETE, None))
        if value is not None:
            alter(t, f"of all brokers {value!r}", ALL, (setting, SET, value), check=True)
    clean(t)


@AREA.each(pool=list(THREADS))
def threads(t: Stage, pool: str) -> None:
    """{pool} may double or halve in one change, for one broker and for all."""
    clean(t)
    size = THREADS[pool]
    for count in (2 * size + 1, 2 * size, size, max(1, size // 2), 0, -1):
        alter(t, f"{count}", NODE, (pool, SET, str(count)))
        show(t, "shown", NODE, pool)
    for count in (4 * size + 1, size):
        alter(t, f"all brokers {count}", ALL, (pool, SET, str(count)))
    show(t, "shown at last", NODE, pool)
    alter(t, "x", NODE, (pool, SET, "x"))
    clean(t)


@AREA.scenario
def network_threads(t: Stage) -> None:
    """num.network.threads may double or halve.

    The change is only validated, because Kafka closes connections when it is applied.
    """
    clean(t)
    for count in (7, 6, 3, 1, 0):
        for name in (NODE, ALL):
            alter(t, f"{count}", name, ("num.network.threads", SET, str(count)), check=True)


@AREA.scenario
def changeable(t: Stage) -> None:
    """Which configs are dynamic, and which types do they have?"""
    clean(t)
    found = broker_configs.described(t, NODE)
    shown = {one["name"]: one["config_type"] for one in found if not one["read_only"]}
    t.rec("changeable", dict(sorted(shown.items())))


@AREA.scenario
def layers(t: Stage) -> None:
    """Which of default, start value, cluster and broker config applies, with which synonyms?"""
    clean(t)
    keys = ("log.segment.bytes", "log.retention.ms", "log.retention.hours", "num.io.threads")
    show(t, "at first", NODE, *keys)
    alter(t, "all", ALL, ("log.segment.bytes", SET, "3000000"), ("log.retention.ms", SET, "5000"))
    show(t, "set for all", NODE, *keys)
    alter(t, "one", NODE, ("log.segment.bytes", SET, " 4000000 "), ("num.io.threads", SET, "9"))
    show(t, "set for one", NODE, *keys)
    show(t, "of all", ALL)
    show(t, "of all, some keys", ALL, "log.retention.ms", "num.io.threads", "nope")
    alter(t, "not for all", ALL, ("log.segment.bytes", DELETE, None))
    show(t, "still set for one", NODE, *keys)
    alter(t, "not for one", NODE, ("log.segment.bytes", DELETE, "ignored"))
    show(t, "as at the start", NODE, *keys)
    clean(t)


@AREA.scenario
def units(t: Stage) -> None:
    """Only the setting with the finest unit is dynamic, and overrides the coarser settings."""
    clean(t)
    keys = ("log.roll.ms", "log.roll.hours", "log.roll.jitter.ms", "log.roll.jitter.hours")
    more = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms", "log.retention.minutes")
    show(t, "at first", NODE, *keys, *more)
    for name in (*keys, *more):
        alter(t, name, NODE, (name, SET, "3"))
    show(t, "set", NODE, *keys, *more)
    clean(t)


@AREA.scenario
def of_topics(t: Stage) -> None:
    """A topic without own configs inherits those of its brokers, with their sources."""
    clean(t)
    topic = t.topic(1)
    keys = ("retention.ms", "segment.bytes", "max.message.bytes", "cleanup.policy", "flush.ms")
    show(t, "at first", topic, *keys, kind=2)
    alter(t, "all", ALL, ("log.retention.ms", SET, "7000"), ("message.max.bytes", SET, "999"))
    alter(t, "one", NODE, ("log.segment.bytes", SET, "5000000"), ("log.retention.ms", SET, "8000"))
    show(t, "changed", topic, *keys, kind=2)
    own = [{"name": "retention.ms", "config_operation": SET, "value": "9000"}]
    resource = {"resource_type": 2, "resource_name": topic, "configs": own}
    t.raw("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})
    show(t, "with one of its own", topic, *keys, kind=2)
    show(t, "min.insync.replicas", topic, "min.insync.replicas", kind=2)
    clean(t)
    show(t, "changed back", topic, *keys, kind=2)


@AREA.scenario
def of_created_topics(t: Stage) -> None:
    """CreateTopics returns the configs that a topic inherits from the brokers."""
    clean(t)
    alter(t, "all", ALL, ("log.retention.ms", SET, "7000"), ("message.max.bytes", SET, "999"))
    alter(t, "one", NODE, ("log.segment.bytes", SET, "5000000"))
    broker_configs.settle(t)
    shape = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topic = {"name": f"{t.g}-made", **shape}
    body = {"topics": [topic], "timeout_ms": 9000, "validate_only": True}
    answer = t.raw("CreateTopics", 7, body)
    shown = {
        one["name"]: [one["value"], one["config_source"], one["read_only"]]
        for one in answer["topics"][0]["configs"]
        if one["config_source"] != 5
    }
    t.rec("configs", dict(sorted(shown.items())))
    clean(t)


@AREA.scenario
def of_groups(t: Stage) -> None:
    """Groups inherit their intervals from the brokers."""
    clean(t)
    names = [f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")]
    show(t, "at first", t.g, *names, kind=32)
    for value, name in enumerate(names, start=3000):
        alter(t, name, ALL if value % 2 else NODE, (f"group.{name}", SET, str(value)))
    show(t, "changed", t.g, *names, kind=32)
    clean(t)


@AREA.scenario
def min_insync_replicas(t: Stage) -> None:
    """min.insync.replicas is a cluster config and cannot be removed."""
    clean(t)
    name = "min.insync.replicas"
    show(t, "at first", ALL)
    show(t, "at first of one", NODE, name)
    alter(t, "of one", NODE, (name, SET, "2"))
    alter(t, "deleted of one", NODE, (name, DELETE, None))
    for value in ("2", "0", "x", " 3 "):
        alter(t, f"of all {value!r}", ALL, (name, SET, value))
        show(t, "shown", NODE, name)
    alter(t, "deleted", ALL, (name, DELETE, None))
    replace(t, "all others", ALL, ("log.retention.ms", "5"))
    replace(t, "none", ALL)
    replace(t, "of one", NODE, (name, "2"))
    replace(t, "it alone", ALL, (name, "1"))
    show(t, "at last", ALL)
    clean(t)


@AREA.each(scope=["one", "all"])
def scopes(t: Stage, scope: str) -> None:
    """Which static, listener and unknown configs can be set? Scope of the change: {scope}."""
    clean(t)
    name = NODE if scope == "one" else ALL
    for key, value in (
        ("num.partitions", "3"),
        ("node.id", "1"),
        ("broker.id", "1"),
        ("log.dirs", "/x"),
        ("auto.create.topics.enable", "true"),
        ("offsets.retention.minutes", "1"),
        ("super.users", "User:x"),
        ("zookeeper.connect", "x"),
        ("retention.ms", "1"),
        ("own.setting", "1"),
        ("ssl.keystore.location", "/x"),
        ("ssl.truststore.password", "x"),
        ("ssl.client.auth", "bad"),
        ("sasl.jaas.config", "x"),
        ("cordoned.log.dirs", "/x"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.other.ssl.keystore.location", "/x"),
        ("listener.name.other.max.connections", "5"),
        ("listener.name.other.max.connections", "-5"),
        ("listener.name.other.num.network.threads", "99"),
        ("listener.name.other.num.partitions", "-99"),
        ("listener.name.other.own", "5"),
        ("listener.name.plaintext.max.connections", "5"),
        ("LISTENER.name.plaintext.max.connections", "5"),
        ("listener.name.", "5"),
        ("listener.name.a.", "5"),
        ("", "5"),
    ):
        alter(t, f"{key}={value}", name, (key, SET, value), check=True)
        alter(t, f"{key} deleted", name, (key, DELETE, value), check=True)


@AREA.scenario
def several_refused(t: Stage) -> None:
    """If several configs are invalid, the error names all configs with one kind of error."""
    clean(t)
    fixed = ("num.partitions", "broker.id")
    bad = ("num.io.threads", SET, "x")
    for name in (ALL, NODE):
        alter(t, "fixed", name, *((one, SET, "1") for one in fixed), bad)
        alter(t, "security", name, bad, ("ssl.keystore.type", SET, "x"), ("listeners", SET, "x"))
        alter(t, "value", name, ("listeners", SET, "x"), bad)
        alter(t, "listener", name, ("listener.name.a.ssl.keystore.type", SET, "JKS"), check=True)
    replace(t, "replaced", ALL, *((one, "1") for one in fixed))
    replace(t, "per broker", ALL, ("sasl.jaas.config", "x"), ("min.insync.replicas", "1"))
    clean(t)


@AREA.scenario
def custom(t: Stage) -> None:
    """Unknown names are stored, and shown as sensitive."""
    clean(t)
    alter(t, "one", NODE, ("own.setting", SET, "x"), ("retention.ms", SET, "5"))
    alter(t, "all", ALL, ("own.setting", SET, "y"), ("other", SET, ""))
    show(t, "one", NODE)
    show(t, "all", ALL)
    alter(t, "appended", NODE, ("own.setting", APPEND, "z"))
    alter(t, "deleted", NODE, ("own.setting", DELETE, None), ("never", DELETE, None))
    show(t, "one at last", NODE)
    clean(t)


@AREA.each(name=["one", "all"])
def lists(t: Stage, name: str) -> None:
    """What do APPEND and SUBTRACT do for {name}, with list settings and with other settings?"""
    clean(t)
    resource = NODE if name == "one" else ALL
    policy = "log.cleanup.policy"
    for operation, value in (
        (APPEND, "compact"),
        (APPEND, "compact,delete"),
        (SUBTRACT, "delete"),
        (SUBTRACT, "nope"),
        (APPEND, "nope"),
        (APPEND, "delete, delete"),
        (SUBTRACT, "compact"),
        (SUBTRACT, "delete"),
    ):
        alter(t, f"{operation} {value}", resource, (policy, operation, value))
        show(t, "shown", resource, policy)
    for key in ("log.retention.ms", "nope", "num.partitions", "super.users"):
        for operation in (APPEND, SUBTRACT):
            alter(t, f"{key} {operation}", resource, (key, operation, "5"))
    clean(t)


@AREA.scenario
def replaced(t: Stage) -> None:
    """AlterConfigs removes the configs that it does not name."""
    clean(t)
    alter(t, "set", NODE, ("log.retention.ms", SET, "5000"), ("num.io.threads", SET, "9"))
    replace(t, "one", NODE, ("log.retention.ms", "6000"))
    show(t, "one", NODE)
    replace(t, "null", NODE, ("log.retention.ms", None))
    replace(t, "twice", NODE, ("log.retention.ms", "1"), ("log.retention.ms", "2"))
    replace(t, "bad", NODE, ("log.retention.ms", "x"))
    replace(t, "fixed", NODE, ("num.partitions", "1"))
    replace(t, "none", NODE)
    show(t, "none", NODE)
    clean(t)


@AREA.scenario
def names_of_brokers(t: Stage) -> None:
    """What is the error for resource names that are not this broker's id?"""
    clean(t)
    for name in ("2", "x", "-1", "2147483648", " 1", "1 ", "1.0", "+1", "01"):
        alter(t, f"{name!r}", name, ("log.retention.ms", SET, "5000"))
        replace(t, f"{name!r} replaced", name, ("log.retention.ms", "6000"))
    show(t, "shown", NODE)
    for name in ("01", "+1"):
        replace(t, f"{name!r} cleaned", name)


@AREA.scenario
def malformed(t: Stage) -> None:
    """What do repeated configs, null values, unknown operations and an empty request return?"""
    clean(t)
    key = "log.retention.ms"
    alter(t, "twice", NODE, (key, SET, "1"), (key, SET, "2"))
    alter(t, "set and deleted", NODE, (key, SET, "1"), (key, DELETE, None))
    alter(t, "null", NODE, (key, SET, None), ("nope", SET, None))
    for operation in (4, 7, -1):
        alter(t, f"operation {operation}", NODE, (key, operation, "1"))
    alter(t, "nothing", NODE)
    alter(t, "nothing for all", ALL)
    show(t, "shown", NODE)


@AREA.scenario
def only_validated(t: Stage) -> None:
    """With validate_only values are checked and nothing changes."""
    clean(t)
    for name in (ALL, NODE):
        alter(t, "good", name, ("log.retention.ms", SET, "5000"), check=True)
        alter(t, "bad", name, ("log.retention.ms", SET, "x"), check=True)
        alter(t, "fixed", name, ("num.partitions", SET, "1"), check=True)
    show(t, "one", NODE)
    show(t, "all", ALL)


@AREA.each(version=[1, 2, 3, 4])
def whole_descriptions(t: Stage, version: int) -> None:
    """Which fields does DescribeConfigs {version} return for a broker and for the cluster?"""
    clean(t)
    alter(t, "one", NODE, ("log.retention.ms", SET, "5000"))
    alter(t, "all", ALL, ("log.retention.ms", SET, "6000"))
    broker_configs.settle(t)
    for name in (NODE, ALL):
        keys = ["log.retention.ms", "num.partitions", "sasl.jaas.config"]
        resource = {"resource_type": 4, "resource_name": name, "configuration_keys": keys}
        body = {"resources": [resource], "include_synonyms": True}
        result = t.raw("DescribeConfigs", version, body)["results"][0]
        result["configs"].sort(key=lambda config: str(config["name"]))
        t.rec(f"shown {name!r}", t.norm(result))
    clean(t)


@AREA.scenario
def relations(t: Stage) -> None:
    """Which limits do configs set each other: retention, connections and the log cleaner?"""
    clean(t)
    alter(t, "retention", NODE, ("log.retention.ms", SET, "5000"))
    alter(t, "and size", NODE, ("log.retention.bytes", SET, "5000"))
    broker_configs.settle(t)
    for value in ("5000", "5001", "-1", "-2"):
        alter(t, f"local ms {value}", NODE, ("log.local.retention.ms", SET, value), check=True)
        alter(
            t, f"local bytes {value}", NODE, ("log.local.retention.bytes", SET, value), check=True
        )
    alter(
        t,
        "both",
        NODE,
        ("log.retention.ms", SET, "9000"),
        ("log.local.retention.ms", SET, "8000"),
        check=True,
    )
    alter(t, "no address", NODE, ("max.connections.per.ip", SET, "0"), check=True)
    overrides = ("max.connections.per.ip.overrides", SET, "127.0.0.1:9")
    alter(t, "but one", NODE, ("max.connections.per.ip", SET, "0"), overrides, check=True)
    cleaner = ("log.cleaner.threads", SET, "2"), ("log.cleaner.dedupe.buffer.size", SET, "2000000")
    alter(t, "cleaner", NODE, *cleaner, check=True)
    alter(t, "lag", NODE, ("log.cleaner.min.compaction.lag.ms", SET, "9223372036854775807"))
    clean(t)


@AREA.scenario
def of_a_listener(t: Stage) -> None:
    """A listener's settings have the broker's settings as synonyms."""
    clean(t)
    prefix = "listener.name.plaintext."
    alter(t, "all", ALL, (f"{prefix}max.connections", SET, "500"), ("max.connections", SET, "600"))
    alter(t, "one", NODE, (f"{prefix}max.connections", SET, "700"))
    show(t, "max.connections", NODE, f"{prefix}max.connections", "max.connections")
    show(t, "of all", ALL)
    alter(t, "threads", NODE, (f"{prefix}num.network.threads", SET, "6"))
    broker_configs.settle(t)
    alter(t, "too many", NODE, (f"{prefix}num.network.threads", SET, "13"))
    alter(t, "secret", NODE, (f"{prefix}plain.sasl.jaas.config", SET, "x"))
    show(t, "all of one", NODE)
    alter(t, "another then", NODE, ("sasl.kerberos.service.name", SET, "x"), check=True)
    clean(t)
    alter(t, "another", NODE, ("sasl.kerberos.service.name", SET, "x"), check=True)


@AREA.scenario
def largest_batch(t: Stage) -> None:
    """message.max.bytes applies at once to topics without their own value."""
    clean(t)
    topic = t.topic(1)
    for value in ("20", "1000"):
        alter(t, value, ALL, ("message.max.bytes", SET, value))
        broker_configs.settle(t)
        t.nap(0.1)
        records = batches.build(-1, -1, -1, 1, transactional=False)
        data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": [data]}
        (result,) = t.raw("Produce", 11, body)["responses"][0]["partition_responses"]
        t.rec("produced", [result["error_code"], result["error_message"]])
    clean(t)


@AREA.scenario
def unknown_loggers(t: Stage) -> None:
    """What do unknown loggers and levels, other operations and other brokers return?"""
    for name in (NODE, "2", "x", ALL):
        for change in (
            ("kafka.nope", SET, "DEBUG"),
            ("kafka.nope", DELETE, None),
            ("kafka.nope", APPEND, "DEBUG"),
            ("root", SET, "LOUD"),
            ("root", DELETE, None),
        ):
            alter(t, f"{name!r} {change}", name, change, kind=LOGGER, check=True)
