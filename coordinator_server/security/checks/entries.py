"""Access checks of requests with many entries: topics, groups, transactional ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.security.acl import AUTHORIZATION_FAILED, Operation, ResourceType
from coordinator_server.security.checks.refusals import Refused
from protocol.schema import DISPOSED_PER_STEP, Message, dispose

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking
    from coordinator_server.security.checks.ports import CheckedBroker

NameOf = Callable[["CheckedBroker", Any], "str | None"]
"""`name(broker, entry)` returns the resource name of an entry; None leaves the entry to the
handler."""


class Entries(NamedTuple):
    """How to check the entries of a request.

    `field` is the list in the request. Clients that may do one of the operations `unless` on the
    cluster need no check per entry. With `passes_duplicates`, resources that are named twice are
    left to the handler, which answers them with an error.
    """

    operation: Operation
    resource_type: ResourceType
    name: NameOf
    refused: Refused
    field: str = "topics"
    unless: tuple[Operation, ...] = ()
    passes_duplicates: bool = False

    def serve(self, asking: Asking, request: Any) -> Generator[None, None, bool]:
        """Check the entries of a request, see `Serve`."""
        access = asking.access
        if any(access.unlogged.cluster(operation) for operation in self.unless):
            return True
        entries = getattr(request, self.field)
        is_large = asking.call.is_large
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
                if is_large and isinstance(entry, Message):
                    yield from dispose(entry)
            yield
        if refused:
            setattr(request, self.field, left)
            asking.rights.refused = refused
            while is_large and entries:
                del entries[-DISPOSED_PER_STEP:]
                yield
        return True

    def _twice(
        self, broker: CheckedBroker, entries: Iterable[Any]
    ) -> Generator[None, None, set[str]]:
        """Return the names that occur several times, if `passes_duplicates`."""
        if not self.passes_duplicates:
            return set()
        counts: Counter[str | None] = Counter()
        for entry in entries:
            counts[self.name(broker, entry)] += 1
            yield
        return {name for name, count in counts.items() if name is not None and count > 1}


def changed(message: Any, **fields: Any) -> Any:
    """Return a copy of a message with some fields changed, because the message may be shared."""
    copy = message.copy()
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def named_topic(broker: CheckedBroker, entry: Any) -> str | None:
    """Return the name of an entry's topic, given by name or id; None for an unknown id."""
    if entry.name:
        return str(entry.name)
    known = broker.topics.topic_by_id(entry.topic_id)
    return None if known is None else known.name
