"""What a call into the core asks for: replies, writes, log events. It performs none of them.

A call fills an `Effects`; `core.groups.driver.settle` carries out the writes in the one right order
(append, replay, callbacks), and the task of the group then sends the replies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.explain import Cause, Rebalance
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecords

Response = TypeVar("Response")

Steps = Iterator[None]
"""Work in short steps: each `next` does a part of it, StopIteration ends it."""

STEP_ITEMS = 500
"""How many entries of a request or of a group one step handles."""


class Answered(Protocol):
    """A reply that has its response."""

    def send(self) -> None:
        """Send the response."""

    def refuse(self, error: ErrorCode) -> None:
        """Send a response that carries `error` wherever the API has a place for it, instead."""

    def fail(self) -> None:
        """The response cannot be sent: answer UNKNOWN_SERVER_ERROR instead."""


class Reply(ABC, Generic[Response]):
    """The way back for the response to one request.

    `Effects.reply` sets `response` once; nothing changes it afterwards.
    """

    __slots__ = ("caller", "response")

    caller: Caller
    response: Response

    @abstractmethod
    def send(self) -> None:
        """Send `response`."""

    @abstractmethod
    def refuse(self, error: ErrorCode) -> None:
        """Send a response that carries `error` wherever the API has a place for it, instead."""

    @abstractmethod
    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR, unless the request is answered."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Write:
    """Records that go into the log together, and what happens once their fate is known.

    Those of a transaction have the `producer` that it belongs to. `causes` say why members had to
    go, where the records do not show it.
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
        """Also call `done(error, now_ms, effects)` after the append and the replay, or failure."""
        self.callbacks.append(done)


class AssignedSharePartition(NamedTuple):
    """One partition that a share group reads."""

    topic_id: bytes
    partition: int


StateErrors = Mapping[AssignedSharePartition, ErrorCode]
"""The partitions for which a call has failed, and why."""


class StateCall(NamedTuple):
    """What a share group asks of the share coordinator, for all partitions in `start_offsets`.

    Their state begins at these offsets and at `state_epoch`; with a `state_epoch` of None it is
    deleted. Whenever that is answered, `answered(group, errors, now_ms, effects)` is called in a
    drain of its own, if the group is still there. `reply` is that of the request that waits for it,
    if one does; without the group the request begins anew. Source: Kafka's Persister, as
    GroupCoordinatorService calls it.
    """

    start_offsets: Mapping[AssignedSharePartition, int]
    state_epoch: int | None
    answered: Callable[[Any, StateErrors, int, Effects], Steps | None]
    reply: Reply[Any] | None = None


class Effects:
    """Collects the effects of one drain of a group's mailbox.

    `debug` says whether debug events are logged, so that the core need not build them otherwise.
    `replies` may be sent as soon as the writes are settled. `replies_to_writes` depend on records
    of this drain: with a flush before the answer (`flush.messages`), they wait for the sync.
    `calls` to the share coordinator are carried out once the writes are settled.
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
        """The group after the append, set by the driver for callbacks: it may be of another kind
        than the one that asked for the write."""
        self.after_append = False
        """Set by the driver while the callbacks of a successful append run."""

    def reply(self, reply: Reply[Response], response: Response) -> None:
        """Answer a request; the answer is sent after all writes of the drain are settled."""
        reply.response = response
        (self.replies_to_writes if self.after_append else self.replies).append(reply)

    def write(
        self,
        records: CoordinatorRecords,
        done: Done | None = None,
        producer: ProducerIdAndEpoch | None = None,
    ) -> Write:
        """Append `records` in one batch, replay them, then call `done`.

        With a `producer` they are part of its transaction.
        """
        write = Write(records, done, producer)
        self.writes.append(write)
        return write

    def ask(self, call: StateCall) -> None:
        """Ask the share coordinator; its answer comes in a drain of its own."""
        self.calls.append(call)

    def event(self, name: str, **fields: object) -> None:
        """Log an event; names are `noun.verb` in the past (`events.vocabulary`)."""
        self.events.append((name, fields))

    def explain(self, rebalance: Rebalance) -> None:
        """Publish the account of a rebalance that has ended."""
        self.explained.append(rebalance)

    def mark(self) -> tuple[int, int, int, int]:
        """Where the effects end now; for `rewind`."""
        return len(self.replies), len(self.replies_to_writes), len(self.writes), len(self.calls)

    def rewind(self, mark: tuple[int, int, int, int]) -> None:
        """Drop the replies, writes and calls that came after `mark`: a bug spoiled them."""
        replies, replies_to_writes, writes, calls = mark
        del self.replies[replies:], self.replies_to_writes[replies_to_writes:]
        del self.writes[writes:], self.calls[calls:]


Done = Callable[[ErrorCode, int, Effects], None]
"""`done(error of the append or NONE, now_ms, effects)`."""
