"""DescribeShareGroupOffsets: where share groups are, and how much is before them (KIP-932).

The share coordinator is asked for partitions that are named, whether there is such a group or not;
only "all of them" is a question to the group. The lag comes from the log (KIP-1226). Source:
GroupCoordinatorService.describeShareGroupOffsets and describeShareGroupAllOffsets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.share.initialized import FetchInitialized
from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
)
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.share.initialized import InitializedPartitions
    from coordinator_server.core.share_partitions.persister import ShareStateSummary
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

NO_LEADER_EPOCH = 0
"""What the group coordinator asks with: it leads no partition and does no fencing."""

MOST_SORTED = 10_000
"""Partitions of a topic that are described in the order of their numbers, as Kafka's hash maps have
them. More are described as they were named: to sort millions would take too long."""

Described = Callable[[DescribeShareGroupOffsetsResponseGroup], None]


class _AskedTopic(NamedTuple):
    """Partitions of a topic that exists."""

    name: str
    topic_id: bytes
    partitions: list[int]


def handle(broker: Broker, call: Call, request: DescribeShareGroupOffsetsRequest) -> Steps:
    """Describe each group; the answer goes out when all are described."""

    def finish(groups: list[DescribeShareGroupOffsetsResponseGroup]) -> None:
        call.reply(DescribeShareGroupOffsetsResponse(groups=groups))

    fan_in = FanIn(call, len(request.groups), finish)
    for index, asked in enumerate(request.groups):
        done = fan_in.part(index).reply
        if asked.topics is None:
            all_of_group = _AllOfGroup(broker, call, asked.group_id, done)
            broker.groups.submit(all_of_group, FetchInitialized(asked.group_id))
        else:
            yield from _describe_asked(broker, call, asked, done)
        yield


class _AllOfGroup:
    """A GroupCall that goes on with what the group says is initialized."""

    is_large = False

    def __init__(self, broker: Broker, call: Call, group_id: str, done: Described) -> None:
        self._broker = broker
        self._call = call
        self._group_id = group_id
        self._done = done

    @property
    def caller(self) -> Caller:
        """Who sent the request."""
        return self._call.caller

    def reply(self, initialized: InitializedPartitions, /) -> None:
        """Describe these partitions, as far as their topics exist."""
        if initialized.error is not ErrorCode.NONE:
            self._done(_refused(self._group_id, initialized.error))
            return
        topics = [
            _AskedTopic(topic.name, topic_id, sorted(shared.partitions))
            for topic_id, shared in initialized.topics.items()
            if (topic := self._broker.topics.topic_by_id(topic_id)) is not None
        ]
        summaries = _Summaries(self._broker, self._call, self._group_id, topics, [], self._done)
        self._call.run(summaries.ask())

    def fail(self) -> None:
        """The whole request fails, unless it is answered."""
        self._call.fail()


def _refused(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error, error_message=MESSAGES[error]
    )


def _describe_asked(
    broker: Broker, call: Call, asked: DescribeShareGroupOffsetsRequestGroup, done: Described
) -> Steps:
    """Describe the partitions that a request names; those of topics that do not exist come last."""
    known: list[_AskedTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    is_good = bool(asked.group_id)
    for topic in asked.topics or ():
        found = broker.topics.topic(topic.topic_name)
        if found is not None:
            partitions = topic.partitions
            if len(partitions) <= MOST_SORTED:
                partitions = sorted(partitions)
            known.append(_AskedTopic(found.name, found.topic_id, partitions))
            is_good = is_good and bool(topic.partitions) and min(topic.partitions) >= 0
        else:
            described = []
            for partition in topic.partitions:
                described.append(_without_offset(partition))
                yield
            unknown.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, topic_id=ZERO_UUID, partitions=described
                )
            )
        yield
    if known and not is_good:
        # Kafka's Persister refuses to look: for its caller that is a bug.
        done(_refused(asked.group_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    yield from _Summaries(broker, call, asked.group_id, known, unknown, done).ask()


def _without_offset(partition: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=partition, start_offset=UNINITIALIZED_START_OFFSET
    )


class _Summaries:
    """Asks for the state of each partition, then describes all of them."""

    def __init__(
        self,
        broker: Broker,
        call: Call,
        group_id: str,
        topics: list[_AskedTopic],
        unknown: list[DescribeShareGroupOffsetsResponseTopic],
        done: Described,
    ) -> None:
        self._broker = broker
        self._call = call
        self._group_id = group_id
        self._topics = topics
        self._unknown = unknown
        self._done = done
        self._summaries: dict[tuple[bytes, int], ShareStateSummary] = {}
        self._missing = sum(len(topic.partitions) for topic in topics)

    def ask(self) -> Steps:
        """Ask, one partition after the other."""
        persister = self._broker.groups.persister()
        if not self._missing:
            yield from self._describe()
        for topic in self._topics:
            for partition in topic.partitions:
                key = SharePartitionKey(self._group_id, topic.topic_id, partition)
                persister.read_summary(key, NO_LEADER_EPOCH, partial(self._take, key))
                yield

    def _take(self, key: SharePartitionKey, summary: ShareStateSummary) -> None:
        self._summaries[key.topic_id, key.partition] = summary
        self._missing -= 1
        if not self._missing:
            self._call.run(self._describe())

    def _describe(self) -> Steps:
        described: list[DescribeShareGroupOffsetsResponseTopic] = []
        for topic in self._topics:
            partitions: list[DescribeShareGroupOffsetsResponsePartition] = []
            for partition in topic.partitions:
                summary = self._summaries[topic.topic_id, partition]
                partitions.append(self._partition(topic.name, partition, summary))
                yield
            described.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.name, topic_id=topic.topic_id, partitions=partitions
                )
            )
        group = DescribeShareGroupOffsetsResponseGroup(
            group_id=self._group_id, topics=[*described, *self._unknown]
        )
        self._done(group)

    def _partition(
        self, name: str, index: int, summary: ShareStateSummary
    ) -> DescribeShareGroupOffsetsResponsePartition:
        """One partition. An error of the share coordinator counts as no offset."""
        if summary.error is not ErrorCode.NONE:
            return _without_offset(index)
        described = DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
        )
        if summary.start_offset == UNINITIALIZED_START_OFFSET or (
            summary.delivery_complete_count == UNINITIALIZED_DELIVERY_COMPLETE_COUNT
        ):
            return described
        try:
            end = self._end_offset(name, index)
        except StorageError as error:
            return _failed(index, error.code)
        if end is None:
            return _failed(index, ErrorCode.LEADER_NOT_AVAILABLE)
        described.lag = end - summary.start_offset - summary.delivery_complete_count
        return described

    def _end_offset(self, name: str, index: int) -> int | None:
        """Where the log ends for readers, None without a leader. Raises StorageError."""
        partition = self._broker.topics.partition(name, index)
        if partition is None or partition.leader_id < 0:
            return None
        return partition.log.high_watermark


def _failed(index: int, error: ErrorCode) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=error, error_message=MESSAGES[error]
    )
