"""A group call whose response is merged with what the handler answers itself.

OffsetCommit and OffsetDelete answer partitions that do not exist in the handler; the group answers
the others. Source: KafkaApis, and the builders of OffsetCommitResponse and OffsetDeleteResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from protocol.apis.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from protocol.apis.offset_delete import OffsetDeleteResponse, OffsetDeleteResponseTopic

if TYPE_CHECKING:
    from coordinator_server.group.effects import Caller
    from coordinator_server.net.call import Call

Response = TypeVar("Response", OffsetCommitResponse, OffsetDeleteResponse)
Topic = TypeVar("Topic", OffsetCommitResponseTopic, OffsetDeleteResponseTopic)

STEP_PARTITIONS = 500
"""Partitions of a request that one step looks up."""


class MergedCall(Generic[Response]):
    """A GroupCall that answers `call` with `merge(response)`."""

    __slots__ = ("_merge", "call")

    def __init__(self, call: Call, merge: Callable[[Response], Response]) -> None:
        self.call = call
        self._merge: Callable[[Response], Response] = merge

    @property
    def caller(self) -> Caller:
        """Who sent the request."""
        return self.call.caller

    @property
    def is_large(self) -> bool:
        """As the whole request."""
        return self.call.is_large

    def reply(self, response: Response, /) -> None:
        """Answer the whole request."""
        self.call.reply(self._merge(response))

    def fail(self) -> None:
        """The whole request fails."""
        self.call.fail()


def merge_topics(topics: dict[str, Topic], more: Iterable[Topic]) -> list[Topic]:
    """Add topics of a response to those of another, by name; one entry per topic."""
    for topic in more:
        known = topics.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
