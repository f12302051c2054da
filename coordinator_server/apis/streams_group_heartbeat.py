"""StreamsGroupHeartbeat: join, stay in or leave a streams group (KIP-1071).

The group returns the internal topics that the application needs; they are created after the
response, which reports them as missing. Source: KafkaApis.handleStreamsGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.create_topics import create
from coordinator_server.core.groups.streams.status import StatusCode
from coordinator_server.core.groups.streams.validation import is_too_large
from coordinator_server.topics.counts import Counts
from coordinator_server.topics.names import is_internal, name_error
from coordinator_server.topics.topologies import topology_topics
from protocol.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatResponse, StreamsStatus
from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from coordinator_server.broker import Broker
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.streams.configure import InternalTopic
    from coordinator_server.core.groups.streams.heartbeat import HeartbeatResult
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import CreationError
    from coordinator_server.topics.topic import Topic
    from protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_MOST_SHOWN = 3
"""Maximum number of errors in a message."""


def handle(broker: Broker, call: Call, request: StreamsGroupHeartbeatRequest) -> None:
    """Submit the heartbeat to the group, unless the topology names prohibited topics."""
    if request.topology is not None and not is_too_large(request.topology):
        message = _refusal(tuple(dict.fromkeys(topology_topics(request.topology.subtopologies))))
        if message is not None:
            error = ErrorCode.STREAMS_INVALID_TOPOLOGY
            call.reply(StreamsGroupHeartbeatResponse(error_code=error, error_message=message))
            return
    broker.groups.submit(_HeartbeatCall(broker, call), request)


def _refusal(names: Collection[str]) -> str | None:
    """Return Kafka's message about internal and invalid topic names, or None."""
    prohibited = ",".join(filter(is_internal, names))
    if prohibited:
        return (
            f"Use of Kafka internal topics {prohibited} in a Kafka Streams topology is prohibited."
        )
    invalid = ",".join(name for name in names if name_error(name) is not None)
    return f"Topic names {invalid} are not valid topic names." if invalid else None


class _HeartbeatCall:
    """A GroupCall that creates the internal topics after the group has responded."""

    __slots__ = ("_broker", "call", "caller")

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self.call = call
        self.caller: Caller = call.caller

    @property
    def is_large(self) -> bool:
        """Whether the request must be handled in steps."""
        return self.call.is_large

    def reply(self, result: HeartbeatResult) -> None:
        """Send the response, then create missing internal topics."""
        response, to_create, interval_ms = result
        names = [topic.name for topic in to_create]
        refused = [name for name in names if not self.call.rights.allows(name)]
        if refused:
            _tell_refused(response, refused)
            to_create = ()
        elif to_create:
            self._tell_errors(response, names)
        self.call.reply(response)
        if to_create:
            self.call.run(_create(self._broker, self.call, to_create, 2 * interval_ms))

    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR, unless a response has been sent."""
        self.call.fail()

    def _tell_errors(self, response: StreamsGroupHeartbeatResponse, names: Collection[str]) -> None:
        """Add the errors of the last creation attempt to the status."""
        broker = self._broker
        errors = broker.creation_errors.of(names, broker.clock.now_ms())
        if not errors:
            return
        shown = [f"{name} ({message})" for name, message in errors.items()][:_MOST_SHOWN]
        more = len(errors) - len(shown)
        text = ", ".join(shown) + (f" and {more} more" if more else "")
        for status in response.status or ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; Creation failed: {text}."


def _tell_refused(response: StreamsGroupHeartbeatResponse, names: Collection[str]) -> None:
    """Add to the status that the client may not create the missing internal topics."""
    text = f"Unauthorized to CREATE on topics {', '.join(names)}."
    response.status = response.status or []
    for status in response.status:
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"
            return
    response.status.append(
        StreamsStatus(status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=text)
    )


def _create(
    broker: Broker, call: Call, topics: Collection[InternalTopic], backoff_ms: int
) -> Steps:
    """Create internal topics; failed topics are retried after `backoff_ms`."""
    now_ms = broker.clock.now_ms()
    names = broker.creation_errors.begin([topic.name for topic in topics], now_ms)
    if not names:
        return
    request = CreateTopicsRequest(topics=[_asked(topic) for topic in topics if topic.name in names])
    planned: dict[str, Topic] = {}
    errors: dict[str, CreationError] = {}
    try:
        message = yield from create(broker, call, request, Counts(), planned, errors)
        if message is not None:
            errors = dict.fromkeys(names, (ErrorCode.POLICY_VIOLATION, message))
    finally:
        broker.creation_errors.end(names, _texts(errors), now_ms + backoff_ms)


def _asked(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _texts(errors: Mapping[str, CreationError]) -> dict[str, str]:
    return {name: message or MESSAGES[code] for name, (code, message) in errors.items()}
