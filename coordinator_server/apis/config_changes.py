"""Validates config changes and computes their result.

Configs of topics, groups, client metrics and brokers can be changed; `config.dynamic_checks`
defines which broker configs are dynamic. The order of checks and the error messages are Kafka's
(ConfigAdminManager and ConfigurationControlManager).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.client_metrics import (
    CLIENT_METRICS_SETTINGS,
    RefusedConfigsError,
    check,
)
from coordinator_server.config.dynamic_settings import MIN_IN_SYNC, java_integer, setting_of
from coordinator_server.config.group_settings import GROUP_SETTINGS
from coordinator_server.events.log import KAFKA_LEVELS, LOG, ROOT_LOGGER
from coordinator_server.topics.config_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigOperation,
    list_error,
)
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from coordinator_server.topics.names import name_error
from coordinator_server.topics.topic import Topic
from coordinator_server.topics.topic_configs import condensed, configs_error
from protocol.errors import ErrorCode
from storage.config_def import Kind, render
from storage.errors import StorageError
from storage.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.config.config import Config
    from protocol.apis.alter_configs import AlterableConfig as GivenConfig
    from protocol.apis.incremental_alter_configs import AlterableConfig

_KNOWN_SETTINGS: dict[int, Collection[str]] = {
    TOPIC: TOPIC_SETTINGS,
    GROUP: GROUP_SETTINGS,
    CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
}
"""The valid config names by resource type."""

GroupId = str


class BrokerName(NamedTuple):
    """The resource name of a broker; "" means all brokers."""

    name: str


Outcome = tuple[int, str | None]
"""Error code and message; (0, None) if the change is valid or was made."""

DONE: Outcome = (ErrorCode.NONE, None)

_VALUE_CHARACTERS = 32_767
TOO_LONG: Outcome = (
    ErrorCode.INVALID_CONFIG,
    "The configuration value cannot be added because it exceeds the maximum value size of "
    f"{_VALUE_CHARACTERS} bytes.",
)


_OPERATIONS = frozenset(ConfigOperation)


class SubscriptionName(NamedTuple):
    """The name of a client metrics subscription."""

    name: str


class Planned(NamedTuple):
    """A validated change of a resource: its new `configs`, and its configs `before` the change.

    The resource is `target`; None means the logger of the process.
    """

    target: Topic | GroupId | SubscriptionName | BrokerName | None
    before: Mapping[str, str]
    configs: dict[str, str]

    def is_current(self, broker: Broker) -> bool:
        """Return whether the resource still has the configs `before`; a topic must still exist."""
        if self.target is None:
            return self.before == {ROOT_LOGGER: LOG.kafka_level}
        if isinstance(self.target, BrokerName):
            return broker.dynamic_configs.own(self.target.name) == self.before
        if isinstance(self.target, SubscriptionName):
            return broker.telemetry.configs.own(self.target.name) == self.before
        if isinstance(self.target, str):
            return broker.group_configs.own(self.target) == self.before
        is_there = broker.topics.topic(self.target.name) is self.target
        return is_there and self.target.configs is self.before


def change(
    broker: Broker, kind: int, name: str, changes: Sequence[AlterableConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Validate incremental changes of a resource's configs (IncrementalAlterConfigs)."""
    refused = yield from list_error(
        (change.name, change.config_operation != ConfigOperation.DELETE and change.value is None)
        for change in changes
    )
    if refused is not None:
        return refused
    for change in changes:
        if change.config_operation not in _OPERATIONS:
            if kind == BROKER:
                reason = f"Unknown operations type {change.config_operation}"
                return ErrorCode.INVALID_REQUEST, reason
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
        for change in changes:
            yield
            if change.name not in known:
                if has_unknown:
                    # One unknown name is enough to refuse the change; skip further names, because a
                    # request may have millions.
                    continue
                has_unknown = change.config_operation == ConfigOperation.SET
            refused = _apply(broker.config, configs, change, is_of_topic=kind != CLIENT_METRICS)
            if refused is not None:
                return refused
        if kind == GROUP:
            return _planned_group(broker, name, configs, before)
        if kind == CLIENT_METRICS:
            return _planned_subscription(broker, name, configs, before)
        return _planned(broker, name, configs, before)
    if kind == BROKER_LOGGER:
        return (yield from _change_logger(broker, name, changes))
    if kind == BROKER:
        return (yield from _change_broker(broker, name, changes))
    return _unknown(kind)


