"""The task of a group: the only code that modifies a Group.

Operations are posted to the mailbox. In one turn of the event loop the task applies queued
operations, appends their records as one write, replays the records, and then sends the responses
that depend on them. One timer per group wakes the task at the earliest deadline of the group's
purgatory. Turns of the event loop are scheduled by the clock, so the simulation runs this same task
without an event loop. The task is the second error boundary (the first is `net.dispatch`): if the
core raises, the request is answered with UNKNOWN_SERVER_ERROR and the group is reloaded from its
log.
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
    from coordinator_server.core.groups.effects import Answered, StateCall
    from coordinator_server.core.groups.explain import Rebalance
    from coordinator_server.core.groups.group import Group
    from coordinator_server.events.log import EventLog
    from coordinator_server.steps import Computation
    from storage.errors import StorageError


OPERATIONS_PER_TURN, ANSWERS_PER_TURN = 64, 32
"""Limits for one turn of the event loop: a large group causes many operations and responses at
once."""


class TaskContext(Protocol):
    """The part of the group coordinator that a group's task uses."""

    clock: BrokerClock
    step_runner: StepRunner
    log: EventLog
    explain: Callable[[str, Rebalance], None]
    """`explain(group_id, rebalance)` is called for each rebalance that has ended."""

    def new_group(self, group_id: str) -> Group:
        """Return an empty group."""

    def on_settled(self, task: GroupTask) -> None:
        """Handle a group that may have ended; called after each batch of operations."""

    def ask(self, task: GroupTask, call: StateCall) -> None:
        """Send a call to the share coordinator and post the response to the task."""

    def submit(self, call: GroupCall[A], request: Q) -> None:
        """Route a request whose group has ended to the group that has the id now."""


