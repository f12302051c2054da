"""An internal topic of coordinators, as all brokers of the process see it: where a key lives.

`__consumer_offsets` has the groups, `__transaction_state` the transactional ids. The number of
partitions is taken once (Kafka's groupMetadataTopicPartitionCount): a topic that is widened later
does not move its keys.
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
    """The topic of this name, made when it is first needed.

    `partitions` are those that keys live in, none while there is no topic. A topic that was deleted
    and recreated has other ones.
    """

    def __init__(self, topics: TopicManager, name: str) -> None:
        self.name = name
        self.partitions: tuple[Partition, ...] = ()
        self._topics = topics
        topics.on_deleted.append(self._on_topics_deleted)
        self._take()

    def ensure(self) -> ErrorCode:
        """Make the topic if it is not there yet. NONE, or why it cannot be made."""
        if not self.partitions:
            try:
                self._topics.create_internal(self.name)
            except StorageError as error:
                LOG.emit("log.failed", topic=self.name, reason=str(error))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._take()
        return ErrorCode.NONE

    def partition_of(self, key: str) -> Partition:
        """The partition that a group or a transactional id lives in; the topic has to be there."""
        return self.partitions[partition_for(key, len(self.partitions))]

    def max_message_bytes(self) -> int:
        """The most that one write may have. The topic has to be there."""
        return self.partitions[0].log.config.max_message_bytes

    def _take(self) -> None:
        topic = self._topics.topic(self.name)
        if topic is not None:
            self.partitions = tuple(topic.partitions)

    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        if self.name in topics:
            self.partitions = ()
