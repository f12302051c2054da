"""Access checks of requests with many entries: topics, groups, transactional ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.apis.checks.refusals import Refused
from coordinator_server.security.acl import AUTHORIZATION_FAILED, Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.apis.checks.check import Asking
    from coordinator_server.broker import Broker


_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Place(Enum):
    """The position of refused entries in the response."""

    FIRST = "before the others"
    LAST = "behind the others"
    AS_ASKED = "in the order of the request"
    WITH_UNKNOWN = "before the others, with topics that do not exist, in the order of the request"


NameOf = Callable[["Broker", Any], "str | None"]
"""`name(broker, entry)` returns the resource name of an entry; None leaves the entry to the
handler."""


class Entries(NamedTuple):
    """How to check the entries of a request.

    `field` is the list in the request, `answer` the list in the response. Clients that may do one
    of `unless` to the cluster need no check per entry. With `passes_duplicates`, the handler
    answers resources named twice. With `needs_some`, the handler is skipped if no entry is left.
    """

    operation: Operation
    resource_type: ResourceType
    name: NameOf
    refused: Refused
    field: str = "topics"
    answer: str = "topics"
    place: Place = Place.LAST
    unless: tuple[Operation, ...] = ()
    passes_duplicates: bool = False
    needs_some: Callable[[list[Any]], Any] | None = None

    def serve(self, asking: Asking, request: Any) -> Generator[None, None, bool]:
        """Check the entries of a request, see `Serve`."""
        access = asking.access
        if any(access.unlogged.cluster(operation) for operation in self.unless):
            return True
        entries = getattr(request, self.field)
        twice = yield from self._twice(asking.broker, entries)
        left: list[Any] = []
        refused: dict[int, Any] = {}
        error = AUTHORIZATION_FAILED[self.resource_type]
        for number, entry in enumerate(entries):
            name = self.name(asking.broker, entry)
            if (
                name is None
                or name in twice
                or access.allows(self.operation, self.resource_type, name)
            ):
                left.append(entry)
            else:
                refused[number] = yield from self.refused(entry, error)
            yield
        if not refused:
            return True
        if not left and self.needs_some is not None:
            asking.call.reply(self.needs_some(list(refused.values())))
            return False
        setattr(request, self.field, left)
        if self.place is Place.WITH_UNKNOWN:
            asking.call.amend = lambda response: _merge_with_unknown(response, entries, refused)
        else:
            asking.call.amend = lambda response: merge(response, self.answer, refused, self.place)
        return True

    def _twice(self, broker: Broker, entries: Iterable[Any]) -> Generator[None, None, set[str]]:
        """Return the names that occur several times, if `passes_duplicates`."""
        if not self.passes_duplicates:
            return set()
        counts: Counter[str | None] = Counter()
        for entry in entries:
            counts[self.name(broker, entry)] += 1
            yield
        return {name for name, count in counts.items() if name is not None and count > 1}


def merge(
    response: Any, field: str, refused: dict[int, Any], place: Place
) -> Generator[None, None, Any]:
    """Add refused entries, keyed by request index, to a list of the response.

    A response with a top-level error has no entries.
    """
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    answered = getattr(response, field)
    merged: list[Any] = []
    if place is Place.LAST:
        merged = [*answered, *refused.values()]
    elif place is Place.FIRST:
        merged = [*refused.values(), *answered]
    else:
        others = iter(answered)
        for number in range(len(answered) + len(refused)):
            merged.append(refused[number] if number in refused else next(others))
            yield
    return changed(response, **{field: merged})


def _merge_with_unknown(
    response: Any, asked: list[Any], refused: dict[int, Any]
) -> Generator[None, None, Any]:
    """Put refused topics and topics with unknown partitions first, in request order.

    Kafka collects both while it reads the request and appends the served topics.
    """
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    places: dict[Any, int] = {}
    for number, topic in enumerate(asked):
        places.setdefault(_identity(topic), number)
        yield
    early, others = dict(refused), []
    for topic in response.topics:
        place = places.get(_identity(topic))
        if place is None or place in early or not _lacks_partition(topic):
            others.append(topic)
        else:
            early[place] = topic
        yield
    merged = []
    for number in range(len(asked)):
        if number in early:
            merged.append(early[number])
        yield
    return changed(response, topics=[*merged, *others])


def _identity(topic: Any) -> str | bytes:
    topic_id: bytes = getattr(topic, "topic_id", ZERO_UUID)
    return topic.name if topic_id == ZERO_UUID else topic_id


def _lacks_partition(topic: Any) -> bool:
    """Return whether the first partition has an unknown-topic error; unknown ones come first."""
    return bool(topic.partitions) and topic.partitions[0].error_code in _UNKNOWN


def changed(message: Any, **fields: Any) -> Any:
    """Return a copy of a message with some fields changed, because the message may be shared."""
    copy = message.copy()
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def named_topic(broker: Broker, entry: Any) -> str | None:
    """Return the name of an entry's topic, given by name or id; None for an unknown id."""
    if entry.name:
        return str(entry.name)
    known = broker.topics.topic_by_id(entry.topic_id)
    return None if known is None else known.name
