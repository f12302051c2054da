"""Code for all APIs that describe groups: which groups and operations a client may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coordinator_server.coordinator.fan_in import FanIn
from coordinator_server.core.groups.api import NOT_REQUESTED
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.schema import Message


class DescribedGroup(Protocol):
    """The description of one group in a response."""

    group_id: str


class DescribeRequest(Protocol):
    """A request that names groups of one kind."""

    group_ids: list[str]
    include_authorized_operations: bool


Group = TypeVar("Group", bound=DescribedGroup)

DESCRIBES_HIDDEN_TOPICS = (
    "The group has described topic(s) that the client is not authorized to describe."
)
USES_HIDDEN_TOPICS = (
    "The described group uses topics that the client is not authorized to describe."
)


def describe_all(
    broker: Broker,
    call: Call,
    group_ids: Sequence[str],
    describe: Callable[[str, int], Any],
    finish: Callable[[list[Any]], None],
    *,
    with_operations: bool,
) -> Steps:
    """Submit `describe(group_id, authorized_operations)` for each group, in steps.

    `finish(groups)` sends the response when all groups have been described.
    """
    fan_in = FanIn(call, len(group_ids), finish)
    for index, group_id in enumerate(group_ids):
        operations = call.rights.group_operations(group_id) if with_operations else NOT_REQUESTED
        broker.groups.submit(fan_in.part(index), describe(group_id, operations))
        yield  # a group may have hundreds of members


def describe_visible(
    broker: Broker,
    call: Call,
    request: DescribeRequest,
    describe: Callable[[str, int], Any],
    response: Callable[..., Message],
    topics: Callable[[Group], Iterable[str]],
    hidden: Callable[..., Group],
) -> Steps:
    """Describe all groups of a request, then send `response(groups=...)`, refused groups first.

    `topics(group)` yields the topics in a description. If the client may not describe all of them,
    the response has `hidden(group_id=, error_code=)` instead.
    """

    def finish(groups: list[Group]) -> None:
        if call.rights.is_restricted:
            call.run(_reply_in_steps(call, groups, response, topics, hidden))
        else:
            call.reply(response(groups=groups))

    return describe_all(
        broker,
        call,
        request.group_ids,
        describe,
        finish,
        with_operations=request.include_authorized_operations,
    )


def _reply_in_steps(
    call: Call,
    groups: list[Group],
    response: Callable[..., Message],
    topics: Callable[[Group], Iterable[str]],
    hidden: Callable[..., Group],
) -> Steps:
    shown: list[Group] = []
    for group in groups:
        is_visible = True
        for topic in topics(group):
            is_visible = call.rights.allows(topic)
            if not is_visible:
                break
            yield
        if not is_visible:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group = hidden(group_id=group.group_id, error_code=error)
        shown.append(group)
        yield
    call.reply(response(groups=call.rights.before(shown)))
