"""Draw the fields of requests: HINTS by name, SHAPES for fields that depend on each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Body = dict[str, Any]
DEFAULT = object()
"""Marks a field that keeps its default."""

_ASSIGNORS = (("range",), ("range", "rr"), ("rr", "range"), ("rr",), ("other",), ())


class Choices:
    """Random choices for a sequence, shared by all fields.

    `client`, `group`, `transactional_id` and `version` belong to the current request.
    """

    def __init__(self, seed: int, themes: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.theme = themes[self.random.randrange(len(themes))]
        self.clients = self.random.randint(1, 4)
        self.groups = ("G0", "G1") if self.chance(0.4) else ("G0",)
        self.transactional_ids = ("X0", "X1") if self.chance(0.3) else ("X0",)
        self.static = [self.chance(0.3) for _ in range(self.clients)]
        self.started: set[tuple[str, int]] = set()
        self.session_epochs: dict[Any, int] = {}
        self.sequences: dict[tuple[Any, ...], int] = {}
        self.client, self.group, self.transactional_id, self.version = 0, "G0", "X0", 0

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pick(self, weights: Mapping[Any, float]) -> Any:
        """Return a key, chosen by weight."""
        return self.random.choices(list(weights), list(weights.values()))[0]

    def topic(self) -> str:
        """Return the short name of a topic; "nope" never exists."""
        return str(self.pick({"t0": 6, "t1": 6, "t2": 1, "nope": 0.5}))

    def partition(self) -> int:
        """Return a partition index, which usually exists."""
        return int(self.pick({0: 8, 1: 3, 2: 2, 7: 0.6, -1: 0.3}))

    def group_reference(self) -> Body:
        """Return a group, nearly always the group of the step."""
        return {"$name": "GX" if self.chance(0.04) else self.group}

    def member(self) -> Body:
        """Return a member id, usually the client's own."""
        return {"$member": [self.group, self.client, self.pick(
            {"own": 12, "": 1, "nobody": 0.7, "0": 0.5, "1": 0.5, "2": 0.5})]}  # fmt: skip

    def epoch(self) -> Body:
        """Return a generation or member epoch, usually the last epoch that the client got."""
        return {"$epoch": [self.group, self.client, self.pick({0: 14, -1: 1.2, 1: 0.7, 5: 0.3})]}

    def instance(self) -> str | None:
        """Return the client's instance id, rarely another id or None."""
        own = f"i{self.client}" if self.static[self.client] else None
        return own if self.chance(0.9) else self.random.choice((None, "i0", "i1", ""))

    def subscription(self) -> list[Body]:
        """Return names of topics to subscribe to."""
        names = self.pick(
            {"t0": 4, "t1": 4, "t0 t1": 4, "t1 t0": 1, "t2": 1, "nope t1": 1, "": 0.4}
        )
        return [{"$name": name} for name in names.split()]


def produced(topic: str, partition: int, records: int, **more: Any) -> list[Body]:
    """Return the topics of a Produce request with records for one partition."""
    data = {"index": partition, "records": {"$records": {"count": records, **more}}}
    return [{"name": {"$name": topic}, "topic_id": {"$topic_id": topic}, "partition_data": [data]}]


def _consumer_heartbeat(d: Choices) -> Body:
    key = (d.group, d.client)
    weights = {"join": 1, "beat": 14, "leave": 1.6, "odd": 1}
    kind = d.pick(weights if key in d.started else {"join": 9, "leave": 0.3, "odd": 0.5})
    instance = d.instance()
    body: Body = {"instance_id": instance}
    if d.version == 0:
        body["member_id"] = d.member()
    else:
        body["member_id"] = {"$chosen_id": d.client} if d.chance(0.95) else d.member()
    if kind == "join" or d.chance(0.15):
        body["subscribed_topic_names"] = d.subscription()
        if d.version and d.chance(0.3):
            regexes = {"t.*": 4, "t[01]": 3, "nothing": 1, ".*t0": 2, "(": 0.5, "": 0.3}
            body["subscribed_topic_regex"] = {"$regex": d.pick(regexes)}
            if d.chance(0.7):
                del body["subscribed_topic_names"]
    if kind == "join":
        d.started.add(key)
        body |= {"member_epoch": 0, "rebalance_timeout_ms": 60000, "topic_partitions": []}
        body["server_assignor"] = d.pick({None: 7, "range": 2, "uniform": 2, "foo": 0.2})
    elif kind == "leave":
        d.started.discard(key)
        body["member_epoch"] = -2 if instance and d.chance(0.6) else -1
    else:
        if d.chance(0.5):
            body["topic_partitions"] = {"$owned": list(key)} if d.chance(0.9) else []
        body["server_assignor"] = d.pick({None: 10, "range": 0.5, "uniform": 0.5})
        if d.chance(0.3):
            body["rebalance_timeout_ms"] = 60000
    if kind == "odd":
        body |= d.random.choice(
            [{"member_epoch": 0}, {"member_epoch": -2}, {"member_epoch": -3}, {"rack_id": ""},
             {"instance_id": ""}, {"server_assignor": ""}, {"rebalance_timeout_ms": 0}]
        )  # fmt: skip
    return body


