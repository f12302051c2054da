"""What the five APIs of the share coordinator have in common: every share partition by itself.

Brokers of a real cluster send them to each other; here they ask by a call, see
`coordinator.share_persister`. Source: KafkaApis, ShareCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from coordinator_server.topics.counts import ShardedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.core.share_partitions.persister import ShareState, ShareStateSummary
    from coordinator_server.core.share_state.shard import StateOutcome
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.schema import Message


class StateResult(Protocol):
    """The answer to one share partition."""

    partition: int
    error_code: int
    error_message: str | None


R = TypeVar("R", bound=StateResult)


class TopicResult(Protocol[R]):
    """The answers to one topic."""

    partitions: list[R]


class AskedTopic(Protocol):
    """One topic of a request."""

    @property
    def partitions(self) -> Sequence[object]:
        """Its share partitions."""


def names_partitions(group_id: str, topics: Sequence[AskedTopic]) -> bool:
    """Whether a request asks for something. What does not is answered with nothing at all, even if
    only one of its topics has no partitions."""
    return bool(group_id and topics) and all(topic.partitions for topic in topics)


class Answers(Generic[R]):
    """The results of a request, which is answered with the last of them.

    `add_topic(topic_id)` adds a topic to the response. What is named twice is asked twice and
    answered once, with what came last.
    """

    __slots__ = ("_add_topic", "_by_key", "_by_topic", "_call", "_left", "_response")

    def __init__(
        self, call: Call, response: Message, add_topic: Callable[[bytes], TopicResult[R]]
    ) -> None:
        self._call = call
        self._response = response
        self._add_topic = add_topic
        self._by_topic: dict[bytes, TopicResult[R]] = {}
        self._by_key: ShardedDict[tuple[bytes, int], R] = ShardedDict()
        self._left = 1  # until all are asked, so that the answer comes after the last

    def expect(self, topic_id: bytes, result: R) -> R:
        """The result of a share partition that is asked for next; `result` if it is a new one."""
        self._left += 1
        known = self._by_key.setdefault((topic_id, result.partition), result)
        if known is result:
            topic = self._by_topic.get(topic_id)
            if topic is None:
                topic = self._by_topic[topic_id] = self._add_topic(topic_id)
            topic.partitions.append(result)
        return known

    def take(self, result: R, answer: StateOutcome | ShareState | ShareStateSummary) -> None:
        """A result is known; its further fields are set."""
        result.error_code = answer.error
        result.error_message = answer.message
        self._settle()

    def all_asked(self) -> Steps:
        """Answer once everything is known; nothing more is expected."""
        self._settle()
        yield from self._by_key.clear()

    def _settle(self) -> None:
        self._left -= 1
        if not self._left:
            self._call.reply(self._response)
