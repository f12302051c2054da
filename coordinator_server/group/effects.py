"""What the heart wants done: replies, writes, events. It never does them itself.

A call into the heart fills an `Effects`; `coordinator_server.group.driver.drain` carries it out in
the one right order (append, replay, callbacks) and the driver then releases the replies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.schema import Message

if TYPE_CHECKING:
    from coordinator_server.group.classic.explain import Rebalance
    from coordinator_server.group.records import Record

Reply = Callable[[Any], None]
"""Takes the response message; called by the driver only, exactly once per request."""


class Caller(NamedTuple):
    """Who sent a request: client id (None when null), host as Kafka prints it, API version."""

    client_id: str | None
    client_host: str
    api_version: int


class Write:
    """Records that go into the log together, and what happens once their fate is known."""

    __slots__ = ("callbacks", "records")

    def __init__(self, records: list[Record], done: Done | None) -> None:
        self.records = records
        self.callbacks: list[Done] = [] if done is None else [done]

    def then(self, done: Done) -> None:
        """Also call `done(error, now_ms, effects)` after the append and the replay, or failure."""
        self.callbacks.append(done)


class Effects:
    """Collects the effects of one drain of a group's mailbox.

    `debug` tells the heart whether anybody listens to debug events, so that they cost nothing when
    nobody does.
    """

    __slots__ = ("debug", "events", "explained", "later", "replies", "writes")

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.replies: list[tuple[Reply, Message]] = []
        self.writes: list[Write] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.explained: list[Rebalance] = []
        self.later: list[Step] = []

    def reply(self, reply: Reply, response: Message) -> None:
        """Answer a request; goes out after all writes of the drain are settled."""
        self.replies.append((reply, response))

    def write(self, records: list[Record], done: Done | None = None) -> Write:
        """Append `records` in one batch, replay them, then call `done`."""
        write = Write(records, done)
        self.writes.append(write)
        return write

    def when_settled(self, step: Step) -> None:
        """Run `step` once all writes so far are replayed, and settle its own before the next.

        For what must see the hard state exactly as the log has it: deletion and expiry.
        """
        self.later.append(step)

    def event(self, name: str, **fields: object) -> None:
        """Tell the log something; names are `noun.verb` in the past."""
        self.events.append((name, fields))

    def explain(self, rebalance: Rebalance) -> None:
        """Hand out the account of a rebalance that is over."""
        self.explained.append(rebalance)

    def clear(self) -> None:
        """Forget replies, events and accounts after the driver has taken them."""
        self.replies.clear()
        self.events.clear()
        self.explained.clear()


Done = Callable[[ErrorCode, int, Effects], None]
"""`done(error of the append or NONE, now_ms, effects)`."""

Step = Callable[[int, Effects], None]
"""`step(now_ms, effects)`."""
