"""A group call whose response is merged with what the handler answers itself.

OffsetCommit and OffsetDelete answer partitions that do not exist in the handler; the group answers
the others. Source: KafkaApis, and the builders of OffsetCommitResponse and OffsetDeleteResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from coordinator_server.topics.counts import ShardedDict
from protocol.apis.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from protocol.apis.offset_delete import OffsetDeleteResponse, OffsetDeleteResponseTopic

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.steps import Steps

Response = TypeVar("Response", OffsetCommitResponse, OffsetDeleteResponse)
Topic = TypeVar("Topic", OffsetCommitResponseTopic, OffsetDeleteResponseTopic)


class MergedTopics(Generic[Topic]):
    """The topics of a response, one entry per `key(topic)`."""

    __slots__ = ("_by_key", "_key", "topics")

    def __init__(self, key: Callable[[Topic], Hashable]) -> None:
        self.topics: list[Topic] = []
        self._key: Callable[[Topic], Hashable] = key
        self._by_key: ShardedDict[Hashable, Topic] = ShardedDict()

    def add(self, topic: Topic) -> None:
        """Add a topic, or its partitions to those of the same topic."""
        known = self._by_key.setdefault(self._key(topic), topic)
        if known is topic:
            self.topics.append(topic)
        else:
            known.partitions += topic.partitions

    def add_all(self, topics: Iterable[Topic]) -> Generator[None, None, list[Topic]]:
        """Add the last topics, in steps; returns all of them."""
        for topic in topics:
            self.add(topic)
            yield
        yield from self._by_key.clear()
        return self.topics


class CommitCall(Protocol):
    """The call of a commit: that of OffsetCommit itself, or what makes it of another request."""

    @property
    def caller(self) -> Caller:
        """Who sent the request."""

    @property
    def is_large(self) -> bool:
        """Whether the request has to be handled in steps."""

    def reply(self, response: OffsetCommitResponse, /) -> None:
        """Answer the request."""

    def run(self, steps: Steps) -> None:
        """Do work for the request in steps."""

    def fail(self) -> None:
        """The request fails."""


class MergeableCall(Protocol):
    """What a merged call needs of the call that it answers in the end."""

    @property
    def caller(self) -> Caller:
        """Who sent the request."""

    @property
    def is_large(self) -> bool:
        """Whether the request has to be handled in steps."""

    def run(self, steps: Steps) -> None:
        """Do work for the request in steps."""

    def fail(self) -> None:
        """The request fails."""


class MergedCall(Generic[Response]):
    """A GroupCall of which `answer(response)` answers `call`, in steps."""

    __slots__ = ("_answer", "call")

    def __init__(self, call: MergeableCall, answer: Callable[[Response], Steps]) -> None:
        self.call = call
        self._answer: Callable[[Response], Steps] = answer

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
        self.call.run(self._answer(response))

    def run(self, steps: Steps) -> None:
        """Do work for the whole request in steps."""
        self.call.run(steps)

    def fail(self) -> None:
        """The whole request fails."""
        self.call.fail()
