"""OffsetFetch: return the committed offsets of one group, in every state.

The core returns a copy of the current offsets; the handler builds the response for the request's
version. Source: OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.offsets import CommittedOffset, Revision
    from protocol.apis.offset_fetch import OffsetFetchRequestTopics


class FetchedOffsets(NamedTuple):
    """The offsets of a group by topic and partition: at least all requested offsets."""

    error: ErrorCode
    by_topic: Mapping[str, Mapping[int, CommittedOffset]]
    unstable: Mapping[str, Collection[int]]
    """The partitions with pending offsets, if stable offsets were requested."""
    revision: Revision | None = None
    """The revision of the group's offsets at the time of the copy."""


class FetchOffsets(NamedTuple):
    """An OffsetFetch of one group; `requires_stable` excludes offsets with pending transactions.

    `member_id` and `member_epoch` identify the requesting member of a consumer group (v9+).
    """

    group_id: str
    topics: list[OffsetFetchRequestTopics] | None
    requires_stable: bool
    member_id: str | None = None
    member_epoch: int = -1


def refuse(_: FetchOffsets, __: Caller, error: ErrorCode) -> FetchedOffsets:
    """Return an error for the whole group."""
    return FetchedOffsets(error, {}, {})


def missing(_: FetchOffsets, __: Caller) -> FetchedOffsets:
    """Return no offsets and no error for a group that does not exist."""
    return FetchedOffsets(ErrorCode.NONE, {}, {})


def fetch(
    group: Group,
    request: FetchOffsets,
    reply: Reply[FetchedOffsets],
    now_ms: int,
    effects: Effects,
) -> None:
    """Copy the stored offsets of the requested topics (of all topics if `topics` is null)."""
    error = group.check_fetch(request.member_id, request.member_epoch)
    if error is not ErrorCode.NONE:
        effects.reply(reply, refuse(request, reply.caller, error))
        return
    stored = group.offsets.by_topic
    topics = request.topics
    # If the request names more topics than the group has, copying all topics is cheaper.
    if topics is None or len(topics) > len(stored):
        copied = {topic: offsets.copy() for topic, offsets in stored.items()}
    else:
        copied = {topic.name: stored[topic.name].copy() for topic in topics if topic.name in stored}
    unstable: Mapping[str, Collection[int]] = {}
    if request.requires_stable and group.offsets.pending:
        pending = group.offsets.pending.by_topic
        unstable = {topic: tuple(partitions) for topic, partitions in pending.items()}
    effects.reply(reply, FetchedOffsets(ErrorCode.NONE, copied, unstable, group.offsets.revision))


OFFSET_FETCH = GroupApi(
    request_type=FetchOffsets,
    serve=fetch,
    serves_every_kind=True,
    refuse=refuse,
    missing=missing,
    at_once=True,
)
