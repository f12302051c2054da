"""Applies fault rules to requests: before the handler runs, and to the response."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from coordinator_server.events.log import LOG
from coordinator_server.faults.elements import (
    Parts,
    clear_outer_errors,
    corrupted_partition,
    failed_partition,
    merged,
    split,
    with_changed_partitions,
)
from coordinator_server.faults.rule import AFTER, BEFORE, TakenFault
from coordinator_server.net.call import Call, derived
from coordinator_server.net.error_response import Failure, error_response_steps
from protocol.schema import dispose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.faults.elements import TopicName
    from coordinator_server.faults.faults import Faults
    from coordinator_server.faults.rule import FaultRule
    from coordinator_server.net.call import Body
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.dispatch import Handler
    from coordinator_server.steps import Computation, Steps
    from protocol.apis.fetch import FetchResponse, PartitionData
    from protocol.schema import Message


class _Plan:
    """The fault actions for one request; for each action, the first matching rule decides.

    `kept` is the part of the request that the handler serves, or None if the handler is not called.
    `errors` has the errors of the elements that are not served; they are added to the response.
    `fetch_rules` are the rules that change single partitions of a Fetch response.
    """

    __slots__ = (
        "delay_ms",
        "drop",
        "errors",
        "fetch_rules",
        "is_cut",
        "kept",
        "late_ms",
        "refusal",
        "throttle_ms",
    )

    def __init__(self, request: Message) -> None:
        self.kept: Message | None = request
        self.delay_ms = self.late_ms = self.throttle_ms = 0
        self.refusal: FaultRule | None = None
        self.errors: Message | None = None
        self.fetch_rules: list[FaultRule] = []
        self.drop: str | None = None
        self.is_cut = False

    def add(self, rule: FaultRule) -> list[str]:
        """Add the actions of a rule, except its error, that no earlier rule has set.

        Returns the names of the added actions.
        """
        decided = []
        if rule.delay_ms and not self.delay_ms:
            self.delay_ms = rule.with_jitter(rule.delay_ms)
            decided.append("delay_ms")
        if rule.late_ms and not self.late_ms:
            self.late_ms = rule.with_jitter(rule.late_ms)
            decided.append("late_ms")
        if rule.throttle_ms and not self.throttle_ms:
            self.throttle_ms = rule.throttle_ms
            decided.append("throttle_ms")
        if rule.drop is not None and self.drop is None:
            self.drop = rule.drop
            decided.append("drop")
        if rule.is_cut and not self.is_cut:
            self.is_cut = True
            decided.append("cut")
        return decided


class _Faulty(Call):
    """A Call whose response follows the plan for its request."""

    faults: Faults
    plan: _Plan | None
    topic_name: TopicName

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.plan = None

    def reply(self, response: Message) -> None:
        """Send the response according to the plan."""
        plan, self.plan = self.plan, None
        if plan is None:
            super().reply(response)
            return
        if plan.throttle_ms:
            self.connection.mute(plan.throttle_ms)
        if plan.late_ms or plan.is_cut or plan.drop == AFTER:
            wire = _FaultyWire(self.connection, plan, self.faults.clock)
            self.connection = cast("Connection", wire)
        if plan.errors is not None or plan.throttle_ms or plan.fetch_rules:
            self.reply_with(self._changed(response, plan))
        else:
            super().reply(response)

    def _changed(self, response: Message, plan: _Plan) -> Computation[Message]:
        """Return the response with the errors and the throttle time of the plan, in steps."""
        version = self.api_version
        now_ms = self.faults.clock.now_ms()
        for rule in plan.fetch_rules:
            if rule.has_ended(now_ms):
                continue
            change: Callable[[PartitionData], PartitionData | None] = corrupted_partition
            if rule.error is not None:
                change = partial(failed_partition, error=rule.error)
            changed = yield from with_changed_partitions(
                cast("FetchResponse", response), rule.selection, self.topic_name, change
            )
            if changed is not None and rule.is_due(now_ms):
                response = changed
                _report(self.faults, self, rule, ["corrupt" if rule.corrupts else "error"])
        if plan.errors is not None:
            response = yield from merged(response, plan.errors, version)
        if plan.throttle_ms and hasattr(response, "throttle_time_ms"):
            response = response.copy()
            response.throttle_time_ms = max(response.throttle_time_ms, plan.throttle_ms)
        return response

    def reply_nothing(self) -> None:
        """End the request without a response, or close the connection as the plan says."""
        plan, self.plan = self.plan, None
        if plan is not None and plan.throttle_ms:
            self.connection.mute(plan.throttle_ms)
        if plan is not None and (plan.drop == AFTER or plan.errors is not None):
            self.connection.close()  # before the next request of the connection is handled
        super().reply_nothing()


class _FaultyWire:
    """A connection that sends one response late, sends only half of it, or closes instead."""

    __slots__ = ("_clock", "_connection", "_plan")

    def __init__(self, connection: Connection, plan: _Plan, clock: BrokerClock) -> None:
        self._connection = connection
        self._plan = plan
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def answer(self, prefix: bytes, body: Body) -> None:
        """Send the response according to the plan."""
        if self._plan.late_ms:
            send = partial(self._answer, prefix, body)
            self._clock.call_later(self._plan.late_ms / 1000, send)
        else:
            self._answer(prefix, body)

    def _answer(self, prefix: bytes, body: Body) -> None:
        connection = self._connection
        if self._plan.drop == AFTER:
            connection.close()
        elif self._plan.is_cut:
            response = prefix + (b"".join(body) if isinstance(body, list) else body)
            connection.hold()  # the next request of the connection is not handled
            connection.answer(response[: len(response) // 2], b"")
            connection.close()
        else:
            connection.answer(prefix, body)


def faulty(
    faults: Faults, rules: Sequence[FaultRule], handle: Handler[Any], new_call: Callable[..., Call]
) -> tuple[Handler[Any], Callable[..., Call]]:
    """Return a handler and a factory of calls that follow the rules."""

    def serve(broker: Any, call: _Faulty, request: Message) -> Steps:
        call.topic_name = _topic_names(broker)
        plan = yield from _plan(faults, rules, call, request)
        if plan.delay_ms:
            resume = partial(_resume, broker, call, plan, handle)
            faults.clock.call_later(plan.delay_ms / 1000, resume)
        else:
            yield from _serve(broker, call, plan, handle)

    return cast("Handler[Any]", serve), derived(new_call, _Faulty, {"faults": faults})


def _topic_names(broker: Any) -> TopicName:
    """Return a function that returns the name of the topic with an id."""

    def name(topic_id: bytes) -> str | None:
        topic = broker.topics.topic_by_id(topic_id)
        return None if topic is None else str(topic.name)

    return name


def _resume(broker: Any, call: _Faulty, plan: _Plan, handle: Handler[Any]) -> None:
    """Serve a delayed request, unless the client has disconnected."""
    if call.connection.closed:
        call.run(_dispose(call))
    else:
        call.run(_serve(broker, call, plan, handle))


def _dispose(call: Call) -> Steps:
    """Free a request that is not served, in steps."""
    yield from dispose(call.request)


def _serve(broker: Any, call: _Faulty, plan: _Plan, handle: Handler[Any]) -> Steps:
    """Serve the request, refuse it, or close the connection, according to the plan."""
    call.plan = plan
    if plan.drop == BEFORE:
        call.connection.close()
        yield from dispose(call.request)
    elif plan.kept is not None:
        call.request = plan.kept
        steps = handle(broker, call, plan.kept)
        if steps is not None:
            yield from steps
    elif getattr(call.request, "acks", None) == 0:
        # A producer with acks=0 expects no response. As in Kafka, an error closes its connection.
        call.connection.close()
        call.reply_nothing()
    elif plan.refusal is not None:
        assert plan.refusal.error is not None, "a rule without an error refuses"
        call.refuse(plan.refusal.error, plan.refusal.message)
    else:
        assert plan.errors is not None, "nothing is served and nothing is refused"
        errors, plan.errors = plan.errors, None
        call.reply(errors)


def _plan(
    faults: Faults, rules: Sequence[FaultRule], call: _Faulty, request: Message
) -> Computation[_Plan]:
    """Return the plan for a request, in steps; log and count the faults that it injects."""
    plan = _Plan(request)
    for rule in rules:
        if rule.is_over or not rule.matches_caller(call):
            continue
        yield
        if call.api_name == "Fetch" and rule.changes_fetched:
            plan.fetch_rules.append(rule)  # whether it takes effect depends on the response
            continue
        parts = Parts(None, request)
        if rule.selection:
            parts = yield from split(request, call.api_version, rule.selection, call.topic_name)
        if parts.taken is None or not rule.is_due(faults.clock.now_ms()):
            continue
        decided = plan.add(rule)
        if rule.error is not None:
            if plan.kept is not request:
                parts = yield from _parts_left(plan, call, rule)
            if parts.taken is not None and (yield from _refuse(plan, call, rule, parts)):
                decided.append("error")
        if decided:
            _report(faults, call, rule, decided)
    return plan


def _parts_left(plan: _Plan, call: _Faulty, rule: FaultRule) -> Computation[Parts]:
    """Return what a rule takes from the elements that no earlier rule has refused."""
    if plan.kept is None:
        return Parts(None, None)
    return (yield from split(plan.kept, call.api_version, rule.selection, call.topic_name))


def _refuse(plan: _Plan, call: _Faulty, rule: FaultRule, parts: Parts) -> Computation[bool]:
    """Refuse the elements that a rule takes, or the whole request; return True."""
    assert rule.error is not None, "the rule has no error"
    assert parts.taken is not None, "the rule takes nothing"
    version = call.api_version
    errors: Message | None = None
    if parts.taken is not plan.kept:
        errors = yield from error_response_steps(
            call.response_type, parts.taken, version, Failure(rule.error, rule.message)
        )
    if errors is not None:
        yield from clear_outer_errors(errors)
    if errors is None or getattr(errors, "error_code", False):
        # The response has no place for errors of single elements.
        plan.kept, plan.refusal = None, rule
        return True
    plan.errors = (
        errors if plan.errors is None else (yield from merged(plan.errors, errors, version))
    )
    plan.kept = parts.kept
    return True


def _report(faults: Faults, call: Call, rule: FaultRule, actions: list[str]) -> None:
    """Count and log a fault, and call the functions in `faults.on_taken`."""
    rule.count()
    if rule.is_over:
        faults.changed()  # the API is served as without the rule
    taken = TakenFault(
        rule.number,
        ", ".join(actions),
        call.api_name,
        call.connection.remote,
        call.client_id,
        call.correlation_id,
    )
    LOG.emit(
        "fault.injected",
        rule=taken.rule,
        action=taken.action,
        api=taken.api,
        remote=taken.remote,
        client_id=taken.client_id,
        correlation_id=taken.correlation_id,
    )
    for listener in faults.on_taken:
        listener(taken)
