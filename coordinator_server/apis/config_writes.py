"""Writes validated config changes; validates a change again if its resource has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coordinator_server.apis.config_changes import (
    DONE,
    TOO_LONG,
    BrokerName,
    Outcome,
    Planned,
    SubscriptionName,
    is_too_long,
)
from coordinator_server.events.log import LOG, ROOT_LOGGER
from coordinator_server.steps import run_all
from coordinator_server.topics.counts import Counts
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Computation, Steps
    from protocol.schema import Message

TWICE: Outcome = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


class ConfigResource(Protocol):
    """A config resource named in a request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=ConfigResource)


def reply_to_all(
    broker: Broker,
    call: Call,
    request: Any,
    plan: Callable[[Broker, R], Computation[Outcome | Planned]],
    result: Callable[..., Message],
    response: Callable[..., Message],
) -> Steps:
    """Change the configs of all resources of a request and send one `result` per resource."""
    resources: Sequence[R] = request.resources
    outcomes = yield from apply_all(broker, resources, plan, validate_only=request.validate_only)
    results = []
    for resource, (code, message) in zip(resources, outcomes, strict=True):
        results.append(
            result(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
        yield
    call.reply(response(responses=(yield from call.rights.in_order(results))))


def apply_all(
    broker: Broker,
    resources: Sequence[R],
    plan: Callable[[Broker, R], Computation[Outcome | Planned]],
    *,
    validate_only: bool,
) -> Computation[list[Outcome]]:
    """Change the configs of all resources; return one outcome per resource.

    Resources named twice are not changed. `plan` validates the change of one resource.
    """
    counts: Counts[tuple[int, str]] = Counts()
    for resource in resources:
        counts.add((resource.resource_type, resource.resource_name))
        yield
    outcomes: list[Outcome] = []
    planned: dict[int, Planned] = {}
    records = 0
    for number, resource in enumerate(resources):
        outcome: Outcome | Planned = TWICE
        if counts[resource.resource_type, resource.resource_name] == 1:
            outcome = yield from _checked(broker, resource, plan)
        if isinstance(outcome, Planned):
            records += yield from _record_count(outcome)
            if outcome.configs != outcome.before:
                planned[number] = outcome
            outcome = DONE
        outcomes.append(outcome)
        yield
    if records > MAX_RECORDS_PER_REQUEST:
        outcomes = [(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)] * len(resources)
    elif planned and not validate_only:
        for number in list(planned):
            _renew(broker, resources[number], plan, planned, outcomes, number)
            yield
        # The plan is made once more, without a `yield` before the writes, so that no other request
        # can change the configs in between.
        for number in list(planned):
            _renew(broker, resources[number], plan, planned, outcomes, number)
        yield from _write(broker, planned, outcomes)
    yield from counts.clear()
    return outcomes


def _record_count(planned: Planned) -> Computation[int]:
    """Return how many records Kafka's controller would write: one per config that changes."""
    changed = 0
    for name, text in planned.configs.items():
        changed += planned.before.get(name) != text
        yield
    return changed + len(planned.before.keys() - planned.configs.keys())


def _checked(
    broker: Broker, resource: R, plan: Callable[[Broker, R], Computation[Outcome | Planned]]
) -> Computation[Outcome | Planned]:
    """Plan a change; refuse new values that are too long.

    Source: ConfigurationControlManager.validateAlterConfig.
    """
    outcome = yield from plan(broker, resource)
    if isinstance(outcome, Planned):
        for name, text in outcome.configs.items():
            if is_too_long(text) and outcome.before.get(name) != text:
                return TOO_LONG
            yield
    return outcome


def _renew(
    broker: Broker,
    resource: R,
    plan: Callable[[Broker, R], Computation[Outcome | Planned]],
    planned: dict[int, Planned],
    outcomes: list[Outcome],
    number: int,
) -> None:
    """Validate a change again if another request has changed the resource."""
    if planned[number].is_current(broker):
        return
    outcome = run_all(_checked(broker, resource, plan))
    if isinstance(outcome, Planned):
        planned[number] = outcome
    else:
        outcomes[number] = outcome
        del planned[number]


def _write(broker: Broker, planned: Mapping[int, Planned], outcomes: list[Outcome]) -> Steps:
    """Write the planned configs, one write per resource type.

    All writes are done before the first `yield`. If a write fails, all resources of its type get
    the error as outcome.
    """
    following: list[Steps] = []

    def put_topics(configs: Mapping[Any, Mapping[str, str]]) -> None:
        steps = broker.topics.set_configs(configs)
        next(steps, None)
        following.append(steps)

    def put_brokers(configs: Mapping[Any, Mapping[str, str]]) -> None:
        named = {resource.name: own for resource, own in configs.items()}
        steps = broker.dynamic_configs.set(named)
        next(steps, None)
        following.append(steps)
        LOG.emit("brokers.configured", brokers=sorted(named))

    def put_groups(configs: Mapping[Any, Mapping[str, str]]) -> None:
        broker.group_configs.set(configs)
        LOG.emit("groups.configured", groups=sorted(configs))

    def put_subscriptions(configs: Mapping[Any, Mapping[str, str]]) -> None:
        named = {resource.name: own for resource, own in configs.items()}
        broker.telemetry.configs.set(named)
        LOG.emit("telemetry.configured", subscriptions=sorted(named))

    puts = {
        BrokerName: put_brokers,
        str: put_groups,
        SubscriptionName: put_subscriptions,
        type(None): lambda configs: LOG.set_level(configs[None][ROOT_LOGGER]),
    }
    by_type: dict[Any, list[int]] = {}
    for number, change in planned.items():
        by_type.setdefault(puts.get(type(change.target), put_topics), []).append(number)
    for put, numbers in by_type.items():
        try:
            put({planned[number].target: planned[number].configs for number in numbers})
        except StorageError as error:
            for number in numbers:
                outcomes[number] = error.code, error.message
    for steps in following:
        yield from steps
