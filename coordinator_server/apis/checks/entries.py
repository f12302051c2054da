"""Requests of many entries, each with a resource of its own: topics, groups, transactional ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.security.acl import AUTHORIZATION_FAILED, Operation, ResourceType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.apis.checks.check import Asking
    from coordinator_server.broker import Broker


class Place(Enum):
    """Where the answer has what was refused."""

    FIRST = "before the others"
    LAST = "behind the others"
    AS_ASKED = "in the order of the request"


NameOf = Callable[["Broker", Any], "str | None"]
"""`name(broker, entry)` is the resource of an entry; None leaves the entry to the handler."""
Refused = Callable[[Any, "ErrorCode"], Any]
"""`refused(entry, error)` is what the answer has for an entry that is refused."""

Excuses = Callable[["Broker", Any], Generator[None, None, bool]]
"""`excuses(broker, entry)` says in steps whether an entry is wrong in a way that is told first."""


class Entries(NamedTuple):
    """How the entries of a request are asked for.

    `field` is their list in the request, `answer` that of the answer. Who may do one of `unless` to
    the cluster is not asked for entries. With `passes_duplicates` the handler answers for resources
    that are named twice. With `needs_some` the handler is left out if nothing is left for it.
    An entry that would be refused is left to the handler if `excuses` says so.
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
    excuses: Excuses | None = None

    def serve(self, asking: Asking, request: Any) -> Generator[None, None, bool]:
        """See `Serve`."""
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
                or (yield from self._is_excused(asking, entry, name))
                or access.allows(self.operation, self.resource_type, name)
            ):
                left.append(entry)
            else:
                refused[number] = self.refused(entry, error)
            yield
        if not refused:
            return True
        if not left and self.needs_some is not None:
            asking.call.reply(self.needs_some(list(refused.values())))
            return False
        setattr(request, self.field, left)
        asking.call.amend = lambda response: merge(response, self.answer, refused, self.place)
        return True

    def _is_excused(self, asking: Asking, entry: Any, name: str) -> Generator[None, None, bool]:
        if self.excuses is None:
            return False
        if asking.access.unlogged.allows(self.operation, self.resource_type, name):
            return False
        return (yield from self.excuses(asking.broker, entry))

    def _twice(self, broker: Broker, entries: Iterable[Any]) -> Generator[None, None, set[str]]:
        """The names that there are several times, if they matter."""
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
    """Put refused entries, by their place in the request, into a list of the answer.

    An answer that has failed as a whole has no entries.
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


def changed(message: Any, **fields: Any) -> Any:
    """A copy of a message with other values in some fields: the message may be shared."""
    copy = message.copy()
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def named_topic(broker: Broker, entry: Any) -> str | None:
    """The name of an entry's topic, which may be given by its id; None if there is none of that."""
    if entry.name:
        return str(entry.name)
    known = broker.topics.topic_by_id(entry.topic_id)
    return None if known is None else known.name
