"""PartitionStates: the partitions for which a share group has share-partition state.

A partition is initializing from the call to the share coordinator until the response, and then
initialized. A topic is deleting from the call that deletes its state. Source:
ShareGroupStatePartitionMetadataInfo and its use in GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.core.groups.effects import AssignedSharePartition
    from coordinator_server.core.groups.settings import KnownTopic, TopicsView

UNKNOWN_NAME = "<UNKNOWN>"
"""Kafka's name for a topic that no longer exists."""


class SharedTopic(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]


SharedTopics = Mapping[bytes, SharedTopic]
"""Topic id -> partitions."""


class PartitionStates(NamedTuple):
    """The content of the group's state record. `deleting` is topic id -> name."""

    initializing: SharedTopics = {}
    initialized: SharedTopics = {}
    deleting: Mapping[bytes, str] = {}


NO_STATES = PartitionStates()


def by_topic(partitions: Iterable[AssignedSharePartition]) -> dict[bytes, frozenset[int]]:
    """Group partitions by topic id."""
    topics: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(of_topic) for topic_id, of_topic in topics.items()}


def combined(known: SharedTopics, more: SharedTopics) -> dict[bytes, SharedTopic]:
    """Return the partitions of both arguments; topic names in `more` win.

    Source: combineInitMaps.
    """
    result = dict(known)
    for topic_id, topic in more.items():
        before = known.get(topic_id)
        if before is not None:
            topic = topic._replace(partitions=before.partitions | topic.partitions)
        result[topic_id] = topic
    return result


def without_partitions(
    known: SharedTopics, gone: Mapping[bytes, frozenset[int]]
) -> dict[bytes, SharedTopic]:
    """Return `known` without the partitions in `gone`; topics that become empty are dropped."""
    left: dict[bytes, SharedTopic] = {}
    for topic_id, topic in known.items():
        if topic_id in gone:
            topic = topic._replace(partitions=topic.partitions - gone[topic_id])
            if not topic.partitions:
                continue
        left[topic_id] = topic
    return left


def without_topics(known: SharedTopics, gone: Container[bytes]) -> dict[bytes, SharedTopic]:
    """Return `known` without the topics in `gone`."""
    return {topic_id: topic for topic_id, topic in known.items() if topic_id not in gone}


def name_of(topic_id: bytes, topics: TopicsView) -> str:
    """Return the name of a topic as records store it."""
    topic = topics.topic_by_id(topic_id)
    return UNKNOWN_NAME if topic is None else topic.name


def named(topic_ids: Iterable[bytes], topics: TopicsView) -> dict[bytes, str]:
    """Return the name of each topic by topic id. Source: attachTopicName."""
    return {topic_id: name_of(topic_id, topics) for topic_id in topic_ids}


def with_initializing(
    states: PartitionStates, more: SharedTopics, topics: TopicsView
) -> PartitionStates:
    """Mark more partitions as initializing; their topics are no longer deleting."""
    initializing = combined(states.initializing, more)
    deleting = [topic_id for topic_id in states.deleting if topic_id not in initializing]
    return PartitionStates(initializing, states.initialized, named(deleting, topics))


def with_initialized(
    states: PartitionStates, done: Mapping[bytes, frozenset[int]], topics: TopicsView
) -> PartitionStates:
    """Mark partitions as initialized. Source: initializeShareGroupState."""
    more = {
        topic_id: SharedTopic(name_of(topic_id, topics), partitions)
        for topic_id, partitions in done.items()
    }
    return PartitionStates(
        without_partitions(states.initializing, done),
        combined(states.initialized, more),
        named(states.deleting, topics),
    )


def with_given_up(
    states: PartitionStates, failed: Mapping[bytes, frozenset[int]], topics: TopicsView
) -> PartitionStates:
    """Drop partitions that could not be initialized. Source: uninitializeShareGroupState."""
    return PartitionStates(
        without_partitions(states.initializing, failed),
        states.initialized,
        named(states.deleting, topics),
    )


def to_initialize(
    states: PartitionStates, topics: Iterable[KnownTopic], *, retries: bool
) -> dict[bytes, SharedTopic]:
    """Return the partitions of subscribed topics that are not initialized.

    Partitions that are initializing are included only with `retries`, which is set when the last
    call to the share coordinator was long ago. Source: subscribedTopicsChangeMap.
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
