"""Effects: the replies, writes and log events that a call into the core asks for.

A call into the core only fills an `Effects`. `core.groups.driver.settle` carries out the writes in
order (append, replay, callbacks), and the group's task then sends the replies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.explain import Cause, Rebalance
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecords
    from coordinator_server.steps import Steps

Response = TypeVar("Response")

STEP_ITEMS = 500
"""The number of entries of a request or a group that one step handles."""


class Answered(Protocol):
    """A reply whose response is set."""

    def send(self) -> None:
        """Send the response."""

    def refuse(self, error: ErrorCode) -> None:
        """Send a response with `error` in every error field of the API, instead of the response."""

    def fail(self) -> None:
        """Send UNKNOWN_SERVER_ERROR instead of a response that cannot be sent."""


class Reply(ABC, Generic[Response]):
    """The reply to one request.

    `Effects.reply` sets `response` once; the response does not change afterwards.
    """

    __slots__ = ("caller", "response")

    caller: Caller
    response: Response

    @abstractmethod
    def send(self) -> None:
        """Send `response`."""

    @abstractmethod
    def refuse(self, error: ErrorCode) -> None:
        """Send a response with `error` in every error field of the API, instead of `response`."""

    @abstractmethod
    def fail(self) -> None:
        """Send UNKNOWN_SERVER_ERROR, unless the request is already answered."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch of a transaction."""

    producer_id: int
    producer_epoch: int


class Write:
    """Records that are appended together, with the callbacks to run after success or failure.

    `producer` is set for the records of a transaction. `causes` say why members were removed, if
    the records do not show the reason.
    """

    __slots__ = ("callbacks", "causes", "producer", "records")

    def __init__(
        self,
        records: CoordinatorRecords,
        done: Done | None,
        producer: ProducerIdAndEpoch | None,
    ) -> None:
        self.records = records
        self.producer = producer
        self.callbacks: list[Done] = [] if done is None else [done]
        self.causes: Sequence[Cause] = ()

    def then(self, done: Done) -> None:
        """Also call `done(error, now_ms, effects)` after append and replay, or after a failure."""
        self.callbacks.append(done)


class AssignedSharePartition(NamedTuple):
    """One partition that a share group reads."""

    topic_id: bytes
    partition: int


StateErrors = Mapping[AssignedSharePartition, ErrorCode]
"""The partitions for which a call failed, with their errors."""


class StateCall(NamedTuple):
    """A request of a share group to the share coordinator, for all partitions in `start_offsets`.

    The call initializes share-partition state with these start offsets and `state_epoch`, or
    deletes the state if `state_epoch` is None. The response is posted to the group's mailbox; if
    the group still exists, `answered(group, errors, now_ms, effects)` is called. `reply` belongs to
    the client request that waits for the call, or is None; if the group no longer exists, that
    request is submitted again. Source: Kafka's Persister, as GroupCoordinatorService calls it.
    """

    start_offsets: Mapping[AssignedSharePartition, int]
    state_epoch: int | None
    answered: Callable[[Any, StateErrors, int, Effects], Steps | None]
    reply: Reply[Any] | None = None


class Effects:
    """Collects the effects of one batch of operations from a group's mailbox.

    `debug` says whether debug events are logged; if not, the core does not build them. `replies`
    can be sent as soon as the writes are settled. `replies_to_writes` depend on records of this
    batch: if the broker flushes before responses (`flush.messages`), these replies also wait for
    the flush. `calls` to the share coordinator are carried out once the writes are settled.
    """

    __slots__ = (
        "after_append",
        "calls",
        "debug",
        "events",
        "explained",
        "group",
        "replies",
        "replies_to_writes",
        "writes",
    )

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.replies: list[Answered] = []
        self.replies_to_writes: list[Answered] = []
        self.writes: list[Write] = []
        self.calls: list[StateCall] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.explained: list[Rebalance] = []
        self.group: Group | None = None
        """The group after the append, set by the driver for callbacks. Its kind can differ from
        that of the group that asked for the write."""
        self.after_append = False
        """Set by the driver while the callbacks of a successful append run."""

    def reply(self, reply: Reply[Response], response: Response) -> None:
        """Set the response of a request, which is sent after all pending writes are settled."""
        reply.response = response
        (self.replies_to_writes if self.after_append else self.replies).append(reply)

    def write(
        self,
        records: CoordinatorRecords,
        done: Done | None = None,
        producer: ProducerIdAndEpoch | None = None,
    ) -> Write:
        """Append `records` in one batch, replay them, then call `done`; return the Write.

        With a `producer`, the records belong to the producer's transaction.
        """
        write = Write(records, done, producer)
        self.writes.append(write)
        return write

    def ask(self, call: StateCall) -> None:
        """Call the share coordinator, whose response is posted to the group's mailbox."""
        self.calls.append(call)

    def event(self, name: str, **fields: object) -> None:
        """Log an event; names are `noun.verb` in the past tense (`events.vocabulary`)."""
        self.events.append((name, fields))

    def explain(self, rebalance: Rebalance) -> None:
        """Publish the report of a rebalance that has ended."""
        self.explained.append(rebalance)

    def mark(self) -> tuple[int, int, int, int]:
        """Return the current numbers of replies, writes and calls, for `rewind`."""
        return len(self.replies), len(self.replies_to_writes), len(self.writes), len(self.calls)

    def rewind(self, mark: tuple[int, int, int, int]) -> None:
        """After an exception, drop the replies, writes and calls that were added after `mark`."""
        replies, replies_to_writes, writes, calls = mark
        del self.replies[replies:], self.replies_to_writes[replies_to_writes:]
        del self.writes[writes:], self.calls[calls:]


Done = Callable[[ErrorCode, int, Effects], None]
"""`done(error, now_ms, effects)`; `error` is the append error or NONE."""


PER_MEMBER = 25
"""The number of items that converting, describing or encoding one member counts for."""


class Pace:
    """Tells a generator when to yield, so that long computations do not block the event loop.

    Counts the items processed since the last step; a short computation never yields.
    """

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, items: int = 1) -> bool:
        """Count `items` more as processed; return whether the next step is due."""
        self._done += items
        if self._done < STEP_ITEMS:
            return False
        self._done = 0
        return True
