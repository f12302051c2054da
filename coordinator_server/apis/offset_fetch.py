"""OffsetFetch: return committed offsets of one group (up to version 7) or several groups.

All versions are handled in the form of v8+, a list of groups.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.offset_fetch import FetchedOffsets, FetchOffsets
from coordinator_server.core.groups.offsets import CommittedOffset
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
from protocol.schema import ZERO_UUID, Columns, frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Hashable, Iterator, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.rights import Rights
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from protocol.apis.offset_fetch import OffsetFetchRequest

    Offsets = Mapping[int, CommittedOffset]
    Topics = Generator[None, None, list[OffsetFetchResponseTopics]]

GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
TOP_LEVEL_ERROR_SINCE = 2
NO_OFFSET = -1
STEP_ITEMS = 500
KEPT_PARTITIONS = 500
KEPT_ANSWERS = 256
"""Limits of the response cache: partitions per cached response (KEPT_PARTITIONS) and number of
responses."""


def handle(broker: Broker, call: Call, request: OffsetFetchRequest) -> Steps:
    """Fetch the offsets of each group; the response is sent when all groups have responded."""
    groups = yield from _groups(request, call.api_version)
    if call.api_version >= TOPIC_IDS_SINCE:
        yield from _name_topics(broker.topics, groups)

    def finish(fetched: list[FetchedOffsets]) -> None:
        call.run(_answer(call, broker.topics, groups, fetched))

    fan_in = FanIn(call, len(groups), finish)
    for index, group in enumerate(groups):
        of_group = FetchOffsets(
            group.group_id,
            group.topics,
            request.require_stable,
            group.member_id,
            group.member_epoch,
        )
        broker.groups.submit(fan_in.part(index), of_group)
        if index % STEP_ITEMS == STEP_ITEMS - 1:
            yield


def _groups(
    request: OffsetFetchRequest, api_version: int
) -> Generator[None, None, list[OffsetFetchRequestGroup]]:
    """Return the groups that a request of any version names."""
    if api_version >= GROUPS_SINCE:
        return request.groups
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = []
        for topic in request.topics:
            topics.append(
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            )
            if not len(topics) % STEP_ITEMS:
                yield
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _name_topics(topics: TopicManager, groups: list[OffsetFetchRequestGroup]) -> Steps:
    """Set the topic names in a request by topic id; an unknown topic gets ""."""
    seen = 0
    for group in groups:
        for topic in group.topics or ():
            known = topics.topic_by_id(topic.topic_id)
            topic.name = "" if known is None else known.name
            seen += 1
            if not seen % STEP_ITEMS:
                yield


def _answer(
    call: Call,
    topics: TopicManager,
    groups: list[OffsetFetchRequestGroup],
    fetched: list[FetchedOffsets],
) -> Steps:
    """Send the response in the format of the request's version, in steps."""
    rights = call.rights
    key = None
    if not (rights.refused or rights.refused_within):
        key = _kept_answer_key(call.api_version, groups, fetched)
    response = None if key is None else _kept_answers.get(key)
    if response is None:
        if call.api_version >= GROUPS_SINCE:
            response = yield from _of_groups(call, topics, groups, fetched)
        else:
            response = yield from _of_one_group(call, topics, groups[0], fetched[0])
        if key is not None:
            if len(_kept_answers) >= KEPT_ANSWERS:
                _kept_answers.clear()
            response = _kept_answers[key] = frozen(response)
    call.reply(response)


def _of_groups(
    call: Call,
    topics: TopicManager,
    groups: list[OffsetFetchRequestGroup],
    fetched: list[FetchedOffsets],
) -> Generator[None, None, OffsetFetchResponse]:
    """Build the response of v8 and later."""
    by_id, rights = call.api_version >= TOPIC_IDS_SINCE, call.rights
    answered: list[OffsetFetchResponseGroup] = []
    for group, offsets in zip(groups, fetched, strict=True):
        of_group = yield from _topics(topics, rights, group, offsets, by_id=by_id)
        if rights.refused_within and offsets.error is ErrorCode.NONE:
            of_group += rights.refused_within.get(len(answered), ())
        answered.append(
            OffsetFetchResponseGroup(
                group_id=group.group_id, topics=of_group, error_code=offsets.error
            )
        )
        if not len(answered) % STEP_ITEMS:
            yield
    if rights.refused:
        answered = yield from rights.in_order(answered)
    return OffsetFetchResponse(groups=answered)


def _of_one_group(
    call: Call,
    topics: TopicManager,
    group: OffsetFetchRequestGroup,
    fetched: FetchedOffsets,
) -> Generator[None, None, OffsetFetchResponse]:
    """Build the response of v0 to v7.

    v0 and v1 have no top-level error field, so each partition carries the error.
    """
    error, rights = fetched.error, call.rights
    if error is not ErrorCode.NONE and call.api_version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(error_code=error)
    is_refused = error is not ErrorCode.NONE
    of_group = yield from _topics(topics, rights, group, fetched, is_refused=is_refused)
    old = yield from _old_topics(of_group, error)
    return OffsetFetchResponse(topics=[*old, *rights.refused_within.get(0, ())])


_kept_answers: dict[Hashable, OffsetFetchResponse] = {}


