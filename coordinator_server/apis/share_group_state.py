"""Common parts of the five share coordinator APIs: collect one result per share partition.

The brokers of a Kafka cluster send these requests to each other; here brokers use method calls, see
`coordinator.share_persister`. Source: KafkaApis, ShareCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator_server.core.share_partitions.persister import SharePartitionKey
from coordinator_server.topics.counts import ShardedDict
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.persister import ShareState, ShareStateSummary
    from coordinator_server.core.share_state.shard import StateOutcome
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.schema import Message


class StateResult(Protocol):
    """The result for one share partition."""

    partition: int
    error_code: int
    error_message: str | None


R = TypeVar("R", bound=StateResult)


class TopicResult(Protocol[R]):
    """The results for one topic."""

    partitions: list[R]


Ask = Callable[[SharePartitionKey, Any, Callable[[Any], None]], "Steps | None"]
"""`ask(key, asked, done)` passes the request for one share partition to the share coordinator."""


def serve_all(
    call: Call,
    request: Any,
    response: Any,
    topic_result: Callable[..., TopicResult[R]],
    result: Callable[..., R],
    ask: Ask,
    fill: Callable[[R, Any], None] | None = None,
) -> Steps:
    """Ask for every share partition of a request; send `response` when all results are set.

    `fill(result, answer)` sets further fields of a result, from an answer without an error. If a
    topic names no partitions, the response is empty.
    """
    topics = request.topics
    if not (request.group_id and topics and all(topic.partitions for topic in topics)):
        call.reply(response)
        return

    def add_topic(topic_id: bytes) -> TopicResult[R]:
        response.results.append(topic_result(topic_id=topic_id))
        added: TopicResult[R] = response.results[-1]
        return added

    answers: Answers[R] = Answers(call, response, add_topic, fill)
    for topic in topics:
        for asked in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            expected = answers.expect(topic.topic_id, result(partition=asked.partition))
            yield from ask(key, asked, partial(answers.take, expected)) or ()
            yield
        yield
    yield from answers.all_asked()


class Answers(Generic[R]):
    """The results of a request; the response is sent after the last result.

    `add_topic(topic_id)` adds a topic to the response. A partition named twice is processed twice
    and has one result, the last.
    """

    __slots__ = ("_add_topic", "_by_key", "_by_topic", "_call", "_fill", "_left", "_response")

    def __init__(
        self,
        call: Call,
        response: Message,
        add_topic: Callable[[bytes], TopicResult[R]],
        fill: Callable[[R, Any], None] | None,
    ) -> None:
        self._fill = fill
        self._call = call
        self._response = response
        self._add_topic = add_topic
        self._by_topic: dict[bytes, TopicResult[R]] = {}
        self._by_key: ShardedDict[tuple[bytes, int], R] = ShardedDict()
        # The number of missing results; the extra 1 keeps the count above 0 until `all_asked`.
        self._left = 1

    def expect(self, topic_id: bytes, result: R) -> R:
        """Add a share partition whose result is expected.

        Returns `result`, or the result object of an earlier entry for the same partition.
        """
        self._left += 1
        known = self._by_key.setdefault((topic_id, result.partition), result)
        if known is result:
            topic = self._by_topic.get(topic_id)
            if topic is None:
                topic = self._by_topic[topic_id] = self._add_topic(topic_id)
            topic.partitions.append(result)
        return known

    def take(self, result: R, answer: StateOutcome | ShareState | ShareStateSummary) -> None:
        """Set the fields of a result from the share coordinator's answer."""
        if self._fill is not None and answer.error is ErrorCode.NONE:
            self._fill(result, answer)
        result.error_code = answer.error
        result.error_message = answer.message
        self._settle()

    def all_asked(self) -> Steps:
        """Send the response when all results are set; no more results are expected."""
        self._settle()
        yield from self._by_key.clear()

    def _settle(self) -> None:
        self._left -= 1
        if not self._left:
            self._call.reply(self._response)
