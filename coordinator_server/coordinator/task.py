"""The task of a group: the only place that touches a Group.

Operations are posted to the mailbox. The task drains all of it in one turn of the loop, appends the
records of all that it drained in one write, replays them, and only then sends the answers that
depend on them. One timer per group wakes the task for the earliest deadline of its purgatory. The
turns of the loop come through the clock, so the simulation runs this very task without a loop.

This is the second error boundary (the first is `net.dispatch`): a request that makes the core
raise is answered with UNKNOWN_SERVER_ERROR, and the group is reloaded from its log.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from coordinator_server.coordinator.operations import EXPIRE_TIMERS, UNLOAD, LargeOperation
from coordinator_server.core.groups.driver import settle, settle_large
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.kinds import load_finished, unload
from coordinator_server.core.groups.records import OffsetRecords
from coordinator_server.core.groups.settings import GroupKind
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.coordinator.offsets_partition import OffsetsPartition
    from coordinator_server.coordinator.operations import GroupCall, GroupOperation
    from coordinator_server.core.groups.api import A, Q
    from coordinator_server.core.groups.effects import Answered, StateCall, Steps
    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.core.groups.group import Group
    from coordinator_server.events.log import EventLog
    from storage.errors import StorageError


OPERATIONS_PER_TURN, ANSWERS_PER_TURN = 64, 32
"""How many one turn of the loop applies and sends: a large group causes many at once."""


class TaskContext(Protocol):
    """What a task needs of its coordinator."""

    clock: BrokerClock
    step_runner: StepRunner
    log: EventLog
    explain: Callable[[str, Rebalance], None]
    """`explain(group_id, rebalance)` gets the account of each rebalance that has ended."""

    def new_group(self, group_id: str) -> Group:
        """A blank group."""

    def on_settled(self, task: GroupTask) -> None:
        """Called after every drain."""

    def ask(self, task: GroupTask, call: StateCall) -> None:
        """Ask the share coordinator, and bring its answer to the task."""

    def submit(self, call: GroupCall[A], request: Q) -> None:
        """Take a request that was meant for a group that has ended to its group."""


class GroupTask:
    """The mailbox and the timer of one group."""

    __slots__ = (
        "_context",
        "_effects",
        "_held",
        "_is_broken",
        "_is_draining",
        "_is_stopped",
        "_is_woken",
        "_large",
        "_mailbox",
        "_timer",
        "_timer_at_ms",
        "_unsent",
        "group",
        "partition",
    )

    def __init__(self, group: Group, partition: OffsetsPartition, context: TaskContext) -> None:
        self.group = group
        self.partition = partition
        self._context = context
        self._effects = Effects(debug=context.log.debug)
        self._held: set[object] | None = None
        """Answers that wait for a sync or the share coordinator: their requests are served,
        whatever happens to others."""
        self._mailbox: deque[GroupOperation] | None = None
        """None while it is empty: an empty deque takes 760 bytes."""
        self._large: LargeOperation | None = None
        """An operation under way in steps; the mailbox waits for its end."""
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._unsent: deque[Answered] | None = None
        """Answers that go out in the next turns."""
        self._is_woken = self._is_draining = self._is_broken = self._is_stopped = False

    def post(self, operation: GroupOperation) -> None:
        """Put an operation into the mailbox; it is applied in the next turn of the loop.

        One that gains nothing by sharing a write is applied at once if it is the only one.
        """
        if self._is_broken:
            operation.fail()
            return
        is_busy = self._is_woken or self._is_draining or self._large is not None
        if operation.is_at_once and not (is_busy or operation.is_large or self._is_stopped):
            now_ms = self._context.clock.now_ms()
            if not (operation.sees_deadlines and self._is_due(now_ms)):
                self._apply_now(operation, now_ms)
                return
        if self._mailbox is None:
            self._mailbox = deque()
        self._mailbox.append(operation)
        if not is_busy:
            self._wake_later()

    @property
    def is_broken(self) -> bool:
        """Whether the group could not be reloaded: its log holds more than is known here."""
        return self._is_broken

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way or in the mailbox."""
        return not self._mailbox and self._large is None

    @property
    def is_draining(self) -> bool:
        """Whether the mailbox is being applied right now, further up the stack."""
        return self._is_draining

    def settle(self) -> bool:
        """Apply what is in the mailbox now; False if something in it runs in steps."""
        while self._mailbox and self._large is None and not self._is_stopped:
            self._wake()
        return self._large is None

    @property
    def is_done(self) -> bool:
        """Whether the task can go: its group has ended or was never created.

        A group that could not be reloaded has not ended: what its log holds must not seem lost.
        """
        return self.group.is_vacant and self.is_idle and not self._is_broken

    def unload(self) -> None:
        """Apply what is in the mailbox, answer what is parked with NOT_COORDINATOR, and stop.

        Large operations are not applied any more: they are answered NOT_COORDINATOR as well.
        """
        self._mailbox = self._mailbox or deque()
        self._mailbox.append(UNLOAD)
        while self._mailbox or self._large is not None:
            if self._large is None:
                self._drain_until_large()
            large, self._large = self._large, None
            if large is not None:
                large.steps.close()
                large.operation.refuse(ErrorCode.NOT_COORDINATOR)
        while self._unsent:
            self._send_some()
        self.stop()

    def stop(self) -> None:
        """End the task and its timer. What is in the mailbox stays unanswered."""
        if self._timer is not None:
            self._timer.cancel()
        self._is_stopped = True

    def _take_all(self) -> list[GroupOperation]:
        """Empty the mailbox."""
        operations = list(self._mailbox or ())
        if self._mailbox is not None:
            self._mailbox.clear()  # a drain may be at it
        return operations

    def _wake(self) -> None:
        self._is_woken = False
        if self._is_stopped or self._large is not None:
            return
        large = self._drain_until_large()
        if large is not None:
            self._context.step_runner.run(large.steps)

    def _is_due(self, now_ms: int) -> bool:
        """Return whether timers have to run before an operation that must see their effects.

        The loop runs a timer some milliseconds late, or after a request that came later.
        """
        look_ms = self.group.next_look_ms()
        return look_ms is not None and look_ms <= now_ms

    def _apply_now(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation while the mailbox is empty."""
        self._is_draining = True
        try:
            self._apply(operation, now_ms)
            self._settle(now_ms)
        except Exception:  # the same error boundary as that of a drain
            self._recover([operation], now_ms)
        self._is_draining = False
        if self._large is not None:
            self._context.step_runner.run(self._large.steps)
        elif self._mailbox:
            self._wake_later()

    def _drain_until_large(self) -> LargeOperation | None:
        """Apply the mailbox up to a large operation, which becomes `_large`."""
        mailbox = self._mailbox
        applied: list[GroupOperation] = []
        now_ms = self._context.clock.now_ms()
        self._is_draining = True
        try:
            while mailbox and len(applied) < OPERATIONS_PER_TURN:
                operation = mailbox.popleft()
                if operation.sees_deadlines and self._is_due(now_ms):
                    self._settle(now_ms, is_last=False)  # timers see the records of the others
                    mailbox.appendleft(operation)
                    operation = EXPIRE_TIMERS
                if operation.is_large:
                    self._large = LargeOperation(operation, self._run_large(operation))
                    break
                applied.append(operation)
                if operation.is_exclusive:
                    self._apply_exclusive(operation, now_ms)
                else:
                    self._apply(operation, now_ms)
                    if self.group.kind is not GroupKind.CLASSIC and self._changes_state:
                        self._settle(now_ms)  # the next one has to see its records
                if self._large is not None:
                    applied.pop()
                    break
            self._settle(now_ms)
        except Exception:  # error boundary: a bug costs these requests and the group's soft state
            self._recover(applied, now_ms)
        self._is_draining = False
        if self.group.is_vacant:
            self._context.on_settled(self)
        if not self._mailbox:
            self._mailbox = None
        elif self._large is None:
            self._wake_later()  # an answer let its connection go on, or the turn is over
        return self._large

    @property
    def _changes_state(self) -> bool:
        """Whether records wait that change more than offsets.

        All state of the kinds but the classic one is made by records, and none by requests.
        """
        return any(not isinstance(write.records, OffsetRecords) for write in self._effects.writes)

    def _apply_exclusive(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation that is settled by itself."""
        self._settle(now_ms, is_last=False)
        self._apply(operation, now_ms)
        self._settle(now_ms)
        if self.group.is_dead:
            self._hand_back()

    def _apply(self, operation: GroupOperation, now_ms: int) -> None:
        """Have the core apply it; if it raises, the effects of earlier operations are settled.

        What is not done with its first step becomes `_large`, unless it shares the drain of a
        classic group.
        """
        effects = self._effects
        before = effects.mark()
        try:
            steps = operation.apply(self.group, now_ms, effects)
            if steps is not None:
                for _ in steps:
                    if operation.is_exclusive or self.group.kind is not GroupKind.CLASSIC:
                        rest = self._run_large(operation, steps)
                        self._large = LargeOperation(operation, rest)
                        break
        except Exception:
            effects.rewind(before)
            self._settle(now_ms)
            raise

    def _hand_back(self) -> None:
        """The group has ended: what is left in the mailbox is not meant for it any more."""
        left = self._take_all()
        self._context.on_settled(self)
        for operation in left:
            operation.resubmit(self._context)

    def _run_large(
        self, operation: GroupOperation, steps: Steps | None = None
    ) -> Generator[None, None, None]:
        """A large operation in steps, or those that are left of it; the mailbox waits meanwhile."""
        now_ms = self._context.clock.now_ms()
        try:
            if steps is None:
                steps = operation.apply(self.group, now_ms, self._effects)
            if steps is not None:
                yield from steps
            large = settle_large(self.group, self._effects, self.partition, now_ms)
            self.group = yield from large
            self._large = None
            self._is_draining = True
            self._settle(now_ms)
            if self.group.is_dead:
                self._hand_back()
        except Exception:  # the same error boundary
            self._large = None
            self._recover([operation], now_ms)
        self._is_draining = False
        if self.group.is_vacant:
            self._context.on_settled(self)
        if self._mailbox:
            self._wake_later()

    def _wake_later(self) -> None:
        if not self._is_woken and self._large is None and not self._is_stopped:
            self._is_woken = True
            self._context.clock.call_soon(self._wake)

    def _settle(self, now_ms: int, *, is_last: bool = True) -> None:
        """Append, replay, send the answers, log the events, arm the timer.

        Unless it `is_last`, something may still come of a group that was never created.
        """
        effects = self._effects
        self._write(now_ms)
        if self.group.is_vacant and (is_last or self.group.is_dead):
            # Before the answers: what a client sends next must not meet the group that has ended.
            self._context.on_settled(self)
        if effects.calls:
            calls, effects.calls = effects.calls, []
            for call in calls:
                if call.reply is not None:
                    self._hold((call.reply,))
                self._context.ask(self, call)
        if effects.replies_to_writes:
            if self.partition.flush_is_due:
                held, effects.replies_to_writes = effects.replies_to_writes, []
                self._hold(held)
                self.partition.when_flushed(partial(self._send_flushed, held))
            else:
                effects.replies += effects.replies_to_writes
                effects.replies_to_writes.clear()
        if effects.replies:
            self._send()
        if effects.events or effects.explained:
            for name, fields in effects.events:
                self._context.log.emit(name, **fields)
            for rebalance in effects.explained:
                self._context.explain(self.group.group_id, rebalance)
            effects.events.clear()
            effects.explained.clear()
        if self.group.purgatory.has_new_deadline:
            self._arm(now_ms)

    def _write(self, now_ms: int) -> None:
        """Append and replay."""
        if self._effects.writes:
            self.group = settle(self.group, self._effects, self.partition, now_ms)

    def _arm(self, now_ms: int) -> None:
        """Have the clock wake the task at the next deadline, if it does not already.

        A timer that fires early, because the deadline has moved, does no harm.
        """
        deadline_ms = self.group.next_look_ms()
        self.group.purgatory.has_new_deadline = False
        if deadline_ms is None:
            return
        if deadline_ms <= now_ms:
            self._post_timers()
        elif self._timer is None or deadline_ms < self._timer_at_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at_ms = deadline_ms
            delay_ms = deadline_ms - now_ms
            self._timer = self._context.clock.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.group.purgatory.has_new_deadline = True  # none of those that wait has a timer now
        self._post_timers()

    def _post_timers(self) -> None:
        self.post(EXPIRE_TIMERS)

    def _send(self) -> None:
        """Send the answers; if one of them raises, the others are kept.

        An answer may let its connection go on with a request that ends this very group and drains
        it again from within: an answer being sent must not be met a second time.
        """
        effects = self._effects
        if len(effects.replies) == 1:
            effects.replies.pop().send()
            return
        replies, effects.replies = effects.replies, []
        if len(replies) > ANSWERS_PER_TURN:
            self._send_later(replies[ANSWERS_PER_TURN:])
            del replies[ANSWERS_PER_TURN:]
        sent = 0
        try:
            for reply in replies:
                sent += 1
                reply.send()
        finally:
            effects.replies[:0] = replies[sent:]

    def _send_later(self, replies: list[Answered]) -> None:
        if self._unsent is None:
            self._unsent = deque()
            self._context.clock.call_soon(self._send_some)
        self._unsent += replies

    def _send_some(self) -> None:
        """Send what one turn may send of the answers that are left."""
        unsent = self._unsent
        if unsent is None:
            return  # sent while the group was unloaded
        for _ in range(min(ANSWERS_PER_TURN, len(unsent))):
            reply = unsent.popleft()
            try:
                reply.send()
            except Exception:  # error boundary: one response that cannot be encoded
                self._context.log.emit("group.failed", group=self.group.group_id, exc_info=True)
                reply.fail()
        if unsent:
            self._context.clock.call_soon(self._send_some)
        else:
            self._unsent = None

    def _recover(self, applied: list[GroupOperation], now_ms: int) -> None:
        """After a bug: reload the group from its log, and answer the operations at hand.

        Parked requests get NOT_COORDINATOR. A second bug on the way breaks the task: whatever is
        asked of the group is answered UNKNOWN_SERVER_ERROR from then on.
        """
        log, group = self._context.log, self.group
        log.emit("group.failed", group=group.group_id, exc_info=True)
        if self._large is not None:  # it is at work on the group that is dropped
            applied = [*applied, self._large.operation]
            self._large = None
        try:
            self._effects.writes.clear()
            self._effects.calls.clear()
            unload(group, now_ms, self._effects)
            self.group = self.partition.reload(self._context.new_group(group.group_id))
            load_finished(self.group, now_ms, self._effects)
            self._settle(now_ms)
        except Exception:  # error boundary: nothing of this group can be served any more
            log.emit("group.failed", group=group.group_id, exc_info=True)
            self._is_broken = True
        if self._is_broken:
            applied = [*applied, *self._take_all()]
        for operation in applied:
            if self._held is None or operation not in self._held:
                operation.fail()

    def _send_flushed(self, replies: Iterable[Answered], error: StorageError | None) -> None:
        """Send answers that waited for a sync, or refuse those requests if it failed.

        Their records are in the log all the same, as with a commit whose answer got lost.
        """
        for reply in replies:
            self._release((reply,))
            if error is None:
                reply.send()
            else:
                reply.refuse(client_error(error.code))

    def post_answer(self, operation: GroupOperation, call: StateCall) -> None:
        """Put the answer of the share coordinator to a call into the mailbox."""
        if call.reply is not None:
            self._release((call.reply,))
        self.post(operation)

    def _hold(self, replies: Iterable[object]) -> None:
        if self._held is None:
            self._held = set()
        self._held.update(replies)

    def _release(self, replies: Iterable[object]) -> None:
        if self._held is not None:
            self._held.difference_update(replies)
            if not self._held:
                self._held = None
