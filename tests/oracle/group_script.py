"""Shared parts of the scripts for all group types, on our broker or Kafka's.

Every request is answered before the next is sent, so that both brokers write the same records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from protocol.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.support import address_of, wait_for

TIMEOUT_SECONDS = 30
GROUP_RESOURCE = 32
RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class GroupCluster:
    """One connection to a broker, for requests about its groups."""

    def __init__(self, bootstrap: str) -> None:
        self.address = address_of(bootstrap)
        self.client = Client(self.address)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request, and retry until the coordinator is available."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            response = self.client.ask(request, version)
            if getattr(response, "error_code", 0) not in RETRIED or time.monotonic() > end:
                return response
            time.sleep(0.05)

    def described(self, request: Any, version: int) -> Any:
        """Return the only group of a describe response; retry until the group can be described."""

        def described() -> Any:
            (shown,) = self.client.ask(request, version).groups
            return None if shown.error_code in RETRIED else shown

        return wait_for(described, "the group can be described")

    def listed(self) -> dict[str, tuple[str, str, str]]:
        """Return protocol type, state and type of all groups from ListGroups."""
        answer = self.ask(ListGroupsRequest(), 5)
        assert not answer.error_code, answer
        return {
            one.group_id: (one.protocol_type, one.group_state, one.group_type)
            for one in answer.groups
        }

    def describe(self, group: str) -> dict[str, Any]:
        """Return all observable state of a group, with its "members" by id."""
        raise NotImplementedError

    def wait_until_gone(self, group: str, member: str) -> None:
        """Wait until a member is no longer in the group."""
        wait_for(lambda: member not in self.describe(group)["members"], f"{member} is fenced")

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, int, str, int]]:
        """Return all committed offsets of a group from OffsetFetch."""
        wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
        shown = self.described(OffsetFetchRequest(groups=[wanted], require_stable=True), 9)
        assert not shown.error_code, shown
        return {
            (topic.name, one.partition_index): (
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
            for topic in shown.topics
            for one in topic.partitions
        }

    def make_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics with these partition counts, and the offsets topic."""
        topics = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
        made = self.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        assert not any(one.error_code for one in made.topics), made
        self.wait_for_topics(*partitions)
        self.ask(FindCoordinatorRequest(key="any"), 2)

    def wait_for_topics(self, *names: str) -> None:
        """Wait until the topics are available."""
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])

        def are_there() -> bool:
            return not any(one.error_code for one in self.client.ask(asked, 12).topics)

        wait_for(are_there, "the topics are there")

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        (topic,) = self.client.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12
        ).topics
        topic_id: bytes = topic.topic_id
        return topic_id

    def grow(self, topic: str, count: int) -> None:
        """Add partitions to a topic, and wait until they are visible."""
        change = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[change], timeout_ms=10_000)
        (result,) = self.client.ask(request, 3).results
        assert result.error_code == 0, result
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])

        def is_known() -> bool:
            (found,) = self.client.ask(asked, 12).topics
            return len(found.partitions) == count

        wait_for(is_known, "the partitions are there")
        time.sleep(0.5)  # Kafka's coordinator may learn of the new partitions only later

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until all brokers know of the deletion."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        (result,) = self.client.ask(request, 6).responses
        assert result.error_code == 0, result
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

        def is_gone() -> bool:
            (found,) = self.client.ask(asked, 12).topics
            return bool(found.error_code)

        wait_for(is_gone, "the topic is gone")
        time.sleep(0.5)  # Kafka's coordinators may learn of the deletion only later

    def configure(self, *groups: str, **configs: int | str) -> None:
        """Set group configs, and wait until the coordinator knows them."""
        changes = [
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=str(value))
            for name, value in configs.items()
        ]
        resources = [
            AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=changes)
            for group in groups
        ]
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
        assert not any(one.error_code for one in answer.responses), answer
        wanted = {change.name: change.value for change in changes}
        for group in groups:
            wait_for(partial(self._has_configs, group, wanted), "the configs are there")
        time.sleep(0.5)  # Kafka's coordinator may learn of the change only later

    def _has_configs(self, group: str, wanted: Mapping[str, str | None]) -> bool:
        """Return whether DescribeConfigs shows these configs of a group."""
        resource = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group)
        answer = self.client.ask(DescribeConfigsRequest(resources=[resource]), 4)
        shown = {one.name: one.value for one in answer.results[0].configs}
        return wanted.items() <= shown.items()

    def delete_group(self, group: str) -> None:
        """Delete a group, and check that this is not refused."""
        (result,) = self.client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results
        assert result.error_code == 0, result