class GroupTask:
    """The mailbox and the timer of one group."""

    __slots__ = (
        "_context",
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
        "effects",
        "group",
        "partition",
    )

    def __init__(self, group: Group, partition: OffsetsPartition, context: TaskContext) -> None:
        self.group = group
        self.partition = partition
        self._context = context
        self.effects = Effects(debug=context.log.debug)
        self._held: set[object] | None = None
        """Responses that wait for a flush or for the share coordinator. Their requests have been
        applied, so a later exception does not fail them."""
        self._mailbox: deque[GroupOperation] | None = None
        """None while empty, because an empty deque takes 760 bytes."""
        self._large: LargeOperation | None = None
        """The large operation that is running in steps; the mailbox waits until it ends."""
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._unsent: deque[Answered] | None = None
        """Responses to send in later turns of the event loop."""
        self._is_woken = self._is_draining = self._is_broken = self._is_stopped = False

    def post(self, operation: GroupOperation) -> None:
        """Put an operation into the mailbox, to be applied in the next turn of the event loop.

        An operation with `is_at_once` is applied immediately if the task is idle.
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
        """Whether reloading the group failed, so that memory may lack records of the log."""
        return self._is_broken

    @property
    def is_idle(self) -> bool:
        """Whether the mailbox is empty and no large operation is running."""
        return not self._mailbox and self._large is None

    @property
    def is_draining(self) -> bool:
        """Whether a caller further up the stack is applying operations of the mailbox."""
        return self._is_draining

    def settle(self) -> bool:
        """Apply the operations in the mailbox now; return False if a large operation is running."""
        while self._mailbox and self._large is None and not self._is_stopped:
            self._wake()
        return self._large is None

    @property
    def is_done(self) -> bool:
        """Whether the task can be removed: its group has ended or was never created.

        A group that could not be reloaded is kept, because its log still holds state.
        """
        return self.group.is_vacant and self.is_idle and not self._is_broken

    def unload(self) -> None:
        """Apply the mailbox, answer parked requests with NOT_COORDINATOR, and stop.

        Large operations are not applied; their requests are answered with NOT_COORDINATOR.
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
        """Stop the task and its timer. Operations in the mailbox are dropped without a response."""
        if self._timer is not None:
            self._timer.cancel()
        self._is_stopped = True

    def _take_all(self) -> list[GroupOperation]:
        """Empty the mailbox and return its operations."""
        operations = list(self._mailbox or ())
        if self._mailbox is not None:
            self._mailbox.clear()  # keep the object: `_drain_until_large` may be using it
        return operations

    def _wake(self) -> None:
        self._is_woken = False
        if self._is_stopped or self._large is not None:
            return
        large = self._drain_until_large()
        if large is not None:
            self._context.step_runner.run(large.steps)

    def _is_due(self, now_ms: int) -> bool:
        """Return whether a timer is due, and so must run before an operation with `sees_deadlines`.

        The event loop may run a timer some milliseconds late, or after a later request.
        """
        look_ms = self.group.next_look_ms()
        return look_ms is not None and look_ms <= now_ms

    def _apply_now(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation immediately while the mailbox is empty."""
        self._is_draining = True
        try:
            self.apply(operation, now_ms)
            self._settle(now_ms)
        except Exception:  # error boundary, as in `_drain_until_large`
            self._recover([operation], now_ms)
        self._is_draining = False
        if self._large is not None:
            self._context.step_runner.run(self._large.steps)
        elif self._mailbox:
            self._wake_later()

    def _drain_until_large(self) -> LargeOperation | None:
        """Apply operations up to the next large operation, which is stored and returned."""
        mailbox = self._mailbox
        applied: list[GroupOperation] = []
        now_ms = self._context.clock.now_ms()
        self._is_draining = True
        try:
            while mailbox and len(applied) < OPERATIONS_PER_TURN:
                operation = mailbox.popleft()
                if operation.sees_deadlines and self._is_due(now_ms):
                    self._settle(now_ms, is_last=False)  # replay earlier records before timers run
                    mailbox.appendleft(operation)
                    operation = EXPIRE_TIMERS
                if operation.is_large:
                    self._large = LargeOperation(operation, self._run_large(operation))
                    break
                applied.append(operation)
                if operation.is_exclusive:
                    self._apply_exclusive(operation, now_ms)
                else:
                    self.apply(operation, now_ms)
                    if self.group.kind is not GroupKind.CLASSIC and self._changes_state:
                        self._settle(now_ms)  # the next operation must see the new state
                if self._large is not None:
                    applied.pop()
                    break
            self._settle(now_ms)
        except Exception:  # error boundary: the requests fail, the group is reloaded
            self._recover(applied, now_ms)
        self._is_draining = False
        if self.group.is_vacant:
            self._context.on_settled(self)
        if not self._mailbox:
            self._mailbox = None
        elif self._large is None:
            self._wake_later()  # the limit per turn is reached, or callbacks added operations
        return self._large

    @property
    def _changes_state(self) -> bool:
        """Whether pending records change the group's state, and not only committed offsets.

        The state of a group that is not a classic group changes only when records are replayed.
        """
        return any(not isinstance(write.records, OffsetRecords) for write in self.effects.writes)

    def _apply_exclusive(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation, and append its records separately from all other records."""
        self._settle(now_ms, is_last=False)
        self.apply(operation, now_ms)
        self._settle(now_ms)
        if self.group.is_dead:
            self._hand_back()

    def apply(self, operation: GroupOperation, now_ms: int) -> None:
        """Apply an operation; if it raises, settle the effects of earlier operations and re-raise.

        If the operation needs more than one step, the remaining steps become `_large`. For classic
        groups only an exclusive operation is split; other operations run all their steps at once.
        """
        effects = self.effects
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
        """Resubmit the operations left in the mailbox because the group has ended."""
        left = self._take_all()
        self._context.on_settled(self)
        for operation in left:
            operation.resubmit(self._context)

    def _run_large(
        self, operation: GroupOperation, steps: Computation[object] | None = None
    ) -> Generator[None, None, None]:
        """Run a large operation, or its remaining `steps`; the mailbox waits meanwhile."""
        now_ms = self._context.clock.now_ms()
        try:
            if steps is None:
                steps = operation.apply(self.group, now_ms, self.effects)
            if steps is not None:
                yield from steps
            large = settle_large(self.group, self.effects, self.partition, now_ms)
            self.group = yield from large
            self._large = None
            self._is_draining = True
            self._settle(now_ms)
            if self.group.is_dead:
                self._hand_back()
        except Exception:  # error boundary, as in `_drain_until_large`
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
        """Append and replay records, send responses, log events and arm the timer.

        With `is_last=False`, a group that was never created is kept, because an operation that
        follows in the mailbox may create it.
        """
        effects = self.effects
        self.write(now_ms)
        if self.group.is_vacant and (is_last or self.group.is_dead):
            # End the group before sending its responses, so that no later request reaches the
            # group.
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

    def write(self, now_ms: int) -> None:
        """Append and replay the pending records."""
        if self.effects.writes:
            self.group = settle(self.group, self.effects, self.partition, now_ms)

    def _arm(self, now_ms: int) -> None:
        """Set the timer to the next deadline, unless an earlier timer is set.

        A timer that fires early, because the deadline was postponed, does no harm.
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
        self.group.purgatory.has_new_deadline = True  # `_arm` must set the next timer
        self._post_timers()

    def _post_timers(self) -> None:
        self.post(EXPIRE_TIMERS)

    def _send(self) -> None:
        """Send the responses; if a `send` raises, the unsent responses are kept.

        A response may cause its connection to send a request that ends this group and applies the
        mailbox recursively. A response is therefore removed before it is sent.
        """
        effects = self.effects
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
        """Send the next unsent responses, up to the limit of a turn."""
        unsent = self._unsent
        if unsent is None:
            return  # `unload` has already sent the responses
        for _ in range(min(ANSWERS_PER_TURN, len(unsent))):
            reply = unsent.popleft()
            try:
                reply.send()
            except Exception:  # error boundary: a response cannot be encoded
                self._context.log.emit("group.failed", group=self.group.group_id, exc_info=True)
                reply.fail()
        if unsent:
            self._context.clock.call_soon(self._send_some)
        else:
            self._unsent = None

    def _recover(self, applied: list[GroupOperation], now_ms: int) -> None:
        """Reload the group from its log after an exception, and fail the operations in `applied`.

        Parked requests get NOT_COORDINATOR. If reloading raises too, the task is broken: all
        further requests to the group are answered with UNKNOWN_SERVER_ERROR.
        """
        log, group = self._context.log, self.group
        log.emit("group.failed", group=group.group_id, exc_info=True)
        if self._large is not None:  # the large operation still uses the dropped group object
            applied = [*applied, self._large.operation]
            self._large = None
        try:
            self.effects.writes.clear()
            self.effects.calls.clear()
            unload(group, now_ms, self.effects)
            self.group = self.partition.reload(self._context.new_group(group.group_id))
            load_finished(self.group, now_ms, self.effects)
            self._settle(now_ms)
        except Exception:  # error boundary: this group can no longer be served
            log.emit("group.failed", group=group.group_id, exc_info=True)
            self._is_broken = True
        if self._is_broken:
            applied = [*applied, *self._take_all()]
        for operation in applied:
            if self._held is None or operation not in self._held:
                operation.fail()

    def _send_flushed(self, replies: Iterable[Answered], error: StorageError | None) -> None:
        """Send responses that waited for a flush, or an error if the flush failed.

        After a failed flush the records are still in the log, so the client gets an error for a
        change that took effect.
        """
        for reply in replies:
            self._release((reply,))
            if error is None:
                reply.send()
            else:
                reply.refuse(client_error(error.code))

    def post_answer(self, operation: GroupOperation, call: StateCall) -> None:
        """Post the operation with the share coordinator's response to `call`."""
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
