"""Merges the group's response to a request with errors that the API handler has found.

The handlers of OffsetCommit and OffsetDelete set the errors of partitions that do not exist; the
group sets the results of existing partitions. Source: KafkaApis, and the builders of
OffsetCommitResponse and OffsetDeleteResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator_server.topics.counts import ShardedDict
from protocol.apis.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from protocol.apis.offset_delete import OffsetDeleteResponseTopic
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.caller import Caller
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

Response = TypeVar("Response")
Topic = TypeVar("Topic", OffsetCommitResponseTopic, OffsetDeleteResponseTopic)


class MergedTopics(Generic[Topic]):
    """The topics of a response, with one entry per `key(topic)`."""

    __slots__ = ("_by_key", "_key", "topics")

    def __init__(self, key: Callable[[Topic], Hashable]) -> None:
        self.topics: list[Topic] = []
        self._key: Callable[[Topic], Hashable] = key
        self._by_key: ShardedDict[Hashable, Topic] = ShardedDict()

    def add(self, topic: Topic) -> None:
        """Add a topic, or append its partitions to the entry with the same key."""
        known = self._by_key.setdefault(self._key(topic), topic)
        if known is topic:
            self.topics.append(topic)
        else:
            known.partitions += topic.partitions

    def add_all(self, topics: Iterable[Topic]) -> Generator[None, None, list[Topic]]:
        """Add these topics in steps, and return all topics; call this last."""
        for topic in topics:
            self.add(topic)
            yield
        yield from self._by_key.clear()
        return self.topics


class MergeableCall(Protocol):
    """The part of a client's call that MergedCall uses."""

    @property
    def caller(self) -> Caller:
        """The client that sent the request."""

    @property
    def is_large(self) -> bool:
        """Whether the request must be handled in steps."""

    def run(self, steps: Steps) -> None:
        """Run work for the request in steps."""

    def fail(self) -> None:
        """Fail the request."""


class CommitCall(MergeableCall, Protocol):
    """The call of an OffsetCommit, or of a TxnOffsetCommit that is handled as an OffsetCommit."""

    def reply(self, response: OffsetCommitResponse, /) -> None:
        """Send the response."""


class MergedCall(Generic[Response]):
    """A GroupCall that passes the response of the group to `answer(response)`, in steps."""

    __slots__ = ("_answer", "call")

    def __init__(self, call: MergeableCall, answer: Callable[[Response], Steps]) -> None:
        self.call = call
        self._answer: Callable[[Response], Steps] = answer

    @property
    def caller(self) -> Caller:
        """The client that sent the request."""
        return self.call.caller

    @property
    def is_large(self) -> bool:
        """Whether the whole request must be handled in steps."""
        return self.call.is_large

    def reply(self, response: Response, /) -> None:
        """Run the steps that send the merged response."""
        self.call.run(self._answer(response))

    def run(self, steps: Steps) -> None:
        """Run work for the whole request in steps."""
        self.call.run(steps)

    def fail(self) -> None:
        """Fail the whole request."""
        self.call.fail()


def submit_share_offsets(
    broker: Broker, call: Call, request: Any, response_type: Callable[..., Any]
) -> None:
    """Submit an AlterShareGroupOffsets or DeleteShareGroupOffsets request to the group coordinator.

    Refused topics come first in the response; a response with an error has no topics.
    """
    if not call.rights.refused:
        broker.groups.submit(call, request)
        return

    def answer(response: Any) -> Steps:
        if response.error_code == ErrorCode.NONE:
            response = response_type(responses=call.rights.before(response.responses))
        call.reply(response)
        yield

    broker.groups.submit(MergedCall(call, answer), request)
