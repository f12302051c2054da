"""OffsetCommit: store the committed offsets of members and standalone consumers.

The handler has already dropped partitions that do not exist, as Kafka's handler does, so every
partition here can be stored. Source: ClassicGroup.validateOffsetCommit,
OffsetMetadataManager.commitOffset.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.commit_layout import layout_of
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.offsets import CommittedOffset, is_too_long
from coordinator_server.core.groups.records import OffsetRecords
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID, ReceivedColumns, is_frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch, Reply
    from coordinator_server.core.groups.group import Group
    from coordinator_server.steps import Steps
    from protocol.apis.offset_commit import OffsetCommitRequestTopic

GROUP_ID_NOT_FOUND_SINCE = 9
NO_RETENTION = -1

Place = tuple[int, int]
"""The index of a topic in the request, and the index of a partition in the topic's list."""


def refuse(request: OffsetCommitRequest, _: Caller, error: ErrorCode) -> OffsetCommitResponse:
    """Return a response with `error` on every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def missing(request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
    """Return the error for a commit with a generation to a group that does not exist."""
    error = ErrorCode.ILLEGAL_GENERATION
    if caller.api_version >= GROUP_ID_NOT_FOUND_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    return refuse(request, caller, error)


def creates_group(request: OffsetCommitRequest) -> bool:
    """Return whether the commit creates a missing group: commits without generation or epoch do.

    Standalone consumers and administrators send such commits.
    """
    return request.generation_id_or_member_epoch < 0


def commit(
    group: Group,
    request: OffsetCommitRequest,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
) -> Steps | None:
    """Store the offsets in one batch; the response is sent after the write.

    Like Kafka, the coordinator checks neither the offset nor the owner of the partition. If
    metadata is too long, only its partition fails.
    """
    error = group.check_commit(request, reply.caller.api_version)
    if error is not ErrorCode.NONE:
        effects.reply(reply, refuse(request, reply.caller, error))
        return None
    group.committed_by(request.member_id, now_ms)
    return store(group, request, reply, now_ms, effects)


def store(
    group: Group,
    request: OffsetCommitRequest,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
    producer: ProducerIdAndEpoch | None = None,
) -> Steps | None:
    """Store the offsets of a permitted commit; `producer` makes them part of its transaction."""
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == NO_RETENTION else _java_long(now_ms + retention_ms)
    stamp = _Stamp(now_ms, expire_ms, has_topic_id=expire_ms == -1 and producer is None)
    stored = _Commit(group, request, reply, effects, producer)
    plain = _plain_topics(request, stamp)
    if plain is None:
        return _store_in_steps(stored, stamp)
    layout = None
    if stamp.has_topic_id:
        asked = zip(request.topics, plain, strict=True)
        layout = layout_of(
            group.group_id,
            tuple([(topic.name, topic.topic_id, tuple(offsets)) for topic, (_, offsets) in asked]),
        )
    if layout is None:
        return _store_in_steps(stored, stamp)
    _write(stored, OffsetRecords(group.group_id, plain, layout), layout.response)
    return None


class _Stamp(NamedTuple):
    """The fields that all offsets of one commit share.

    An offset with an expiry is written as value version 1, which has no topic id. Kafka does not
    write topic ids for TxnOffsetCommit.
    """

    now_ms: int
    expire_ms: int
    has_topic_id: bool


class _Commit(NamedTuple):
    """A commit that is being stored."""

    group: Group
    request: OffsetCommitRequest
    reply: Reply[OffsetCommitResponse]
    effects: Effects
    producer: ProducerIdAndEpoch | None


def _write(commit: _Commit, records: OffsetRecords, response: OffsetCommitResponse) -> None:
    """Write the records, then send the response."""
    group, request, reply, effects, producer = commit

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, _not_stored(response, client_error(error)))
            return
        if effects.debug:
            effects.event(
                "offsets.committed",
                group=group.group_id,
                member=request.member_id,
                partitions=len(records),
            )
        effects.reply(reply, response)

    effects.write(records, done, producer)


_metadata_of = attrgetter("committed_metadata")
_new_offset: Callable[[Iterable[object]], CommittedOffset] = partial(tuple.__new__, CommittedOffset)


def _plain_topics(
    request: OffsetCommitRequest, stamp: _Stamp
) -> list[tuple[str, dict[int, CommittedOffset]]] | None:
    """Return the offsets of each topic, or None if the commit is not plain.

    A commit is not plain if it is large, has metadata, names a partition twice, or has a topic
    without partitions. Nearly every commit is plain, so offsets are built from columns for speed.
    """
    topics: list[tuple[str, dict[int, CommittedOffset]]] = []
    count = 0
    for topic in request.topics:
        partitions = topic.partitions
        count += len(partitions)
        if count > STEP_ITEMS:
            return None
        if isinstance(partitions, ReceivedColumns):
            columns = partitions.columns
            indexes = columns["partition_index"]
            offsets_and_epochs = columns["committed_offset"], columns["committed_leader_epoch"]
        elif any(map(_metadata_of, partitions)):
            return None
        else:
            indexes = [partition.partition_index for partition in partitions]
            offsets_and_epochs = (
                [partition.committed_offset for partition in partitions],
                [partition.committed_leader_epoch for partition in partitions],
            )
        rows = zip(
            *offsets_and_epochs,
            repeat(""),
            repeat(stamp.now_ms),
            repeat(stamp.expire_ms),
            repeat(topic.topic_id if stamp.has_topic_id else ZERO_UUID),
            strict=False,
        )
        offsets = dict(zip(indexes, map(_new_offset, rows), strict=True))
        if not offsets or len(offsets) != len(partitions):
            return None
        topics.append((topic.name, offsets))
    return topics or None


def _store_in_steps(commit: _Commit, stamp: _Stamp) -> Steps:
    """Store the offsets of any commit, in steps."""
    request = commit.request
    topics: list[tuple[str, dict[int, CommittedOffset]]] = []
    too_long: set[Place] = set()
    limit = commit.group.settings.offset_metadata_max_length
    for topic_index, topic in enumerate(request.topics):
        yield from _topic_offsets(topic, stamp, limit, topics, too_long, topic_index)
    response = yield from _response(request, too_long)
    if topics:
        records = OffsetRecords(commit.group.group_id, topics)
        for number, _ in enumerate(records.make_pairs(), start=1):
            if not number % STEP_ITEMS:
                yield
        _write(commit, records, response)
    else:
        # As in Kafka, the validation has created the group. The group stays, although no record
        # was written.
        commit.group.is_new = False
        commit.effects.reply(commit.reply, response)


def _topic_offsets(
    topic: OffsetCommitRequestTopic,
    stamp: _Stamp,
    limit: int,
    topics: list[tuple[str, dict[int, CommittedOffset]]],
    too_long: set[Place],
    topic_index: int,
) -> Steps:
    """Add the offsets of a topic; a partition that is named twice gets two records."""
    yield
    topic_id = topic.topic_id if stamp.has_topic_id else ZERO_UUID
    offsets: dict[int, CommittedOffset] = {}
    for index, partition in enumerate(topic.partitions):
        if not index % STEP_ITEMS:
            yield
        metadata = partition.committed_metadata or ""
        if is_too_long(metadata, limit):
            too_long.add((topic_index, index))
            continue
        if partition.partition_index in offsets:
            topics.append((topic.name, offsets))
            offsets = {}
        offsets[partition.partition_index] = CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            stamp.now_ms,
            stamp.expire_ms,
            topic_id,
        )
    if offsets:
        topics.append((topic.name, offsets))


def _response(
    request: OffsetCommitRequest, too_long: Collection[Place]
) -> Generator[None, None, OffsetCommitResponse]:
    """Build the response; partitions whose metadata is too long get an error."""
    response = OffsetCommitResponse()
    built = 0
    for topic_index, topic in enumerate(request.topics):
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        for index, partition in enumerate(topic.partitions):
            error = ErrorCode.NONE
            if too_long and (topic_index, index) in too_long:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            answered.partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
            built += 1
            if not built % STEP_ITEMS:
                yield
    return response


def _not_stored(response: OffsetCommitResponse, error: ErrorCode) -> OffsetCommitResponse:
    """Return `response` with `error` on every partition that has no error yet.

    The response of a layout is shared and small, so it is copied. Any other response is changed in
    place, because copying a large response would take too long.
    """
    if is_frozen(response):
        response = OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[partition.copy() for partition in topic.partitions],
                )
                for topic in response.topics
            ]
        )
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or error
    return response


def _java_long(number: int) -> int:
    """Wrap a sum like a Java long: an enormous retention overflows to an expiry in the past."""
    return (number + 2**63) % 2**64 - 2**63


OFFSET_COMMIT = GroupApi(
    request_type=OffsetCommitRequest,
    serve=commit,
    serves_every_kind=True,
    refuse=refuse,
    missing=missing,
    creates_group=creates_group,
    sees_deadlines=True,
)