def _kept_answer_key(
    api_version: int, groups: list[OffsetFetchRequestGroup], fetched: list[FetchedOffsets]
) -> Hashable | None:
    """Return the cache key of a response, or None if the response is not cached.

    The cache serves monitoring tools, which query the lag of a group repeatedly. Responses for all
    topics are not cached: with topic ids, these responses also depend on which topics exist.
    """
    if len(groups) != 1 or fetched[0].revision is None or fetched[0].unstable:
        return None
    topics = groups[0].topics
    if topics is None or len(topics) > KEPT_PARTITIONS:
        return None
    if sum([len(topic.partition_indexes) for topic in topics]) > KEPT_PARTITIONS:
        return None
    asked = [(topic.name, topic.topic_id, tuple(topic.partition_indexes)) for topic in topics]
    return fetched[0].revision, api_version, tuple(asked)


def _topics(
    topics: TopicManager,
    rights: Rights,
    group: OffsetFetchRequestGroup,
    fetched: FetchedOffsets,
    *,
    by_id: bool = False,
    is_refused: bool = False,
) -> Topics:
    """Return the offsets of the requested partitions (all, if the group's `topics` is null).

    If the client asks for all topics, only topics that it may describe are returned. For a group
    with an error, no topics are returned, except with `is_refused`. In a request with topic ids,
    offsets that were committed for a deleted topic of the same name are ignored.
    """
    answered: list[OffsetFetchResponseTopics] = []
    if fetched.error is not ErrorCode.NONE and not is_refused:
        return answered
    built = 0
    checks_id = by_id and group.topics is not None
    hides_topics = rights.is_restricted and group.topics is None
    for name, topic_id, indexes in _wanted(topics, group, fetched, by_id=by_id):
        if hides_topics and not rights.allows(name):
            yield
            continue
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and not name else ErrorCode.NONE
        offsets = fetched.by_topic.get(name, {})
        unstable = fetched.unstable.get(name, ())
        if not (is_refused or unstable or error):
            columns = _columns(indexes, offsets, topic_id if checks_id else None)
            if columns is not None:
                answered.append(
                    OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=columns)
                )
                yield
                continue
        partitions: list[OffsetFetchResponsePartitions] = []
        for index in indexes:
            stored = offsets.get(index)
            if stored and checks_id and stored.topic_id not in (topic_id, ZERO_UUID):
                stored = None
            if index in unstable and error is ErrorCode.NONE:
                partitions.append(_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                partitions.append(_partition(index, stored, error))
            built += 1
            if not built % STEP_ITEMS:
                yield
        answered.append(
            OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
        )
        built += 1
        if not built % STEP_ITEMS:
            yield
    return answered


_metadata_of = attrgetter("metadata")
_NO_OFFSETS = CommittedOffset(NO_OFFSET)


def _columns(
    indexes: Collection[int], offsets: Offsets, topic_id: bytes | None
) -> list[OffsetFetchResponsePartitions] | None:
    """Return the offsets of a topic in columns, which are fast to encode, or None.

    Returns None if an offset has metadata or was committed for another topic id than `topic_id`,
    or if there are more than STEP_ITEMS partitions.
    """
    if len(indexes) > STEP_ITEMS:
        return None
    stored = [offsets.get(index, _NO_OFFSETS) for index in indexes]
    if any(map(_metadata_of, stored)):
        return None
    if topic_id and not {commit.topic_id for commit in stored} <= {topic_id, ZERO_UUID}:
        return None
    columns = Columns(
        OffsetFetchResponsePartitions,
        len(stored),
        {
            # Copy the list: `dispose` empties the request's own list after a response in steps.
            "partition_index": list(indexes),
            "committed_offset": [commit.offset for commit in stored],
            "committed_leader_epoch": [commit.leader_epoch for commit in stored],
            "metadata": repeat(""),
            "error_code": repeat(ErrorCode.NONE),
        },
    )
    return cast("list[OffsetFetchResponsePartitions]", columns)


def _wanted(
    topics: TopicManager, group: OffsetFetchRequestGroup, fetched: FetchedOffsets, *, by_id: bool
) -> Iterator[tuple[str, bytes, Collection[int]]]:
    """Yield name, id and partitions of the topics to return, in Kafka's order: unknown ids last.

    A request for all topics by id leaves out topics that no longer exist.
    """
    if group.topics is not None:
        for topic in group.topics:
            if topic.name or not by_id:
                yield topic.name, topic.topic_id, topic.partition_indexes
        if by_id:
            for topic in group.topics:
                if not topic.name:
                    yield "", topic.topic_id, topic.partition_indexes
        return
    for name, offsets in fetched.by_topic.items():
        known = topics.topic(name) if by_id else None
        if known is not None or not by_id:
            yield name, ZERO_UUID if known is None else known.topic_id, sorted(offsets)


def _partition(
    index: int, stored: CommittedOffset | None, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    if stored is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
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
    """Convert topics to the format of v0 to v7; `error` is set where a partition has no error."""
    old: list[OffsetFetchResponseTopic] = []
    built = 0
    for topic in topics:
        columns = topic.partitions
        if isinstance(columns, Columns):
            same = Columns(OffsetFetchResponsePartition, len(columns), columns.columns)
            partitions = cast("list[OffsetFetchResponsePartition]", same)
            old.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
            yield
            continue
        partitions = []
        for partition in topic.partitions:
            partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code or error,
                )
            )
            built += 1
            if not built % STEP_ITEMS:
                yield
        old.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        if not len(old) % STEP_ITEMS:
            yield
    return old
