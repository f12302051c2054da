"""`__consumer_offsets` as all coordinators of the process see it: where a group lives.

The number of its partitions is taken once (Kafka's groupMetadataTopicPartitionCount): a topic that
is widened later does not move its groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode
from protocol.hashing import partition_for
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic


class OffsetsTopic:
    """The topic of the groups, made when it is first needed.

    `partitions` are those that groups live in, none while there is no topic. A topic that was
    deleted and recreated has other ones.
    """

    def __init__(self, topics: TopicManager) -> None:
        self.partitions: tuple[Partition, ...] = ()
        self._topics = topics
        topics.on_deleted.append(self._on_topics_deleted)
        self._take()

    def ensure(self) -> ErrorCode:
        """Make the topic if it is not there yet. NONE, or why it cannot be made."""
        if not self.partitions:
            try:
                self._topics.create_internal(OFFSETS_TOPIC)
            except StorageError as error:
                LOG.emit("log.failed", topic=OFFSETS_TOPIC, reason=str(error))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._take()
        return ErrorCode.NONE

    def partition_of(self, group_id: str) -> Partition:
        """The partition that a group lives in; the topic has to be there."""
        return self.partitions[partition_for(group_id, len(self.partitions))]

    def _take(self) -> None:
        topic = self._topics.topic(OFFSETS_TOPIC)
        if topic is not None:
            self.partitions = tuple(topic.partitions)

    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        if OFFSETS_TOPIC in topics:
            self.partitions = ()
