"""Changing configs while the broker runs: which change is allowed, and what comes of it.

Topics, groups and client metrics can be changed. The settings of a broker cannot: they come from
its command line and its file. Orders of the checks and texts are those of Kafka
(ConfigAdminManager and ConfigurationControlManager), as its answers show them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from coordinator_server.config.client_metrics import CLIENT_METRICS_SETTINGS, RefusedError, check
from coordinator_server.config.group_settings import GROUP_SETTINGS
from coordinator_server.config.settings import SETTINGS
from coordinator_server.events.log import LOG
from coordinator_server.steps import run_all
from coordinator_server.topics.counts import Counts
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST, TOO_MANY_RECORDS
from coordinator_server.topics.names import name_error
from coordinator_server.topics.topic import Topic
from coordinator_server.topics.topic_configs import condensed, configs_error
from protocol.apis.alter_configs import AlterConfigsResource as ReplacedResource
from protocol.errors import ErrorCode
from storage.config_def import Kind, render
from storage.errors import StorageError
from storage.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.config.config import Config
    from coordinator_server.steps import Steps
    from protocol.apis.alter_configs import AlterableConfig as GivenConfig
    from protocol.apis.incremental_alter_configs import AlterableConfig

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

_KNOWN_SETTINGS: dict[int, Collection[str]] = {
    TOPIC: TOPIC_SETTINGS,
    GROUP: GROUP_SETTINGS,
    CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
}
"""The names of configs that a resource may have, by its type."""

GroupId = str

Outcome = tuple[int, str | None]
"""Error code and its text; (0, None) for a change that is made, or might be."""

DONE: Outcome = (ErrorCode.NONE, None)
TWICE: Outcome = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


MOST_LISTED_CHARACTERS = 8_000
"""Of names in the text of an error. Kafka lists all of them, but no client reads a string of more
than 32 767 bytes."""


class Resource(Protocol):
    """What a request names."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


class Operation(IntEnum):
    """What is done to a config (Kafka's AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(Operation)


class SubscriptionName(NamedTuple):
    """A subscription to client metrics."""

    name: str


class Planned(NamedTuple):
    """Configs that a resource is to have, and those `before`, when the change was checked."""

    target: Topic | GroupId | SubscriptionName
    before: Mapping[str, str]
    configs: dict[str, str]

    def is_current(self, broker: Broker) -> bool:
        """Return whether the resource still has the configs that it had; a topic must exist."""
        if isinstance(self.target, SubscriptionName):
            return broker.telemetry.configs.own(self.target.name) == self.before
        if isinstance(self.target, str):
            return broker.group_configs.own(self.target) == self.before
        is_there = broker.topics.topic(self.target.name) is self.target
        return is_there and self.target.configs is self.before


def apply_all(
    broker: Broker,
    resources: Sequence[R],
    plan: Callable[[Broker, R], Generator[None, None, Outcome | Planned]],
    *,
    validate_only: bool,
) -> Generator[None, None, list[Outcome]]:
    """Change the configs of resources with one write; the outcome of each.

    One that the request names twice is not changed. `plan` checks the change of one resource.
    """
    counts: Counts[tuple[int, str]] = Counts()
    for one in resources:
        counts.add((one.resource_type, one.resource_name))
        yield
    outcomes: list[Outcome] = []
    planned: dict[int, Planned] = {}
    records = 0
    for number, one in enumerate(resources):
        outcome: Outcome | Planned = TWICE
        if counts[one.resource_type, one.resource_name] == 1:
            outcome = yield from plan(broker, one)
        if isinstance(outcome, Planned):
            records += len(outcome.configs.items() ^ outcome.before.items())
            if outcome.configs != outcome.before:
                planned[number] = outcome
            outcome = DONE
        outcomes.append(outcome)
        yield
    if records > MAX_RECORDS_PER_REQUEST:
        outcomes = [(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)] * len(resources)
    elif planned and not validate_only:
        for number, made in planned.items():
            if not made.is_current(broker):  # another request came between the steps
                outcome = run_all(plan(broker, resources[number]))
                if isinstance(outcome, Planned):
                    planned[number] = outcome
                else:
                    outcomes[number] = outcome
        try:
            yield from _write(broker, [one for one in planned.values() if one.is_current(broker)])
        except StorageError as error:
            for number in planned:
                outcomes[number] = error.code, error.message
    yield from counts.clear()
    return outcomes


def _write(broker: Broker, planned: Sequence[Planned]) -> Steps:
    """Set the configs of resources, with one write for all of a type."""
    topics: dict[Topic, Mapping[str, str]] = {}
    groups: dict[GroupId, Mapping[str, str]] = {}
    subscriptions: dict[str, Mapping[str, str]] = {}
    for one in planned:
        if isinstance(one.target, str):
            groups[one.target] = one.configs
        elif isinstance(one.target, SubscriptionName):
            subscriptions[one.target.name] = one.configs
        else:
            topics[one.target] = one.configs
        yield
    yield from broker.topics.set_configs(topics)
    if groups:
        broker.group_configs.set(groups)
        LOG.emit("groups.configured", groups=sorted(groups))
    if subscriptions:
        broker.telemetry.configs.set(subscriptions)
        LOG.emit("telemetry.configured", subscriptions=sorted(subscriptions))


def change(
    broker: Broker, kind: int, name: str, changes: Sequence[AlterableConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Plan changes of what a resource has of its own (IncrementalAlterConfigs)."""
    refused = yield from _list_error(
        (one.name, one.config_operation != Operation.DELETE and one.value is None)
        for one in changes
    )
    if refused is not None:
        return refused
    for one in changes:
        if one.config_operation not in _OPERATIONS:
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        yield
    if kind in _KNOWN_SETTINGS:
        topic = broker.topics.topic(name) if kind == TOPIC else None
        before = {} if topic is None else topic.configs
        if kind == GROUP:
            before = broker.group_configs.own(name)
        elif kind == CLIENT_METRICS:
            before = broker.telemetry.configs.own(name)
        configs = dict(before)
        known = _KNOWN_SETTINGS[kind]
        has_unknown = False
        for one in changes:
            yield
            if one.name not in known:
                if has_unknown:
                    continue  # the first is enough to refuse all, and there may be millions
                has_unknown = one.config_operation == Operation.SET
            refused = _apply(broker.config, configs, one, is_of_topic=kind != CLIENT_METRICS)
            if refused is not None:
                return refused
        if kind == GROUP:
            return _planned_group(broker, name, configs)
        if kind == CLIENT_METRICS:
            return _planned_subscription(broker, name, configs)
        return _planned(broker, name, configs, before)
    if kind == BROKER_LOGGER:
        return (yield from _logger_error(broker, name, changes))
    return (yield from _fixed(broker, kind, name, changes))


