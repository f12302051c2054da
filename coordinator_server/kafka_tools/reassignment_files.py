"""The JSON files and JSON output of kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from coordinator_server.kafka_tools import jackson
from coordinator_server.kafka_tools.frame import ToolError, parse_integer
from coordinator_server.kafka_tools.java import (
    in_hash_order,
    names_in_hash_order,
    numbers_in_hash_order,
)
from coordinator_server.kafka_tools.reassignments import Place, Replica

FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
REFUSED = "org.apache.kafka.tools.AdminOperationException"
ANY_DIRECTORY = "any"
_VERSION = 1

T = TypeVar("T", bound=Hashable)


class Plan(NamedTuple):
    """The target replicas of partitions, and the target log directories of replicas."""

    partitions: list[tuple[Place, list[int]]]
    """In file order; a partition that the file names twice appears twice."""
    directories: dict[Replica, str]

    @property
    def topics(self) -> list[str]:
        """The topics, in the iteration order of a Java HashSet."""
        return names_in_hash_order({topic for (topic, _), _ in self.partitions})


def read_plan(text: str) -> Plan:
    """Parse a reassignment file. Raises ToolError with the message of Kafka's tool."""
    try:
        document = jackson.parse(text)
    except ToolError as error:
        if error.java_class.endswith("StreamConstraintsException"):
            raise
        raise ToolError(REFUSED, str(error)) from error
    document = jackson.as_object(document)
    _check_version(document)
    plan = Plan([], {})
    for value in jackson.as_array(document.get("partitions", [])):
        item = jackson.as_object(value)
        topic = jackson.string(jackson.field(item, "topic"))
        index = jackson.integer(jackson.field(item, "partition"))
        replicas = jackson.integers(jackson.field(item, "replicas"))
        paths = [ANY_DIRECTORY] * len(replicas)
        if "log_dirs" in item:
            paths = jackson.strings(item["log_dirs"])
        if len(replicas) != len(paths):
            raise ToolError(
                FAILED,
                f"Size of replicas list [{_joined(replicas)}] is different from size of log dirs "
                f"list [{_joined(paths)}] for partition {topic}-{index}",
            )
        plan.partitions.append(((topic, index), replicas))
        for broker, path in zip(replicas, paths, strict=True):
            if path != ANY_DIRECTORY:
                plan.directories[Replica(broker, topic, index)] = path
    return plan


def read_moves(text: str) -> Plan:
    """Parse a reassignment file and check that it can be executed. Raises ToolError."""
    plan = read_plan(text)
    if not plan.partitions:
        raise ToolError(FAILED, "Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise ToolError(FAILED, "Partition replica list cannot be empty")
    twice = in_hash_order(_repeated(place for place, _ in plan.partitions))
    if twice:
        named = ",".join(f"{topic}-{index}" for topic, index in twice)
        raise ToolError(
            FAILED, f"Partition reassignment contains duplicate topic partitions: {named}"
        )
    wrong = [
        f"{topic}-{index} contains multiple entries for {_joined(repeated, ',')}"
        for (topic, index), replicas in plan.partitions
        if (repeated := numbers_in_hash_order(_repeated(replicas)))
    ]
    if wrong:
        listed = ". ".join(wrong)
        raise ToolError(
            FAILED, f"Partition replica lists may not contain duplicate entries: {listed}"
        )
    return plan


def read_topics(text: str, broker_list: str) -> tuple[list[str], list[int]]:
    """Parse a topics file and a broker list. Raises ToolError."""
    # As in Java's String.split, empty parts at the end are dropped. A text without a comma is one
    # part, even if it is empty.
    parts = broker_list.rstrip(",").split(",") if broker_list.strip(",") or not broker_list else []
    brokers = [parse_integer(part) for part in parts]
    twice = numbers_in_hash_order(_repeated(brokers))
    if twice:
        raise ToolError(FAILED, f"Broker list contains duplicate entries: [{_joined(twice)}]")
    try:
        document = jackson.parse(text)
    except ToolError:
        raise ToolError(REFUSED, "The input string is not a valid JSON") from None
    document = jackson.as_object(document)
    _check_version(document)
    topics = [
        jackson.string(jackson.field(jackson.as_object(item), "topic"))
        for item in jackson.as_array(document.get("topics", []))
    ]
    repeated = names_in_hash_order(_repeated(topics))
    if repeated:
        names = _joined(repeated)
        raise ToolError(FAILED, f"List of topics to reassign contains duplicate entries: [{names}]")
    return topics, brokers


def plan_text(partitions: Mapping[Place, Sequence[int]], directories: Mapping[Replica, str]) -> str:
    """Return a plan as JSON, sorted by topic and partition."""
    document: dict[str, Any] = {
        "version": _VERSION,
        "partitions": [
            {
                "topic": topic,
                "partition": index,
                "replicas": list(partitions[topic, index]),
                "log_dirs": [
                    directories.get(Replica(broker, topic, index), ANY_DIRECTORY)
                    for broker in partitions[topic, index]
                ],
            }
            for topic, index in sorted(partitions)
        ],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _check_version(document: dict[str, Any]) -> None:
    version = jackson.integer(document.get("version", _VERSION))
    if version != _VERSION:
        raise ToolError(REFUSED, f"Not supported version field value {version}")


def _repeated(values: Iterable[T]) -> set[T]:
    """Return the values that occur more than once."""
    seen: set[T] = set()
    repeated: set[T] = set()
    for value in values:
        if value in seen:
            repeated.add(value)
        seen.add(value)
    return repeated


def _joined(values: Iterable[object], separator: str = ", ") -> str:
    return separator.join(map(str, values))
