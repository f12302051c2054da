"""`__group_events` is hidden in listings of all topics, but available by name."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.consumer.regex import resolve
from coordinator_server.steps import run_all
from coordinator_server.topics.names import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from protocol.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.apis.list_config_resources import ListConfigResourcesRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker

ALL = [OFFSETS_TOPIC, "a"]


def made(**settings: Any) -> MemoryBroker:
    """Return a broker with a user topic and two internal topics."""
    broker = MemoryBroker(**settings)
    broker.topics.create("a", 1, {})
    broker.topics.create_internal(OFFSETS_TOPIC)
    broker.topics.create(GROUP_EVENTS_TOPIC, 1, {})
    return broker


def in_metadata(broker: MemoryBroker, version: int = 12) -> list[str]:
    """Return the topics of a Metadata response for all topics."""
    asked = MetadataRequest(topics=None if version else [])
    return sorted(one.name for one in broker.ask(asked, version).topics)


def in_pages(broker: MemoryBroker, cursor: Cursor | None = None) -> list[str]:
    """Return the topics of a DescribeTopicPartitions response for all topics."""
    asked = DescribeTopicPartitionsRequest(response_partition_limit=100, cursor=cursor)
    answer = broker.ask(asked, 0)
    return sorted(one.name for one in answer.topics)


def in_log_dirs(broker: MemoryBroker, *names: str) -> list[str]:
    """Return the topics of a DescribeLogDirs response, for all topics if none is named."""
    topics = [DescribableLogDirTopic(topic=one, partitions=[0]) for one in names]
    asked = DescribeLogDirsRequest(topics=topics or None)
    (result,) = broker.ask(asked, 4).results
    return sorted(one.name for one in result.topics)


def in_resources(broker: MemoryBroker) -> list[str]:
    """Return the topics of a ListConfigResources response."""
    asked = ListConfigResourcesRequest(resource_types=[2])
    answer = broker.ask(asked, 1)
    return sorted(one.resource_name for one in answer.config_resources)


def in_regex(broker: MemoryBroker) -> list[str]:
    """Return the topics that the pattern `.*` of a consumer group matches."""
    return sorted(run_all(resolve([".*"], broker.topics, 0))[".*"].topics)


def test_no_listing_has_it() -> None:
    """Listings have user topics and Kafka's internal topics, but not `__group_events`."""
    broker = made()
    assert in_metadata(broker) == in_metadata(broker, 0) == ALL
    assert in_pages(broker) == ALL
    assert in_pages(broker, Cursor(topic_name=GROUP_EVENTS_TOPIC, partition_index=0)) == ["a"]
    assert in_log_dirs(broker) == ALL
    assert in_resources(broker) == ALL
    assert in_regex(broker) == ALL


def test_every_listing_has_it_if_a_setting_says_so() -> None:
    """With group.events.listed `__group_events` is in each listing."""
    broker = made(group_events_listed="true")
    everything = sorted([*ALL, GROUP_EVENTS_TOPIC])
    listings = (in_metadata, in_pages, in_log_dirs, in_resources, in_regex)
    assert [listing(broker) for listing in listings] == [everything] * len(listings)


@pytest.mark.parametrize("version", [0, 12])
def test_metadata_by_name_has_it(version: int) -> None:
    """Metadata by name returns `__group_events`, and marks the topic as internal."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=GROUP_EVENTS_TOPIC)])
    (topic,) = made().ask(asked, version).topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, GROUP_EVENTS_TOPIC)
    assert topic.is_internal == (version > 0)
    assert len(topic.partitions) == 1


def test_metadata_by_id_has_it() -> None:
    """Metadata by topic id returns `__group_events`, although listings omit the topic."""
    broker = made()
    topic = broker.topics.topic(GROUP_EVENTS_TOPIC)
    assert topic is not None
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic.topic_id)])
    (answered,) = broker.ask(asked, 12).topics
    assert (answered.error_code, answered.name) == (ErrorCode.NONE, GROUP_EVENTS_TOPIC)


def test_the_other_listings_by_name_have_it() -> None:
    """DescribeTopicPartitions and DescribeLogDirs return `__group_events` when it is named."""
    broker = made()
    asked = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=GROUP_EVENTS_TOPIC)], response_partition_limit=9
    )
    (topic,) = broker.ask(asked, 0).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 1)
    assert in_log_dirs(broker, GROUP_EVENTS_TOPIC) == [GROUP_EVENTS_TOPIC]
