"""OffsetFetch: the committed offsets of one group (up to version 7) or of many.

Inside there is one form, that of v8+ (a list of groups); older versions ask for one group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.fan_in import FanIn
from protocol.apis.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.clock.step_runner import Steps
    from coordinator_server.group.offset_fetch import FetchedOffsets
    from coordinator_server.net.call import Call
    from protocol.apis.offset_fetch import OffsetFetchRequest
    from protocol.offsets_log import OffsetCommitValue

    Offsets = Mapping[int, OffsetCommitValue]
    Topics = Generator[None, None, list[OffsetFetchResponseTopics]]

GROUPS_SINCE = 8
TOP_LEVEL_ERROR_SINCE = 2
NO_OFFSET = -1
STEP_ITEMS = 500


def handle(broker: Broker, call: Call, request: OffsetFetchRequest) -> Steps:
    """To each group; the answer goes out when all of them have handed out their offsets."""
    groups = _groups(request, call.api_version)

    def finish(fetched: list[FetchedOffsets]) -> None:
        call.run(_answer(call, request, groups, fetched))

    fan_in = FanIn(call, len(groups), finish)
    for index, group in enumerate(groups):
        broker.groups.submit(fan_in.part(index), group)
        if index % STEP_ITEMS == STEP_ITEMS - 1:
            yield


def _groups(request: OffsetFetchRequest, api_version: int) -> list[OffsetFetchRequestGroup]:
    """The groups that a request of any version asks for."""
    if api_version >= GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _answer(
    call: Call,
    request: OffsetFetchRequest,
    groups: list[OffsetFetchRequestGroup],
    fetched: list[FetchedOffsets],
) -> Steps:
    """Answer in the form of the request's version, in steps.

    Up to v7 there is one group; v0 and v1 have no error of its own, so there it is on each
    partition of the request.
    """
    if call.api_version >= GROUPS_SINCE:
        answered: list[OffsetFetchResponseGroup] = []
        for group, offsets in zip(groups, fetched, strict=True):
            topics = yield from _topics(group, offsets)
            answered.append(
                OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=topics, error_code=offsets.error
                )
            )
            if not len(answered) % STEP_ITEMS:
                yield
        call.reply(OffsetFetchResponse(groups=answered))
        return
    error = fetched[0].error
    if error is not ErrorCode.NONE and call.api_version >= TOP_LEVEL_ERROR_SINCE:
        call.reply(OffsetFetchResponse(error_code=error))
        return
    topics = yield from _topics(groups[0], fetched[0], is_refused=error is not ErrorCode.NONE)
    call.reply(OffsetFetchResponse(topics=(yield from _old_topics(topics, error))))


def _topics(
    group: OffsetFetchRequestGroup, fetched: FetchedOffsets, *, is_refused: bool = False
) -> Topics:
    """The offsets of the partitions asked for (all when `topics` is null).

    None of a group with an error; `is_refused` lists the partitions all the same.
    """
    topics: list[OffsetFetchResponseTopics] = []
    if fetched.error is not ErrorCode.NONE and not is_refused:
        return topics
    if group.topics is None:
        wanted: Iterable[tuple[str, Iterable[int]]] = [
            (name, sorted(offsets)) for name, offsets in fetched.by_topic.items()
        ]
    else:
        wanted = ((one.name, one.partition_indexes) for one in group.topics)
    built = 0
    for name, indexes in wanted:
        offsets = fetched.by_topic.get(name, {})
        partitions: list[OffsetFetchResponsePartitions] = []
        for index in indexes:
            partitions.append(_partition(index, offsets.get(index)))
            built += 1
            if not built % STEP_ITEMS:
                yield
        topics.append(OffsetFetchResponseTopics(name=name, partitions=partitions))
        built += 1
        if not built % STEP_ITEMS:
            yield
    return topics


def _partition(index: int, stored: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if stored is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _old_topics(
    topics: list[OffsetFetchResponseTopics], error: ErrorCode
) -> Generator[None, None, list[OffsetFetchResponseTopic]]:
    """Topics in the form of v0..7, with `error` on each partition."""
    old: list[OffsetFetchResponseTopic] = []
    built = 0
    for topic in topics:
        partitions: list[OffsetFetchResponsePartition] = []
        for one in topic.partitions:
            partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=error,
                )
            )
            built += 1
            if not built % STEP_ITEMS:
                yield
        old.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return old
