"""Draw sequences of requests from a seed.

A request body follows the declaration of its message in `protocol`: HINTS draws a field by its
name, SHAPES draws fields that depend on each other, and every other field keeps its default. A dict
with a single key `$NAME` is a reference to an id, which `play` resolves when the id is known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from protocol.registry import SPEC_BY_NAME
from protocol.schema import INT32, ArrayType, Field, Message
from tests.fuzz_kafka.fields import DEFAULT, HINTS, SHAPES, Body, Choices, produced

TOPICS = {"t0": 1, "t1": 3}
"""The topics that exist before a sequence begins, by partition count."""

WAIT = "wait"
"""The name of a step that lets time pass; its body is {"seconds": N}."""


class Step(NamedTuple):
    """One request of a client; `owner` is its group or transactional id."""

    number: int
    client: int
    api: str
    version: int
    body: Body
    owner: str | None = None


THEMES: dict[str, dict[str, float]] = {
    "classic": {
        "JoinGroup": 14, "SyncGroup": 12, "Heartbeat": 5, "LeaveGroup": 3, "OffsetCommit": 4,
        "OffsetFetch": 3, "OffsetDelete": 1, "DescribeGroups": 2, "ListGroups": 0.5,
        "DeleteGroups": 0.5, "ConsumerGroupHeartbeat": 0.4, "CreatePartitions": 0.3,
    },
    "consumer": {
        "ConsumerGroupHeartbeat": 20, "OffsetCommit": 4, "OffsetFetch": 3, "OffsetDelete": 1,
        "ConsumerGroupDescribe": 4, "DescribeGroups": 0.5, "ListGroups": 0.5, "DeleteGroups": 0.5,
        "CreatePartitions": 0.5, "CreateTopics": 0.5, "DeleteTopics": 0.3,
        "IncrementalAlterConfigs": 0.5, "JoinGroup": 0.3, "LeaveGroup": 0.4,
    },
    "mixed": {
        "ConsumerGroupHeartbeat": 10, "JoinGroup": 8, "SyncGroup": 6, "Heartbeat": 4,
        "LeaveGroup": 2, "OffsetCommit": 3, "OffsetFetch": 2, "ConsumerGroupDescribe": 2,
        "DescribeGroups": 2, "OffsetDelete": 0.5, "ShareGroupHeartbeat": 0.4,
        "StreamsGroupHeartbeat": 0.4, "TxnOffsetCommit": 0.5, "DeleteGroups": 0.4,
    },
    "txn": {
        "InitProducerId": 6, "AddPartitionsToTxn": 7, "AddOffsetsToTxn": 4, "TxnOffsetCommit": 5,
        "EndTxn": 6, "Produce": 7, "Fetch": 4, "ListOffsets": 2, "OffsetFetch": 4,
        "DescribeProducers": 1, "DescribeTransactions": 1, "ListTransactions": 1, "JoinGroup": 1,
        "SyncGroup": 1, "DeleteRecords": 0.4, "OffsetDelete": 0.5, "DescribeGroups": 0.5,
    },
    "share": {
        "ShareGroupHeartbeat": 8, "ShareFetch": 12, "ShareAcknowledge": 8, "Produce": 5,
        "DescribeShareGroupOffsets": 2, "AlterShareGroupOffsets": 0.5,
        "DeleteShareGroupOffsets": 0.5, "ShareGroupDescribe": 2, "IncrementalAlterConfigs": 0.7,
        "DeleteRecords": 0.5, "ListOffsets": 0.3, "DeleteGroups": 0.2,
    },
    "streams": {
        "StreamsGroupHeartbeat": 20, "StreamsGroupDescribe": 5, "OffsetCommit": 3,
        "OffsetFetch": 2, "OffsetDelete": 0.5, "ListGroups": 0.5, "DeleteGroups": 0.3,
        "CreatePartitions": 0.4, "DescribeGroups": 0.5,
    },
    "log": {
        "Produce": 8, "Fetch": 9, "ListOffsets": 5, "DeleteRecords": 3, "OffsetForLeaderEpoch": 2,
        "InitProducerId": 1.5, "DescribeProducers": 1, "CreatePartitions": 0.5, "DeleteTopics": 0.4,
        "CreateTopics": 0.5, "IncrementalAlterConfigs": 0.7, "DescribeConfigs": 0.5,
    },
    "admin": {
        "CreateTopics": 5, "DeleteTopics": 2, "CreatePartitions": 4, "Metadata": 3,
        "DescribeTopicPartitions": 2, "IncrementalAlterConfigs": 6, "DescribeConfigs": 6,
        "ApiVersions": 1, "FindCoordinator": 1, "ElectLeaders": 1,
        "AlterPartitionReassignments": 1, "ListPartitionReassignments": 1, "Produce": 1,
        "ListOffsets": 1,
    },
    "timers": {
        WAIT: 8, "ConsumerGroupHeartbeat": 8, "JoinGroup": 5, "SyncGroup": 5, "Heartbeat": 3,
        "ShareGroupHeartbeat": 3, "OffsetCommit": 2, "ConsumerGroupDescribe": 2,
        "DescribeGroups": 2, "ShareGroupDescribe": 1,
    },
}  # fmt: skip
"""The weight of each API by theme."""


class Draw(Choices):
    """Draws one sequence of `steps` for a `theme`."""

    def __init__(self, seed: int, themes: Sequence[str] = tuple(THEMES)) -> None:
        super().__init__(seed, themes)
        self.steps: list[Step] = []
        self._begin()
        weights = THEMES[self.theme]
        for _ in range(self.random.randint(10, 30)):
            self.client = self.random.randrange(self.clients)
            self.group = self.random.choice(self.groups)
            self.transactional_id = self.random.choice(self.transactional_ids)
            self.add(self.pick(weights))
        self._end()

    def add(self, api: str, version: int | None = None, **fixed: Any) -> None:
        """Append a request; `fixed` replaces drawn values of top-level fields."""
        number = len(self.steps)
        if api == WAIT:
            body: Body = {"seconds": self.pick({0.5: 2, 3.0: 1})}
            self.steps.append(Step(number, self.client, WAIT, 0, body))
            return
        spec = SPEC_BY_NAME[api]
        if version is None:
            newest = self.chance(0.3)
            version = self.random.randint(
                spec.max_version if newest else spec.min_version, spec.max_version
            )
        self.version = version
        fixed = {**(SHAPES[api](self) if api in SHAPES else {}), **fixed}
        body = self._message(spec.request_type, version, api, fixed)
        owner = self.transactional_id if "transactional_id" in body else self.group
        self.steps.append(Step(number, self.client, api, version, body, owner))

    def _message(self, kind: type[Message], version: int, api: str, fixed: Body) -> Body:
        body: Body = {}
        for field in kind.FIELDS:
            if not field.in_version(version):
                continue
            value = fixed.get(field.name, DEFAULT)
            if value is DEFAULT:
                value = self._value(field, version, api)
            if value is not DEFAULT and (value is not None or field.nullable_in(version)):
                body[field.name] = value
        return body

    def _value(self, field: Field, version: int, api: str) -> Any:
        hint = HINTS.get(f"{api}.{field.name}", HINTS.get(field.name))
        if hint is not None:
            return hint(self)
        if not isinstance(field.type, ArrayType):
            return DEFAULT
        if field.nullable_in(version) and self.chance(0.4):
            return None
        element = field.type.element
        drawn: dict[str, Any] = {}
        for _ in range(self.pick({1: 4, 2: 1.5})):
            if isinstance(element, type):
                value: Any = self._message(element, version, api, {})
                drawn.setdefault(json.dumps(next(iter(value.values()), None)), value)
            elif element is INT32:
                drawn.setdefault(str(value := self.partition()), value)
        return list(drawn.values())

    def _begin(self) -> None:
        """Bring the brokers into a state in which most requests of the theme are accepted."""
        configs: list[Body] = []
        if self.theme == "share":
            configs = [_set("share.auto.offset.reset", "earliest")]
        elif self.theme == "timers":
            kinds = ("consumer", "share")
            configs = [_set(f"{kind}.session.timeout.ms", "2000") for kind in kinds]
        for group in self.groups if configs else ():
            resource = {"resource_type": 32, "resource_name": {"$name": group}}
            self.add("IncrementalAlterConfigs", 1, resources=[{**resource, "configs": configs}])
        if self.theme == "share":
            for client in range(self.clients):
                self.client = client
                self.add("ShareGroupHeartbeat")
                self.add("ShareGroupHeartbeat")
            self.add("Produce", 9, transactional_id=None, acks=-1, topic_data=produced("t0", 0, 6))
        if self.theme == "txn":
            self.add("InitProducerId")

    def _end(self) -> None:
        """Add requests that show the final state of the brokers."""
        described = {
            "classic": "DescribeGroups", "share": "ShareGroupDescribe", "txn": "DescribeGroups",
            "streams": "StreamsGroupDescribe",
        }.get(self.theme, "ConsumerGroupDescribe")  # fmt: skip
        for group in self.groups if self.theme not in ("log", "admin") else ():
            self.group = group
            self.add(described)
            self.add("OffsetFetch", 7, topics=None)
        for isolation_level in (0, 1) if self.theme in ("log", "txn") else ():
            asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            topics = [{"topic": {"$name": "t0"}, "partitions": [asked]}]
            self.add("Fetch", 11, isolation_level=isolation_level, topics=topics, session_epoch=-1)


def _set(name: str, value: str) -> Body:
    return {"name": name, "config_operation": 0, "value": value}