def _share_heartbeat(d: Choices) -> Body:
    key = (d.group, d.client)
    weights = {"join": 0.7, "beat": 10, "leave": 1}
    kind = d.pick(weights if key in d.started else {"join": 8, "leave": 0.2})
    body: Body = {"member_id": {"$chosen_id": d.client}}
    if kind == "join" or d.chance(0.1):
        body["subscribed_topic_names"] = d.subscription()
    if kind == "join":
        d.started.add(key)
        body["member_epoch"] = 0
    elif kind == "leave":
        d.started.discard(key)
        body["member_epoch"] = -1
    return body


def _streams_heartbeat(d: Choices) -> Body:
    key = (d.group, d.client)
    weights = {"join": 1, "beat": 12, "leave": 1.5}
    kind = d.pick(weights if key in d.started else {"join": 9, "leave": 0.3})
    body: Body = {"member_id": {"$chosen_id": d.client}, "instance_id": d.instance()}
    empty: dict[str, list[Any]] = {f"{name}_tasks": [] for name in ("active", "standby", "warmup")}
    if kind == "join":
        d.started.add(key)
        names = d.pick({"t0": 3, "t1": 3, "t0 t1": 3, "nope": 0.4}).split()
        subtopologies = [
            {"subtopology_id": str(number), "source_topics": [{"$name": name}]}
            for number, name in enumerate(names)
        ]
        topology = {"epoch": d.pick({0: 9, 1: 1}), "subtopologies": subtopologies}
        body |= {"member_epoch": 0, "rebalance_timeout_ms": 60000, "topology": topology, **empty}
        body |= {"process_id": f"p{d.client}", "client_tags": []}
    elif kind == "leave":
        d.started.discard(key)
        body["member_epoch"] = d.pick({-1: 3, -2: 1})
    elif d.chance(0.6):
        body |= empty | {"active_tasks": {"$owned": list(key)}}
    return body


def _session_epoch(d: Choices, key: Any, opened: int) -> int:
    """Return the next session epoch, rarely a wrong epoch; `opened` is the epoch after opening."""
    epoch = d.session_epochs.get(key, 0)
    drawn = int(d.pick({epoch: 14, 0: 1, -1: 0.7, epoch + 1: 0.5}))
    d.session_epochs[key] = {0: opened, -1: 0}.get(drawn, epoch + 1)
    return drawn


def _acknowledgements(d: Choices) -> list[Body]:
    batches, offset = [], 0
    for _ in range(d.pick({0: 4, 1: 4, 2: 1})):
        first = offset + d.pick({0: 6, 1: 1, 2: 1})
        last = first + d.pick({0: 4, 1: 3, 2: 2, -1: 0.2})
        types = {1: 8, 2: 4, 3: 2, 0: 0.7, 4: 0.6, 9: 0.2}
        count = 1 if d.chance(0.7) else max(1, last - first + 1)
        acknowledged = [d.pick(types) for _ in range(count)]
        batches.append(
            {"first_offset": first, "last_offset": last, "acknowledge_types": acknowledged}
        )
        offset = last + 1
    return batches


