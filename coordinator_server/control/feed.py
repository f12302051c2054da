"""Server-sent events: changes of the cluster, with resume by `Last-Event-ID`.

The feed compares the state of the cluster with the state before, a few times each second while
a client listens, in steps. Rebalances come from the journal, each exactly once. Without a listener
the feed stops and costs nothing; a client that resumes later than the buffer reaches, or after such
a pause, gets the event `reset`, and reads the state again.

A listener that does not read is cut off: it has no buffer of its own, only a place in the common
ring.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.control.pace import timed_steps
from coordinator_server.events.log import LOG
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from coordinator_server.cluster import Cluster
    from coordinator_server.faults.rule import TakenFault
    from coordinator_server.rebalances.schema import RebalanceRecord
    from coordinator_server.steps import Computation, Steps

KEPT_EVENTS, KEPT_BYTES = 5_000, 8 * 1024 * 1024
"""Limits of the events that a client can resume from."""

INTERVAL_SECONDS = 0.2
"""Pause between two comparisons of the state."""

PAUSE_FACTOR = 20
"""Least pause, as a multiple of the time of a comparison, which takes at most 5 % of the time."""

QUIET_SECONDS = 15.0
"""A comment is sent after this time without an event, so that a lost connection is noticed."""

LINGER_SECONDS = 60.0
"""How long the feed runs on without a listener, so that a client can reconnect."""

_AT_ONCE = 100
State = dict[tuple[str, Any], dict[str, Any]]
"""The data of the last event of each thing, by type and key."""


class FeedEvent(NamedTuple):
    """An event: its number, its type, the group or topic that it is about, and its JSON."""

    number: int
    kind: str
    name: str
    json: str


class Feed:
    """The events of one cluster, for all listeners of a control server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._events: deque[FeedEvent] = deque()
        self._kept_bytes = 0
        self._next_number = cluster.machine_clock.now_ms() * 1000
        self._state: State | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listeners = 0

    def stop(self) -> None:
        """End the feed."""
        if self._task is not None:
            self._task.cancel()

    # --- listeners --------------------------------------------------------------------------------

    async def listen(
        self, last_number: int | None, wants: Callable[[FeedEvent], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Yield events as bytes of an event stream, from the one after `last_number` on."""
        self._listeners += 1
        try:
            await self._begin()
            yield b": events of coordinator-server\n\n"
            position = self._next_number - 1 if last_number is None else last_number
            if not self._has(position):
                position = self._next_number - 1
                yield self._reset(position)
            while True:
                events = self._since(position)
                if events is None:
                    return  # the client reads too slowly
                if events:
                    position = events[-1].number
                    chosen = [_encoded(event) for event in events if wants(event)]
                    if chosen:
                        yield b"".join(chosen)
                    continue
                if self._task is None or self._task.done():
                    return  # a client that reconnects starts the feed again
                changed = self._changed
                try:
                    await asyncio.wait_for(changed.wait(), QUIET_SECONDS)
                except TimeoutError:
                    yield b":\n\n"
        finally:
            self._listeners -= 1

    def _has(self, position: int) -> bool:
        """Return whether all events after a position are in the ring."""
        first = self._events[0].number if self._events else self._next_number
        return first - 1 <= position < self._next_number

    def _since(self, position: int) -> list[FeedEvent] | None:
        """Return some of the events after a position; None if they are not in the ring."""
        if not self._has(position):
            return None
        first = self._events[0].number if self._events else self._next_number
        start = position + 1 - first
        stop = min(start + _AT_ONCE, len(self._events))
        return [self._events[index] for index in range(start, stop)]

    def _reset(self, number: int) -> bytes:
        return _encoded(FeedEvent(number, "reset", "", self._json(number, "reset", {})))

    def _json(self, number: int, kind: str, data: dict[str, Any]) -> str:
        at_ms = self._cluster.clock.now_ms()
        return json.dumps({"id": number, "type": kind, "at_ms": at_ms, "data": data})

    def _add(self, kind: str, name: str, data: dict[str, Any]) -> None:
        text = self._json(self._next_number, kind, data)
        self._events.append(FeedEvent(self._next_number, kind, name, text))
        self._next_number += 1
        self._kept_bytes += len(text)
        while len(self._events) > KEPT_EVENTS or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._events.popleft().json)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- the state --------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start to compare the state, unless this has been started."""
        if self._task is not None and not self._task.done():
            return
        # Changes between two runs were not observed, so no client may resume from an earlier event.
        self._events.clear()
        self._kept_bytes = 0
        self._next_number += 1
        self._cluster.journal.listeners.append(self._on_rebalance)
        self._cluster.shared.faults.on_taken.append(self._on_fault)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_end)
        self._state = None
        while self._state is None and not self._task.done():
            await asyncio.sleep(0)

    async def _run(self) -> None:
        unused_seconds = 0.0
        try:
            while unused_seconds < LINGER_SECONDS:
                seconds = await timed_steps(self._compare())
                pause_seconds = max(INTERVAL_SECONDS, seconds * PAUSE_FACTOR)
                await asyncio.sleep(pause_seconds)
                unused_seconds = 0.0 if self._listeners else unused_seconds + pause_seconds
        finally:
            self._cluster.journal.listeners.remove(self._on_rebalance)
            self._cluster.shared.faults.on_taken.remove(self._on_fault)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Log a bug that has ended the feed, and end the streams of all listeners."""
        if not task.cancelled() and task.exception() is not None:
            LOG.emit("control_task.failed", task="events", exc_info=task.exception())
        self._wake()

    def _on_rebalance(self, group_id: str, record: RebalanceRecord) -> None:
        self._add("rebalance", group_id, dict(record))

    def _on_fault(self, fault: TakenFault) -> None:
        self._add("fault", str(fault.rule), fault._asdict())

    def _compare(self) -> Steps:
        """Add an event for each thing that has changed since the last call."""
        before, state = self._state, (yield from _state_of(self._cluster))
        if before is not None:
            for key, data in state.items():
                if before.get(key) != data:
                    self._add(key[0], str(key[1]), data)
                    yield
            for key in before.keys() - state.keys():
                if is_gone(self._cluster, *key):
                    self._add(key[0], str(key[1]), before[key] | _GONE[key[0]])
                else:
                    state[key] = before[key]
                yield
        self._state = state


_GONE: dict[str, dict[str, Any]] = {
    "group": {"state": "Dead", "members": 0},
    "topic": {"partitions": 0},
    "transaction": {"state": "Dead"},
    "broker": {"state": "stopped"},
    "connection": {"is_open": False},
    "clock": {},
}
"""The fields of the last event of a thing that is gone."""


def is_gone(cluster: Cluster, kind: str, name: Any) -> bool:
    """Return whether a thing that was not in the last state does not exist any more.

    A group or transactional id whose coordinator is stopped, moves or loads still exists.
    """
    if kind == "group":
        topic = cluster.offsets_topic
    elif kind == "transaction":
        topic = cluster.shared.transactions_topic
    else:
        return True
    if not topic.partitions:
        return True
    partition = topic.partition_of(name)
    broker = cluster.brokers.get(partition.leader_id)
    if broker is None:
        return False
    if kind == "group":
        task = broker.groups.tasks.get(name)
        exists = task is not None and not task.group.is_dead
        error = broker.groups.partition_at(partition.index)[1]
    else:
        exists = name in broker.transactions.ids
        error = broker.transactions.partition_at(partition.index)[1]
    return error is ErrorCode.NONE and not exists


def _state_of(cluster: Cluster) -> Computation[State]:
    """Return the state of the cluster, in steps."""
    state: State = {}
    for topic in tuple(cluster.topics.all_topics()):
        data = {"topic": topic.name, "partitions": len(topic.partitions)}
        state["topic", topic.name] = data
        yield
    for node_id in cluster.node_ids:
        broker = cluster.brokers.get(node_id)
        state["broker", node_id] = {
            "id": node_id,
            "state": "stopped" if broker is None else "running",
        }
        if broker is None:
            continue
        for task in tuple(broker.groups.tasks.values()):
            if not task.group.is_dead:
                state["group", task.group.group_id] = _group(task.group)
            yield
        for name, entry in tuple(broker.transactions.ids.items()):
            state["transaction", name] = {
                "transactional_id": name,
                "state": entry.metadata.state.label,
                "producer_id": entry.metadata.producer_id,
            }
            yield
    yield from _connections(cluster, state)
    state["clock", ""] = {
        "frozen": cluster.clock.is_frozen if hasattr(cluster.clock, "is_frozen") else False,
        "offset_ms": getattr(cluster.clock, "offset_ms", 0),
    }
    return state


def _group(group: Any) -> dict[str, Any]:
    generation = getattr(group, "generation_id", None)
    return {
        "group": group.group_id,
        "type": group.kind.value,
        "state": group.listed().group_state,
        "generation": group.epoch if generation is None else generation,
        "members": group.member_count,
    }


def _connections(cluster: Cluster, state: State) -> Steps:
    for server in tuple(cluster.servers.by_id.values()):
        for connection in server.connections.open_connections():
            number = getattr(connection, "number", None)
            if number is not None:
                data = {"id": number, "remote": connection.remote, "is_open": True}
                state["connection", number] = data
        yield


def _encoded(event: FeedEvent) -> bytes:
    """Return an event in the format of an event stream."""
    return f"id: {event.number}\nevent: {event.kind}\ndata: {event.json}\n\n".encode()
