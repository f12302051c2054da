"""An internal coordinator topic, shared by all brokers of the process: maps keys to partitions.

`__consumer_offsets` holds groups, `__transaction_state` transactional ids, `__share_group_state`
share-partition state. The partition count is read once (Kafka's groupMetadataTopicPartitionCount):
adding partitions later does not move keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from protocol.errors import ErrorCode
from protocol.hashing import partition_for
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic


class CoordinatorTopic:
    """The internal topic `name`, created on first use.

    `partitions` are the partitions that keys hash to; empty while the topic does not exist, and
    replaced when the topic is deleted and recreated.
    """

    def __init__(self, topics: TopicManager, name: str) -> None:
        self.name = name
        self.partitions: tuple[Partition, ...] = ()
        self._topics = topics
        topics.on_deleted.append(self._on_topics_deleted)
        self._take()

    def ensure(self) -> ErrorCode:
        """Create the topic if needed; return NONE or COORDINATOR_NOT_AVAILABLE."""
        if not self.partitions:
            try:
                self._topics.create_internal(self.name)
            except StorageError as error:
                LOG.emit("log.failed", topic=self.name, reason=str(error))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._take()
        return ErrorCode.NONE

    def partition_of(self, key: str) -> Partition:
        """Return the partition that a key hashes to. The topic must exist."""
        return self.partitions[partition_for(key, len(self.partitions))]

    def max_message_bytes(self) -> int:
        """Return the maximum size of one write. The topic must exist."""
        return self.partitions[0].log.config.max_message_bytes

    def _take(self) -> None:
        topic = self._topics.topic(self.name)
        if topic is not None:
            self.partitions = tuple(topic.partitions)

    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        if self.name in topics:
            self.partitions = ()
