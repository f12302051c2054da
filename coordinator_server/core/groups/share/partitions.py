"""Of which partitions a share group has state at the share coordinator: values of a record.

A partition is initializing from the moment the share coordinator is asked to begin its state, and
initialized once that has answered; a topic is deleting from the moment it is asked to delete it.
Source: ShareGroupStatePartitionMetadataInfo, and what GroupMetadataManager does with it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import AssignedSharePartition
    from coordinator_server.core.groups.settings import KnownTopic, TopicsView

UNKNOWN_NAME = "<UNKNOWN>"
"""How Kafka calls a topic that does not exist any more."""


class SharedTopic(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]


SharedTopics = Mapping[bytes, SharedTopic]
"""Topic id -> partitions."""


class PartitionStates(NamedTuple):
    """What the record of a group says. `deleting` is topic id -> name."""

    initializing: SharedTopics = {}
    initialized: SharedTopics = {}
    deleting: Mapping[bytes, str] = {}


NO_STATES = PartitionStates()


def by_topic(partitions: Iterable[AssignedSharePartition]) -> dict[bytes, frozenset[int]]:
    """Topic id -> partitions."""
    topics: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(of_topic) for topic_id, of_topic in topics.items()}


def combined(known: SharedTopics, more: SharedTopics) -> dict[bytes, SharedTopic]:
    """The partitions of both; names are those of `more` where it has some. (combineInitMaps)"""
    both = dict(known)
    for topic_id, topic in more.items():
        before = known.get(topic_id)
        if before is not None:
            topic = topic._replace(partitions=before.partitions | topic.partitions)
        both[topic_id] = topic
    return both


def without_partitions(
    known: SharedTopics, gone: Mapping[bytes, frozenset[int]]
) -> dict[bytes, SharedTopic]:
    """`known` without the partitions in `gone`, and without topics that have none left by it."""
    left: dict[bytes, SharedTopic] = {}
    for topic_id, topic in known.items():
        if topic_id in gone:
            topic = topic._replace(partitions=topic.partitions - gone[topic_id])
            if not topic.partitions:
                continue
        left[topic_id] = topic
    return left


def without_topics(known: SharedTopics, gone: Container[bytes]) -> dict[bytes, SharedTopic]:
    """`known` without some topics."""
    return {topic_id: topic for topic_id, topic in known.items() if topic_id not in gone}


def name_of(topic_id: bytes, topics: TopicsView) -> str:
    """The name of a topic as records have it."""
    topic = topics.topic_by_id(topic_id)
    return UNKNOWN_NAME if topic is None else topic.name


def named(topic_ids: Iterable[bytes], topics: TopicsView) -> dict[bytes, str]:
    """Topics of these ids with their names. (attachTopicName)"""
    return {topic_id: name_of(topic_id, topics) for topic_id in topic_ids}


def with_initializing(
    states: PartitionStates, more: SharedTopics, topics: TopicsView
) -> PartitionStates:
    """The state of more partitions begins; what was to be deleted of those is not any more."""
    initializing = combined(states.initializing, more)
    deleting = [one for one in states.deleting if one not in initializing]
    return PartitionStates(initializing, states.initialized, named(deleting, topics))


def with_initialized(
    states: PartitionStates, done: Mapping[bytes, frozenset[int]], topics: TopicsView
) -> PartitionStates:
    """The state of these partitions has begun. (initializeShareGroupState)"""
    more = {one: SharedTopic(name_of(one, topics), partitions) for one, partitions in done.items()}
    return PartitionStates(
        without_partitions(states.initializing, done),
        combined(states.initialized, more),
        named(states.deleting, topics),
    )


def with_given_up(
    states: PartitionStates, failed: Mapping[bytes, frozenset[int]], topics: TopicsView
) -> PartitionStates:
    """The state of these partitions could not begin. (uninitializeShareGroupState)"""
    return PartitionStates(
        without_partitions(states.initializing, failed),
        states.initialized,
        named(states.deleting, topics),
    )


def to_initialize(
    states: PartitionStates, topics: Iterable[KnownTopic], *, retries: bool
) -> dict[bytes, SharedTopic]:
    """The partitions of topics that a group reads whose state has still to begin.

    With `retries` the share coordinator was asked long ago about those that are initializing, and
    is asked again. (subscribedTopicsChangeMap)
    """
    begun = states.initialized
    if not retries:
        begun = combined(states.initialized, states.initializing)
    missing: dict[bytes, SharedTopic] = {}
    for topic in sorted(topics, key=attrgetter("name")):
        known = begun.get(topic.topic_id)
        count = len(topic.partitions)
        if known is None or len(known.partitions) < count:
            left = frozenset(range(count))
            if known is not None:
                left -= known.partitions
            missing[topic.topic_id] = SharedTopic(topic.name, left)
    return missing