def _share_session(d: Choices) -> Body:
    epoch = _session_epoch(d, ("share", d.group, d.client), 1)
    topic = d.pick({"t0": 7, "t1": 2, "nope": 0.2})
    partition = d.pick({0: 8, 1: 1, 2: 1, 7: 0.3})
    acknowledged = _acknowledgements(d) if epoch or d.chance(0.05) else []
    asked = {"partition_index": partition, "acknowledgement_batches": acknowledged}
    named = [{"topic_id": {"$topic_id": topic}, "partitions": [asked]}]
    return {
        "member_id": {"$chosen_id": d.client}, "share_session_epoch": epoch, "max_wait_ms": 250,
        "min_bytes": 1, "max_records": d.pick({1: 1, 2: 1, 5: 1, 100: 1}),
        "batch_size": d.pick({1: 1, 2: 1, 100: 1}), "is_renew_ack": d.chance(0.08),
        "share_acquire_mode": d.pick({0: 6, 1: 1}), "forgotten_topics_data": [],
        "topics": [] if epoch > 0 and d.chance(0.4) else named,
    }  # fmt: skip


def _produce(d: Choices) -> Body:
    weights = {"plain": 8, "idempotent": 2, "transactional": 1}
    if d.theme == "txn":
        weights = {"plain": 2, "idempotent": 1, "transactional": 9}
    mode = d.pick(weights)
    topic, partition, count = d.topic(), d.partition(), d.random.randint(1, 3)
    more: Body = {}
    if mode != "plain":
        key = (d.transactional_id, topic, partition)
        expected = d.sequences.get(key, 0)
        sequence = d.pick({expected: 12, 0: 1, expected + 1: 0.6})
        d.sequences[key] = sequence + count
        more = {"producer": d.transactional_id, "sequence": sequence}
        more |= {"epoch": d.pick({0: 16, -1: 0.5, 1: 0.5}), "transactional": mode[0] == "t"}
    return {
        "transactional_id": {"$name": d.transactional_id} if mode[0] == "t" else None,
        "acks": d.pick({-1: 8, 1: 2, 3: 0.2}),
        "topic_data": produced(topic, partition, count, **more),
    }


def _fetch(d: Choices) -> Body:
    body: Body = {"max_wait_ms": d.pick({0: 4, 100: 1}), "max_bytes": d.pick({1 << 20: 2, 10: 1})}
    if d.version < 7 or d.chance(0.6):
        return body
    epoch = _session_epoch(d, ("fetch", d.client), 1)
    body |= {"session_epoch": epoch, "session_id": {"$session": d.client} if epoch else 0}
    if epoch > 0 and d.chance(0.5):
        body["topics"] = []
    if epoch > 0 and d.chance(0.2):
        names = {"topic": {"$name": "t0"}, "topic_id": {"$topic_id": "t0"}}
        body["forgotten_topics_data"] = [{**names, "partitions": [0]}]
    return body


def _resource(d: Choices) -> tuple[Body, tuple[tuple[str, str], ...]]:
    if d.chance(0.9 if d.theme in ("consumer", "share") else 0.4):
        return {"resource_type": 32, "resource_name": {"$name": d.group}}, GROUP_CONFIGS
    return {"resource_type": 2, "resource_name": {"$name": d.topic()}}, TOPIC_CONFIGS


def _alter_configs(d: Choices) -> Body:
    resource, known = _resource(d)
    configs = []
    for name, value in d.random.sample(known, d.pick({1: 4, 2: 1})):
        operation = d.pick({0: 9, 1: 2, 2: 0.7, 3: 0.7, 7: 0.2})
        kept = None if operation == 1 and d.chance(0.8) else value
        configs.append({"name": name, "config_operation": operation, "value": kept})
    return {"resources": [{**resource, "configs": configs}]}


def _describe_configs(d: Choices) -> Body:
    resource, known = _resource(d)
    keys = None if d.chance(0.2) else [name for name, _ in known[:4]]
    return {"resources": [{**resource, "configuration_keys": keys}]}


def _new_topic(d: Choices) -> Body:
    name = d.pick({"t2": 6, "t0": 1, "t3": 2, "bad name": 0.5})
    configs = []
    if d.chance(0.3):
        key = d.random.choice(("retention.ms", "cleanup.policy", "nonsense"))
        configs = [{"name": key, "value": d.random.choice(("1000", "compact", "x", None))}]
    topic = {"name": {"$name": name}, "num_partitions": d.pick({1: 3, 2: 3, -1: 1, 0: 0.4})}
    topic |= {"replication_factor": d.pick({1: 6, -1: 1, 3: 0.5}), "configs": configs}
    return {"topics": [topic]}