def replace(
    broker: Broker, kind: int, name: str, configs: Sequence[GivenConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Plan that a resource has these configs of its own, and no others (AlterConfigs)."""
    refused = yield from _list_error((one.name, one.value is None) for one in configs)
    if refused is not None:
        return refused
    if kind == TOPIC:
        given = yield from condensed((one.name, one.value) for one in configs)
        return _planned(broker, name, {name: value for name, value in given if value is not None})
    if kind in (GROUP, CLIENT_METRICS):
        own = {one.name: one.value for one in configs if one.value is not None}
        plan = _planned_group if kind == GROUP else _planned_subscription
        return plan(broker, name, own)
    if kind == BROKER_LOGGER:
        return _unknown(kind)
    return (yield from _fixed(broker, kind, name, configs))


def is_malformed(resource: Any) -> Generator[None, None, bool]:
    """Whether a change is wrong in a way that Kafka tells everybody, whoever may make it.

    Source: ConfigAdminManager.preprocess; the rights are asked for later, by the controller.
    """
    refused = yield from _list_error(
        (one.name, one.value is None and getattr(one, "config_operation", None) != Operation.DELETE)
        for one in resource.configs
    )
    replaces_logger = resource.resource_type == BROKER_LOGGER and isinstance(
        resource, ReplacedResource
    )
    return refused is not None or replaces_logger


class _Listed:
    """Names in a text, which ends with ... where it would have more than MOST_LISTED_CHARACTERS."""

    __slots__ = ("_left", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._left = MOST_LISTED_CHARACTERS

    def add(self, name: str) -> None:
        """List one more, if there is room."""
        if self._left > 0:
            self._left -= len(name) + 2
            self.names.append(name if self._left > 0 else "...")

    def __str__(self) -> str:
        return ", ".join(self.names)


def _list_error(
    configs: Iterable[tuple[str, bool]],
) -> Generator[None, None, Outcome | None]:
    """Why these names of configs, and whether a value is missing, cannot stand in one list."""
    counts: Counts[str] = Counts()
    nulls = _Listed()
    is_twice = False
    for name, is_null in configs:
        is_twice = counts.add(name) > 1 or is_twice
        if is_null:
            nulls.add(name)
        yield
    yield from counts.clear()
    if is_twice:
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    if nulls.names:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}"
    return None


def _apply(
    config: Config, configs: dict[str, str], one: AlterableConfig, *, is_of_topic: bool
) -> Outcome | None:
    """Apply one change to a resource's own configs; return why it cannot be made.

    Lists are those of topics, whose names groups share: for client metrics Kafka knows no types.
    """
    if one.config_operation == Operation.DELETE:
        configs.pop(one.name, None)
        return None
    assert one.value is not None
    row = TOPIC_SETTINGS.get(one.name) if is_of_topic else None
    is_list = row is not None and row.setting.kind is Kind.LIST
    if one.config_operation == Operation.SET:
        configs[one.name] = ",".join(_items(one.value)) if is_list else one.value.strip()
        return None
    operation = Operation(one.config_operation)
    if not is_list:
        reason = f"Can't {operation.name} to key {one.name} because its type is not LIST."
        return ErrorCode.INVALID_CONFIG, reason
    current = configs.get(one.name, render(config.topic_default(one.name)) or "")
    items = _items(current) if current else []
    named = _items(one.value)
    if operation is Operation.APPEND:
        items += [item for item in dict.fromkeys(named) if item not in items]
    else:
        items = [item for item in items if item not in named]
    configs[one.name] = ",".join(items)
    return None


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _planned(
    broker: Broker, name: str, configs: dict[str, str], before: Mapping[str, str] | None = None
) -> Outcome | Planned:
    """Check a topic's new configs; `before` are those that they were made from, if any."""
    if not name:
        return ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
    message = name_error(name)
    if message is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, message
    try:
        message = configs_error(broker.config, configs.items())
    except StorageError as error:
        return error.code, error.message
    if message is not None:
        return ErrorCode.INVALID_CONFIG, message
    topic = broker.topics.topic(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
    return Planned(topic, topic.configs if before is None else before, configs)


def _planned_group(broker: Broker, name: GroupId, configs: dict[str, str]) -> Outcome | Planned:
    """Check a group's new configs; there need be no such group."""
    if not name:
        return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
    try:
        broker.group_configs.check(configs)
    except StorageError as error:
        return error.code, error.message
    return Planned(name, broker.group_configs.own(name), configs)


def _planned_subscription(broker: Broker, name: str, configs: dict[str, str]) -> Outcome | Planned:
    """Check the new configs of a subscription to client metrics."""
    try:
        check(name, configs)
    except RefusedError as error:
        return ErrorCode.INVALID_REQUEST, str(error)
    except StorageError as error:
        return error.code, error.message
    return Planned(SubscriptionName(name), broker.telemetry.configs.own(name), configs)


def _fixed(
    broker: Broker, kind: int, name: str, configs: Sequence[GivenConfig | AlterableConfig]
) -> Generator[None, None, Outcome]:
    """What has no configs that can change; there is nothing to remove of them either."""
    if kind == BROKER and name:
        error = _node_error(broker, name, "Unexpected broker id, expected {}, but received {}")
        if error is not None:
            return error
    if kind != BROKER:
        return _unknown(kind)
    set_ones = _Listed()
    for one in configs:
        yield
        operation = getattr(one, "config_operation", Operation.SET)
        if operation in (Operation.APPEND, Operation.SUBTRACT) and not _is_list(one.name):
            done = Operation(operation).name.lower()
            reason = f"Config value {done} is not allowed for config key: {one.name}"
            return ErrorCode.INVALID_CONFIG, reason
        if operation != Operation.DELETE:
            set_ones.add(one.name)
    if not set_ones.names:
        return DONE
    return ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{set_ones}]"


def _is_list(name: str) -> bool:
    """Whether a setting of the broker is a list."""
    setting = SETTINGS.get(name)
    return setting is not None and setting.kind is Kind.LIST


def _logger_error(
    broker: Broker, name: str, changes: Sequence[AlterableConfig]
) -> Generator[None, None, Outcome]:
    error = _node_error(broker, name, "Unexpected node id. Expected {}, but received {}")
    for one in changes if error is None else ():
        yield
        if one.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(one.config_operation).name
            reason = f"{operation} operation is not allowed for the BROKER_LOGGER resource"
            return ErrorCode.INVALID_REQUEST, reason
    if error is None and changes:
        return ErrorCode.INVALID_CONFIG, f"Logger {changes[0].name} does not exist!"
    return error or DONE


def _node_error(broker: Broker, name: str, unexpected: str) -> Outcome | None:
    try:
        node_id = int(name)
    except ValueError:
        return ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
    if node_id == broker.node_id:
        return None
    return ErrorCode.INVALID_REQUEST, unexpected.format(broker.node_id, node_id)


def _unknown(kind: int) -> Outcome:
    return ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}"
