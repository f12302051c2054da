"""DescribeShareGroupOffsets: start offsets and lag of share groups (KIP-932).

Named partitions are looked up in the share coordinator, whether the group exists or not; a request
for all partitions first asks the group which partitions are initialized. The lag is computed from
the log (KIP-1226). Source: GroupCoordinatorService.describeShareGroupOffsets and
describeShareGroupAllOffsets.
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
"""Leader epoch sent by the group coordinator, which leads no partition and does no fencing."""

MOST_SORTED = 10_000
"""Up to this number, partitions of a topic are described in ascending order, like those of Kafka's
hash maps. More are described in request order, because sorting millions takes too long."""

Described = Callable[[DescribeShareGroupOffsetsResponseGroup], None]


class _AskedTopic(NamedTuple):
    """The requested partitions of an existing topic."""

    name: str
    topic_id: bytes
    partitions: list[int]


def handle(broker: Broker, call: Call, request: DescribeShareGroupOffsetsRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribeShareGroupOffsetsResponseGroup]) -> None:
        call.run(_answer(call, groups))

    fan_in = FanIn(call, len(request.groups), finish)
    for index, asked in enumerate(request.groups):
        done = fan_in.part(index).reply
        if asked.topics is None:
            all_of_group = _AllOfGroup(broker, call, asked.group_id, done)
            broker.groups.submit(all_of_group, FetchInitialized(asked.group_id))
        else:
            refused = call.rights.refused_within.get(index, [])
            yield from _describe_asked(broker, call, asked, refused, done)
        yield


def _answer(call: Call, groups: list[DescribeShareGroupOffsetsResponseGroup]) -> Steps:
    groups = yield from call.rights.in_order(groups)
    call.reply(DescribeShareGroupOffsetsResponse(groups=groups))


class _AllOfGroup:
    """A GroupCall that receives the group's initialized partitions and describes them."""

    is_large = False

    def __init__(self, broker: Broker, call: Call, group_id: str, done: Described) -> None:
        self._broker = broker
        self._call = call
        self._group_id = group_id
        self._done = done

    @property
    def caller(self) -> Caller:
        """The client that sent the request."""
        return self._call.caller

    def reply(self, initialized: InitializedPartitions, /) -> None:
        """Describe these partitions, except the partitions of hidden or deleted topics."""
        if initialized.error is not ErrorCode.NONE:
            self._done(_refused(self._group_id, initialized.error))
            return
        self._call.run(self._describe(initialized))

    def _describe(self, initialized: InitializedPartitions) -> Steps:
        topics = []
        for topic_id, shared in initialized.topics.items():
            topic = self._broker.topics.topic_by_id(topic_id)
            if topic is not None and self._call.rights.allows(topic.name):
                topics.append(_AskedTopic(topic.name, topic_id, sorted(shared.partitions)))
            yield
        summaries = _Summaries(self._broker, self._call, self._group_id, topics, [], self._done)
        yield from summaries.ask()

    def fail(self) -> None:
        """Fail the whole request, unless a response has been sent."""
        self._call.fail()


def _refused(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error, error_message=MESSAGES[error]
    )


def _describe_asked(
    broker: Broker,
    call: Call,
    asked: DescribeShareGroupOffsetsRequestGroup,
    refused: list[DescribeShareGroupOffsetsResponseTopic],
    done: Described,
) -> Steps:
    """Describe the named partitions; topics that do not exist, then refused topics, come last."""
    known: list[_AskedTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    is_good = bool(asked.group_id)
    for topic in asked.topics or ():
        known_topic = broker.topics.topic(topic.topic_name)
        if known_topic is not None:
            partitions = topic.partitions
            if len(partitions) <= MOST_SORTED:
                partitions = sorted(partitions)
            known.append(_AskedTopic(known_topic.name, known_topic.topic_id, partitions))
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
        # Kafka's Persister throws for invalid arguments, hence UNKNOWN_SERVER_ERROR.
        done(_refused(asked.group_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    last = [*unknown, *refused]
    yield from _Summaries(broker, call, asked.group_id, known, last, done).ask()


def _without_offset(partition: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=partition, start_offset=UNINITIALIZED_START_OFFSET
    )


class _Summaries:
    """Reads the state of each partition, then describes all partitions."""

    def __init__(
        self,
        broker: Broker,
        call: Call,
        group_id: str,
        topics: list[_AskedTopic],
        last: list[DescribeShareGroupOffsetsResponseTopic],
        done: Described,
    ) -> None:
        self._broker = broker
        self._call = call
        self._group_id = group_id
        self._topics = topics
        self._last = last
        self._done = done
        self._summaries: dict[tuple[bytes, int], ShareStateSummary] = {}
        self._missing = sum(len(topic.partitions) for topic in topics)

    def ask(self) -> Steps:
        """Request the state summaries, one partition per step."""
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
            group_id=self._group_id, topics=[*described, *self._last]
        )
        self._done(group)

    def _partition(
        self, name: str, index: int, summary: ShareStateSummary
    ) -> DescribeShareGroupOffsetsResponsePartition:
        """Describe one partition; after an error of the share coordinator, without an offset."""
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
        """Return the high watermark, or None without a leader. Raises StorageError."""
        partition = self._broker.topics.partition(name, index)
        if partition is None or partition.leader_id < 0:
            return None
        return partition.log.high_watermark


def _failed(index: int, error: ErrorCode) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=error, error_message=MESSAGES[error]
    )