def replace(
    broker: Broker, kind: int, name: str, configs: Sequence[GivenConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Validate the replacement of all configs of a resource (AlterConfigs)."""
    refused = yield from list_error((config.name, config.value is None) for config in configs)
    if refused is not None:
        return refused
    if kind == TOPIC:
        given = yield from condensed((config.name, config.value) for config in configs)
        own = {config: value for config, value in given if value is not None}
        return _planned(broker, name, own)
    if kind in (GROUP, CLIENT_METRICS):
        own = {config.name: config.value for config in configs if config.value is not None}
        if kind == GROUP:
            return _planned_group(broker, name, own, broker.group_configs.own(name))
        before = broker.telemetry.configs.own(name)
        return _planned_subscription(broker, name, own, before)
    if kind == BROKER:
        return (yield from _replace_broker(broker, name, configs))
    return _unknown(kind)


def _apply(
    config: Config, configs: dict[str, str], change: AlterableConfig, *, is_of_topic: bool
) -> Outcome | None:
    """Apply one change to a resource's configs; return the error, or None.

    Only lists accept APPEND and SUBTRACT. With `is_of_topic`, also for a group config, the type is
    the type of the topic config with the same name. As in Kafka, client metrics configs have no
    type.
    """
    if change.config_operation == ConfigOperation.DELETE:
        configs.pop(change.name, None)
        return None
    assert change.value is not None
    row = TOPIC_SETTINGS.get(change.name) if is_of_topic else None
    is_list = row is not None and row.setting.kind is Kind.LIST
    if change.config_operation == ConfigOperation.SET:
        configs[change.name] = ",".join(_items(change.value)) if is_list else change.value.strip()
        return None
    operation = ConfigOperation(change.config_operation)
    if not is_list:
        reason = f"Can't {operation.name} to key {change.name} because its type is not LIST."
        return ErrorCode.INVALID_CONFIG, reason
    current = configs.get(change.name, render(config.topic_default(change.name)) or "")
    configs[change.name] = _combined(operation, current, change.value)
    return None


def _combined(operation: ConfigOperation, current: str, given: str) -> str:
    """Return the list `current` after APPEND or SUBTRACT of the items in `given`."""
    items, named = _items(current) if current else [], _items(given)
    if operation is ConfigOperation.APPEND:
        items += [item for item in dict.fromkeys(named) if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _planned(
    broker: Broker, name: str, configs: dict[str, str], before: Mapping[str, str] | None = None
) -> Outcome | Planned:
    """Validate a topic's new configs.

    `before` has the configs before the change; None means the topic's current configs.
    """
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


def _planned_group(
    broker: Broker, name: GroupId, configs: dict[str, str], before: Mapping[str, str]
) -> Outcome | Planned:
    """Validate a group's new configs; the group need not exist."""
    if not name:
        return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
    try:
        broker.group_configs.check(configs)
    except StorageError as error:
        return error.code, error.message
    return Planned(name, before, configs)


def _planned_subscription(
    broker: Broker, name: str, configs: dict[str, str], before: Mapping[str, str]
) -> Outcome | Planned:
    """Validate the new configs of a client metrics subscription."""
    try:
        check(name, configs)
    except RefusedConfigsError as error:
        return ErrorCode.INVALID_REQUEST, str(error)
    except StorageError as error:
        return error.code, error.message
    return Planned(SubscriptionName(name), before, configs)


def _change_broker(
    broker: Broker, name: str, changes: Sequence[AlterableConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Validate incremental changes of the dynamic configs of a broker, or of all brokers."""
    error = _broker_error(broker, name)
    if error is not None:
        return error
    before = broker.dynamic_configs.own(name)
    configs = dict(before)
    for change in changes:
        yield
        if change.config_operation == ConfigOperation.DELETE:
            configs.pop(change.name, None)
            continue
        assert change.value is not None
        if change.config_operation == ConfigOperation.SET:
            configs[change.name] = change.value
            continue
        operation = ConfigOperation(change.config_operation)
        setting = setting_of(change.name)
        if setting is None:
            return ErrorCode.INVALID_CONFIG, f"Unknown config name: {change.name}"
        if setting.kind is not Kind.LIST:
            done = operation.name.lower()
            reason = f"Config value {done} is not allowed for config key: {change.name}"
            return ErrorCode.INVALID_CONFIG, reason
        given = broker.config.static_value(setting.name)
        current = configs.get(change.name, render(given)) or ""
        added = [item for item in _items(change.value) if item not in _items(current)]
        if operation is ConfigOperation.APPEND and len(set(added)) < len(added):
            reason = f"Configuration '{change.name}' values must not be duplicated."
            return ErrorCode.INVALID_REQUEST, reason
        configs[change.name] = _combined(operation, current, change.value)
    touches_min_in_sync = any(change.name == MIN_IN_SYNC for change in changes)
    return (yield from _planned_broker(broker, name, configs, before, touches_min_in_sync))


def _replace_broker(
    broker: Broker, name: str, given: Sequence[GivenConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Validate the replacement of the dynamic configs of a broker, or of all brokers."""
    error = _broker_error(broker, name)
    if error is not None:
        return error
    configs = {}
    for config in given:
        if config.value is not None:
            configs[config.name] = config.value
        yield
    before = broker.dynamic_configs.own(name)
    return (yield from _planned_broker(broker, name, configs, before, MIN_IN_SYNC in configs))


def _planned_broker(
    broker: Broker,
    name: str,
    configs: dict[str, str],
    before: Mapping[str, str],
    touches_min_in_sync: bool,
) -> Generator[None, None, Outcome | Planned]:
    """Validate the new dynamic configs of a broker; skip value checks for too many configs."""
    if len(configs) <= len(before) + MAX_RECORDS_PER_REQUEST:
        checked = {key: text for key, text in configs.items() if not is_too_long(text)}
        problem = yield from broker.dynamic_configs.error(broker.node_id, name, checked)
        if problem is not None:
            return ErrorCode.INVALID_REQUEST, problem
    if name and touches_min_in_sync:
        reason = f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled."
        return ErrorCode.INVALID_CONFIG, reason
    if not name and MIN_IN_SYNC not in configs:
        reason = f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled."
        return ErrorCode.INVALID_CONFIG, reason
    return Planned(BrokerName(name), before, configs)


def is_too_long(text: str) -> bool:
    """Return whether a value has more UTF-16 code units than Kafka's controller accepts."""
    if len(text) * 2 <= _VALUE_CHARACTERS or len(text) > _VALUE_CHARACTERS:
        return len(text) > _VALUE_CHARACTERS
    return len(text) + sum(character > "\uffff" for character in text) > _VALUE_CHARACTERS


def _broker_error(broker: Broker, name: str) -> Outcome | None:
    if not name:
        return None
    return _node_error(broker, name, "Unexpected broker id, expected {}, but received {}")


def _change_logger(
    broker: Broker, name: str, changes: Sequence[AlterableConfig]
) -> Generator[None, None, Outcome | Planned]:
    """Validate changes of log levels. Log levels are not kept across restarts."""
    error = _node_error(broker, name, "Unexpected node id. Expected {}, but received {}")
    if error is not None:
        return error
    levels = {ROOT_LOGGER: LOG.kafka_level}
    before = dict(levels)
    for change in changes:
        yield
        if change.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            operation = ConfigOperation(change.config_operation).name
            reason = f"{operation} operation is not allowed for the BROKER_LOGGER resource"
            return ErrorCode.INVALID_REQUEST, reason
        if change.name != ROOT_LOGGER:
            return ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!"
        if change.config_operation == ConfigOperation.DELETE:
            reason = "Removing the log level of the root logger is not allowed"
            return ErrorCode.INVALID_REQUEST, reason
        assert change.value is not None
        if change.value not in KAFKA_LEVELS:
            reason = (
                f"Cannot set the log level of {change.name} to {change.value} as it is not a "
                f"supported log level. Valid log levels are {', '.join(KAFKA_LEVELS)}"
            )
            return ErrorCode.INVALID_CONFIG, reason
        levels[change.name] = change.value
    return Planned(None, before, levels)


def _node_error(broker: Broker, name: str, unexpected: str) -> Outcome | None:
    node_id = java_integer(name)
    if node_id is None:
        return ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
    if node_id == broker.node_id:
        return None
    return ErrorCode.INVALID_REQUEST, unexpected.format(broker.node_id, node_id)


def _unknown(kind: int) -> Outcome:
    return ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}"