def _deleted_topic(d: Choices) -> Body:
    name = d.pick({"t2": 4, "t0": 1, "t1": 1, "t3": 1})
    named: Body = {"name": {"$name": name}} if d.chance(0.6) else {"name": None}
    if named["name"] is None:
        named["topic_id"] = {"$topic_id": name}
    return {"topics": [named], "topic_names": [{"$name": name}]}


SHAPES: dict[str, Callable[[Choices], Body]] = {
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "ShareGroupHeartbeat": _share_heartbeat,
    "StreamsGroupHeartbeat": _streams_heartbeat,
    "ShareFetch": _share_session,
    "ShareAcknowledge": _share_session,
    "Produce": _produce,
    "Fetch": _fetch,
    "IncrementalAlterConfigs": _alter_configs,
    "DescribeConfigs": _describe_configs,
    "CreateTopics": _new_topic,
    "DeleteTopics": _deleted_topic,
}
"""The fields of a request that depend on each other, by request."""

GROUP_CONFIGS = (
    ("consumer.session.timeout.ms", "46000"), ("consumer.session.timeout.ms", "1"),
    ("consumer.heartbeat.interval.ms", "600"), ("share.auto.offset.reset", "earliest"),
    ("share.auto.offset.reset", "foo"), ("share.record.lock.duration.ms", "20000"),
    ("share.isolation.level", "read_committed"), ("share.heartbeat.interval.ms", "700"),
    ("share.delivery.count.limit", "2"), ("nonsense", "1"),
)  # fmt: skip
TOPIC_CONFIGS = (
    ("retention.ms", "100000"), ("cleanup.policy", "compact"), ("cleanup.policy", "foo"),
    ("cleanup.policy", "compact,delete"), ("max.message.bytes", "100"), ("nonsense", "1"),
    ("message.timestamp.type", "LogAppendTime"), ("min.insync.replicas", "0"),
    ("retention.bytes", "abc"), ("compression.type", "gzip"),
)  # fmt: skip


def _producer_epoch(d: Choices) -> Body:
    return {"$producer_epoch": [d.transactional_id, d.pick({0: 14, -1: 1, 1: 0.7})]}


