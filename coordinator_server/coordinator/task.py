"""One asyncio task per group: the only place that touches a GroupMetadata.

Handlers post to the mailbox. The task drains the whole of it, appends the records of all that it
drained in one write, replays them, and only then releases the answers that depended on them. One
loop timer per group wakes the task for the earliest of the group's purgatory deadlines.

Here stands the second door for bugs (the first is in `dispatch`): a request that makes the heart
raise is answered with UNKNOWN_SERVER_ERROR, and the group goes back to what its log says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.events.log import LOG
from coordinator_server.group.classic.metadata import GroupMetadata
from coordinator_server.group.classic.state import DEAD
from coordinator_server.group.driver import drain
from coordinator_server.group.effects import Effects
from coordinator_server.group.storage_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.coordinator.offsets_partition import OffsetsPartition
    from coordinator_server.group.classic.explain import Rebalance
    from coordinator_server.group.effects import Reply
    from protocol.schema import Message
    from storage.errors import StorageError

    Fail = Callable[[], None]
    """Answers a request with UNKNOWN_SERVER_ERROR, unless it is answered."""

Handle = Any
"""A method of the heart, called as handle(group, *arguments, now_ms, effects)."""


class GroupTask:
    """The mailbox, the timer and the task of one group.

    `partition` takes the records; `new_group(group_id)` makes a blank group, should this one have
    to be loaded anew; `settled(task)` is called after every drain, `explain(group_id, rebalance)`
    with the account of each rebalance that is over.
    """

    __slots__ = (
        "_clock",
        "_effects",
        "_explain",
        "_is_broken",
        "_loop",
        "_mailbox",
        "_new_group",
        "_partition",
        "_settled",
        "_task",
        "_timer",
        "_timer_at_ms",
        "_waiter",
        "group",
    )

    def __init__(
        self,
        group: GroupMetadata,
        clock: BrokerClock,
        partition: OffsetsPartition,
        new_group: Callable[[str], GroupMetadata],
        settled: Callable[[GroupTask], None],
        explain: Callable[[str, Rebalance], None],
    ) -> None:
        self.group = group
        self._clock = clock
        self._partition = partition
        self._new_group = new_group
        self._settled = settled
        self._explain = explain
        self._effects = Effects(debug=LOG.debug)
        self._mailbox: deque[tuple[Handle, tuple[Any, ...], Fail | None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._is_broken = False
        self._task = self._loop.create_task(self._run(), name=f"group {group.group_id}")
        self._task.add_done_callback(self._ended)

    def post(self, handle: Handle, arguments: tuple[Any, ...], fail: Fail | None = None) -> None:
        """Put something to do into the mailbox; `fail` answers whoever waits, should it raise."""
        if self._is_broken:
            if fail is not None:
                fail()
            return
        self._mailbox.append((handle, arguments, fail))
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    @property
    def partition(self) -> OffsetsPartition:
        """Where the group's records go."""
        return self._partition

    @property
    def is_idle(self) -> bool:
        """Whether the mailbox is empty."""
        return not self._mailbox

    def stop(self) -> None:
        """End the task and its timer. Whatever is in the mailbox stays unanswered."""
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    def drain(self) -> None:
        """Handle everything in the mailbox now, then arm the timer for the next deadline."""
        group, effects, mailbox = self.group, self._effects, self._mailbox
        now_ms = self._clock.now_ms()
        drained: list[Fail] = []
        sound: tuple[int, int, int] | None = None
        try:
            while mailbox:
                handle, arguments, fail = mailbox.popleft()
                if fail is not None:
                    drained.append(fail)
                sound = (len(effects.replies), len(effects.writes), len(effects.later))
                handle(group, *arguments, now_ms, effects)
            sound = None
            self._settle(now_ms)
        except Exception:  # the door: a bug costs the requests at hand and the group's soft state
            LOG.emit("group.failed", group=group.group_id, exc_info=True)
            try:
                self._start_anew(sound, now_ms)
            finally:
                for fail in drained:
                    fail()
        self._settled(self)

    async def _run(self) -> None:
        while True:
            if not self._mailbox:
                self._waiter = self._loop.create_future()
                await self._waiter
            self.drain()

    def _settle(self, now_ms: int) -> None:
        """Append, replay, release the answers, write the events, arm the timer."""
        effects = self._effects
        has_written = bool(effects.writes or effects.later)
        if has_written:
            drain(self.group, effects, self._partition.append, now_ms)
        if self.group.is_vacant:
            # Before the answers: what a client has sent behind a deletion must not meet the dead.
            self._settled(self)
        if effects.replies:
            if has_written and self._partition.flush_is_due:
                self._partition.when_flushed(partial(_release_flushed, (*effects.replies,)))
                effects.replies.clear()
            self._release()
        if effects.events or effects.explained:
            for name, fields in effects.events:
                LOG.emit(name, **fields)
            for rebalance in effects.explained:
                self._explain(self.group.group_id, rebalance)
            effects.clear()
        deadline_ms = self.group.next_deadline_ms()
        if deadline_ms is None:
            return
        if deadline_ms <= now_ms:
            self.post(GroupMetadata.expire_timers, ())
        elif self._timer is None or deadline_ms < self._timer_at_ms:
            self._arm(deadline_ms, now_ms)

    def _arm(self, deadline_ms: int, now_ms: int) -> None:
        """Have the clock wake the task at the deadline; one that rings too early does no harm."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        delay_ms = deadline_ms - now_ms
        self._timer = self._clock.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.post(GroupMetadata.expire_timers, ())

    def _release(self) -> None:
        """Send the answers; should one of them raise, the others are still there.

        An answer may let its connection go on with a request that ends this very group and drains
        it again from within: what is being sent must not be found a second time.
        """
        effects = self._effects
        replies, effects.replies = effects.replies, []
        sent = 0
        try:
            for reply, response in replies:
                sent += 1
                reply(response)
        finally:
            effects.replies[:0] = replies[sent:]

    def _start_anew(self, sound: tuple[int, int, int] | None, now_ms: int) -> None:
        """After a bug: put the group back to what its log says.

        If a request made the heart raise, what the requests before it led to (`sound`: so many
        replies, writes and steps) is settled first. Parked requests get NOT_COORDINATOR.
        """
        effects = self._effects
        if sound is None:
            effects.writes.clear()
            effects.later.clear()
        else:
            replies, writes, steps = sound
            del effects.replies[replies:], effects.writes[writes:], effects.later[steps:]
            self._settle(now_ms)
        if self.group.state is not DEAD:
            self.group.unload(ErrorCode.NOT_COORDINATOR, now_ms, effects)
        self.group = self._new_group(self.group.group_id)
        self._partition.reload(self.group)
        self.group.load_finished(now_ms, effects)
        self._settle(now_ms)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task is over; if a second bug ended it, whoever still asks is told at once."""
        if task.cancelled() or task.exception() is None:
            return
        LOG.emit("group.failed", group=self.group.group_id, exc_info=task.exception())
        self._is_broken = True
        while self._mailbox:
            fail = self._mailbox.popleft()[2]
            if fail is not None:
                fail()


def _release_flushed(replies: Iterable[tuple[Reply, Message]], error: StorageError | None) -> None:
    """Send answers that waited for a sync; those that it failed say so.

    What they tell of is in the log all the same, as with a commit whose answer got lost.
    """
    for reply, response in replies:
        if error is not None:
            from coordinator_server.net.error_response import overrule

            overrule(response, client_error(error.code))
        reply(response)
