"""Access checks of APIs with offsets of several groups: OffsetFetch, DescribeShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from coordinator_server.apis.checks import refusals
from coordinator_server.apis.checks.entries import Entries, Place, changed
from coordinator_server.security.acl import Operation, ResourceType
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.apis.checks.check import Asking
    from coordinator_server.security.access import Access
    from protocol.schema import Message

_GROUPS_SINCE = 8
_TOP_LEVEL_ERROR_SINCE = 2
_GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class _Group:
    """One group of a request: refused, or answered with a subset of its topics.

    If all topics were requested (`shows_all`), topics that may not be described are left out.
    Otherwise such topics and unknown topic ids are listed in `refused`.
    """

    def __init__(self, asked: Any, access: Access) -> None:
        self.asked = asked
        self.is_refused = not access.group(Operation.DESCRIBE, asked.group_id)
        self.shows_all = asked.topics is None
        self.refused: list[tuple[Any, ErrorCode]] = []
        self._access = access

    def ask(self, name_of: Callable[[Any], str | None]) -> Generator[None, None, None]:
        """Check the topics, and leave those that may be described."""
        if self.is_refused or self.asked.topics is None:
            return
        left = []
        for topic in self.asked.topics:
            name = name_of(topic)
            if name is None:
                self.refused.append((topic, ErrorCode.UNKNOWN_TOPIC_ID))
            elif self._access.topic(Operation.DESCRIBE, name):
                left.append(topic)
            else:
                self.refused.append((topic, _TOPIC_REFUSED))
            yield
        self.asked.topics = left

    def shown(
        self,
        topics: list[Any],
        name_of: Callable[[Any], str],
        refused: refusals.Refused,
    ) -> Generator[None, None, list[Any]]:
        """Return the visible topics of the response, followed by the refused topics."""
        shown = []
        for topic in topics:
            if not self.shows_all or self._access.topic(Operation.DESCRIBE, name_of(topic)):
                shown.append(topic)
            yield
        for topic, error in self.refused:
            shown.append((yield from refused(topic, error)))
        return shown


def _ask(
    asking: Asking, request: Any, name_of: Callable[[Any], str | None]
) -> Generator[None, None, list[_Group]]:
    """Check all groups of a request, and leave those that may be described."""
    groups = []
    for asked in request.groups:
        group = _Group(asked, asking.access)
        yield from group.ask(name_of)
        groups.append(group)
        yield
    request.groups = [group.asked for group in groups if not group.is_refused]
    return groups


def offset_fetch(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave the groups and topics that may be described."""
    if asking.call.api_version < _GROUPS_SINCE:
        return (yield from _offset_fetch_of_one(asking, request))
    topics = asking.broker.topics

    def name_of(topic: Any) -> str | None:
        if topic.topic_id == ZERO_UUID:
            return str(topic.name)
        known = topics.topic_by_id(topic.topic_id)
        return None if known is None else known.name

    groups = yield from _ask(asking, request, name_of)

    def amend(response: Any) -> Generator[None, None, Message]:
        answered = iter(response.groups)
        shown = []
        for group in groups:
            if group.is_refused:
                shown.append(
                    OffsetFetchResponseGroup(
                        group_id=group.asked.group_id, error_code=_GROUP_REFUSED
                    )
                )
                continue
            one = next(answered)
            if not one.error_code:
                one = OffsetFetchResponseGroup(
                    group_id=one.group_id,
                    topics=(yield from group.shown(one.topics, _name, _refused_topics)),
                )
            shown.append(one)
        return OffsetFetchResponse(groups=shown)

    return (yield from _reply_or_amend(asking, groups, OffsetFetchResponse(), amend))


def _reply_or_amend(
    asking: Asking,
    groups: list[_Group],
    empty: Message,
    amend: Callable[[Any], Generator[None, None, Message]],
) -> Generator[None, None, bool]:
    """Respond at once if no group is left for the handler, else amend its response."""
    if groups and all(group.is_refused for group in groups):
        asking.call.reply((yield from amend(empty)))
        return False
    if any(group.is_refused or group.shows_all or group.refused for group in groups):
        asking.call.amend = amend
    return True


def _offset_fetch_of_one(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check a request before version 8: one group, with a top-level error."""
    call = asking.call
    group = _Group(request, asking.access)
    if group.is_refused:
        if call.api_version >= _TOP_LEVEL_ERROR_SINCE:
            call.reply(OffsetFetchResponse(error_code=_GROUP_REFUSED))
        else:
            topics = []
            for topic in request.topics:
                topics.append((yield from _refused_topic(topic, _GROUP_REFUSED)))
            call.reply(OffsetFetchResponse(topics=topics))
        return False
    yield from group.ask(_name)

    def amend(response: Any) -> Generator[None, None, Any]:
        if response.error_code:
            return response
        topics = yield from group.shown(response.topics, _name, _refused_topic)
        return OffsetFetchResponse(topics=topics)

    if group.shows_all or group.refused:
        call.amend = amend
    return True


def _name(topic: Any) -> str:
    return str(topic.name)


def _refused_topics(topic: Any, error: ErrorCode) -> refusals.Refusal:
    return refusals.with_partitions(
        OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id),
        (
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=error,
            )
            for index in topic.partition_indexes
        ),
    )


def _refused_topic(topic: Any, error: ErrorCode = _TOPIC_REFUSED) -> refusals.Refusal:
    return refusals.with_partitions(
        OffsetFetchResponseTopic(name=topic.name),
        (
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ),
    )


def describe_share_group_offsets(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave the groups and topics that may be described."""
    groups = yield from _ask(asking, request, _topic_name)

    def amend(response: Any) -> Generator[None, None, Message]:
        answered = iter(response.groups)
        shown = []
        for group in groups:
            if group.is_refused:
                one = DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.asked.group_id, error_code=_GROUP_REFUSED
                )
            else:
                one = next(answered)
                if not one.error_code:
                    topics = yield from group.shown(one.topics, _topic_name, _refused_offsets)
                    one = changed(one, topics=topics)
            shown.append(one)
        return DescribeShareGroupOffsetsResponse(groups=shown)

    empty = DescribeShareGroupOffsetsResponse()
    return (yield from _reply_or_amend(asking, groups, empty, amend))


ALTERED_SHARE_OFFSETS = Entries(
    Operation.READ,
    ResourceType.TOPIC,
    lambda broker, topic: str(topic.topic_name),
    refusals.alter_share_group_offsets,
    answer="responses",
    place=Place.FIRST,
)


def alter_share_group_offsets(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave the topics that may be read; refused topics include their id, as in Kafka."""
    yield from ALTERED_SHARE_OFFSETS.serve(asking, request)
    merge, topics = asking.call.amend, asking.broker.topics

    def amend(response: Any) -> Generator[None, None, Any]:
        assert merge is not None
        response = yield from merge(response)
        for one in response.responses:
            known = topics.topic(one.topic_name)
            if known is not None and one.topic_id == ZERO_UUID:
                one.topic_id = known.topic_id
            yield
        return response

    if merge is not None:
        asking.call.amend = amend
    return True


def _topic_name(topic: Any) -> str:
    return str(topic.topic_name)


def _refused_offsets(topic: Any, error: ErrorCode) -> refusals.Refusal:
    return refusals.with_partitions(
        DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name),
        (
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=-1,
                error_code=error,
                error_message=error.message,
            )
            for index in topic.partitions
        ),
    )