HINTS: dict[str, Callable[[Choices], Any]] = {
    "InitProducerId.transactional_id": lambda d: (
        {"$name": d.transactional_id} if d.chance(0.85) else None
    ),
    "InitProducerId.producer_id": lambda d: (
        {"$producer_id": d.transactional_id} if d.chance(0.4) else DEFAULT
    ),
    "InitProducerId.producer_epoch": lambda d: _producer_epoch(d) if d.chance(0.4) else DEFAULT,
    "CreatePartitions.count": lambda d: d.pick({2: 4, 3: 2, 4: 2, 5: 1, 1: 0.7, 0: 0.4}),
    "CreatePartitions.assignments": lambda d: None,
    "CreateTopics.assignments": lambda d: [],
    "AlterPartitionReassignments.replicas": lambda d: d.random.choice(([1], [2], [], None)),
    "FindCoordinator.key": lambda d: {"$name": d.group},
    "FindCoordinator.coordinator_keys": lambda d: [{"$name": d.group}],
    "FindCoordinator.key_type": lambda d: d.pick({0: 3, 1: 3, 2: 1, 5: 0.3}),
    "SyncGroup.assignments": lambda d: {"$assignments": [d.group, d.client]},
    "SyncGroup.protocol_name": lambda d: {"$protocol": [d.group, d.client]},
    "acks": lambda d: -1,
    "committed": lambda d: d.chance(0.6),
    "committed_leader_epoch": lambda d: d.pick({-1: 9, 0: 1}),
    "committed_metadata": lambda d: d.pick({"": 6, "note": 3, None: 1, "x" * 5000: 0.3}),
    "committed_offset": lambda d: d.random.randint(0, 50) if d.chance(0.95) else -1,
    "client_software_name": lambda d: d.random.choice(("a", "", "-x", "a b", "ok.name-1")),
    "client_software_version": lambda d: d.random.choice(("1", "1.0-x", "", "x-")),
    "cluster_id": lambda d: None,
    "current_leader_epoch": lambda d: d.pick({-1: 9, 0: 1, 1: 0.4, 5: 0.3}),
    "fetch_offset": lambda d: d.pick({0: 6, 1: 2, 2: 2, 4: 1, -1: 0.3, 99: 0.4}),
    "generation_id": lambda d: d.epoch(),
    "generation_id_or_member_epoch": lambda d: d.epoch(),
    "group_id": lambda d: d.group_reference(),
    "group_ids": lambda d: [d.group_reference()],
    "group_instance_id": lambda d: d.instance(),
    "groups_names": lambda d: [d.group_reference()],
    # Kafka omits partitions that do not exist from its response.
    "DescribeShareGroupOffsets.partitions": lambda d: [0],
    "DescribeGroups.groups": lambda d: [{"$name": name} for name in (*d.groups, "GX")],
    "include_authorized_operations": lambda d: False,
    "include_synonyms": lambda d: d.chance(0.3),
    "index": lambda d: d.partition(),
    "isolation_level": lambda d: d.random.randint(0, 1),
    "last_fetched_epoch": lambda d: d.pick({-1: 12, 0: 1, 1: 0.5}),
    "leader_epoch": lambda d: d.pick({0: 4, 1: 1, 5: 1, -1: 1}),
    "member_epoch": lambda d: d.epoch(),
    "member_id": lambda d: d.member(),
    "max_wait_ms": lambda d: 0,
    "name": lambda d: {"$name": d.topic()},
    "offset": lambda d: d.pick({0: 1, 1: 3, 2: 3, 3: 1, -1: 1, 99: 0.5, -2: 0.3}),
    "partition": lambda d: d.partition(),
    "partition_index": lambda d: d.partition(),
    "partition_max_bytes": lambda d: d.pick({1 << 20: 2, 1: 1}),
    "producer_epoch": _producer_epoch,
    "producer_id": lambda d: {"$producer_id": d.transactional_id if d.chance(0.95) else "X9"},
    "producer_id_filters": lambda d: [{"$producer_id": d.transactional_id}],
    "protocol_type": lambda d: d.pick({"consumer": 30, "connect": 1, "": 0.4}),
    "protocols": lambda d: [
        {"name": name, "metadata": {"$subscription": d.subscription()}}
        for name in d.pick(dict(zip(_ASSIGNORS, (8, 5, 4, 2, 0.7, 0.3), strict=True)))
    ],
    "rebalance_timeout_ms": lambda d: 60000,
    "replica_id": lambda d: -1,
    "require_stable": lambda d: d.chance(0.4),
    "response_partition_limit": lambda d: d.pick({2000: 3, 1: 1}),
    "retention_time_ms": lambda d: d.pick({-1: 8, 0: 1, 3600000: 1}),
    "session_timeout_ms": lambda d: (
        2000 if d.theme == "timers" else d.pick({30000: 40, 1: 0.4, 9999999: 0.4})
    ),
    "start_offset": lambda d: d.random.randint(0, 4),
    "state_filters": lambda d: d.random.choice(([], ["Ongoing"], ["Foo"])),
    "states_filter": lambda d: d.random.choice(([], ["Stable"], ["Empty", "Dead"], ["foo"])),
    "timeout_ms": lambda d: 5000,
    "timestamp": lambda d: d.pick(
        {-1: 6, -2: 5, -3: 2, 1700000000000: 2, 1700000000001: 1, 0: 1, -4: 0.5, -5: 0.5}
    ),
    "topic": lambda d: {"$name": d.topic()},
    "topic_id": lambda d: {"$topic_id": d.topic()},
    "topic_name": lambda d: {"$name": d.topic()},
    "Metadata.topic_id": lambda d: DEFAULT,
    "TxnOffsetCommit.topic_id": lambda d: {"$topic_id": d.topic()},
    "transaction_timeout_ms": lambda d: d.pick({60000: 20, 0: 0.5, 99999999: 0.5}),
    "transactional_id": lambda d: {"$name": d.transactional_id},
    "transactional_ids": lambda d: [{"$name": d.transactional_id}],
    "types_filter": lambda d: d.random.choice(([], ["classic"], ["consumer"], ["Share"], ["foo"])),
    "v3_and_below_transactional_id": lambda d: {"$name": d.transactional_id},
    "v3_and_below_producer_id": lambda d: {"$producer_id": d.transactional_id},
    "v3_and_below_producer_epoch": _producer_epoch,
    "validate_only": lambda d: d.chance(0.1),
    "verify_only": lambda d: d.chance(0.3),
}
"""Functions that draw a field, by field name, or by API and field name."""
