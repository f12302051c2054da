"""Changing configs while the broker runs: which change is allowed, and what comes of it.

Topics can be changed. The settings of a broker cannot: they come from its command line and its
file. Orders of the checks and texts are those of Kafka (ConfigAdminManager and
ConfigurationControlManager), as its answers show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.topics.names import name_error
from coordinator_server.topics.topic_configs import configs_error
from protocol.errors import ErrorCode
from storage.config_def import Kind, render
from storage.errors import StorageError
from storage.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.config.config import Config

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
GROUP = 32

Outcome = tuple[int, str | None]
"""Error code and its text; (0, None) for a change that is made, or might be."""

DONE: Outcome = (ErrorCode.NONE, None)
TWICE: Outcome = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


class Operation(IntEnum):
    """What is done to a config (Kafka's AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one config."""

    name: str
    operation: int
    value: str | None


def change(
    broker: Broker, kind: int, name: str, changes: Sequence[Change], *, validate_only: bool
) -> Outcome:
    """Apply changes to what a resource has of its own (IncrementalAlterConfigs)."""
    if len({one.name for one in changes}) < len(changes):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    refused = _null_error(one.name for one in changes if one.operation != 1 and one.value is None)
    if refused is not None:
        return refused
    if any(one.operation not in tuple(Operation) for one in changes):
        return ErrorCode.UNKNOWN_SERVER_ERROR, None
    if kind == TOPIC:
        topic = broker.topics.topic(name)
        configs = {} if topic is None else dict(topic.configs)
        for one in changes:
            refused = _apply(broker.config, configs, one)
            if refused is not None:
                return refused
        return _give(broker, name, configs, validate_only=validate_only)
    if kind == BROKER_LOGGER:
        return _logger_error(broker, name, changes)
    return _fixed(broker, kind, name, [one.name for one in changes])


def replace(
    broker: Broker,
    kind: int,
    name: str,
    configs: Sequence[tuple[str, str | None]],
    *,
    validate_only: bool,
) -> Outcome:
    """Give a resource these configs of its own, and no others (AlterConfigs)."""
    given = {config: value for config, value in configs if value is not None}
    if len({config for config, _ in configs}) < len(configs):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    refused = _null_error(config for config, value in configs if value is None)
    if refused is not None:
        return refused
    if kind == TOPIC:
        return _give(broker, name, given, validate_only=validate_only)
    if kind == BROKER_LOGGER:
        return _unknown(kind)
    return _fixed(broker, kind, name, list(given))


def _null_error(names: Iterable[str]) -> Outcome | None:
    nulls = list(names)
    if not nulls:
        return None
    return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"


def _apply(config: Config, configs: dict[str, str], one: Change) -> Outcome | None:
    """Apply one change to a topic's own configs; why it cannot be."""
    if one.operation == Operation.DELETE:
        configs.pop(one.name, None)
        return None
    assert one.value is not None
    row = TOPIC_SETTINGS.get(one.name)
    is_list = row is not None and row.setting.kind is Kind.LIST
    if one.operation == Operation.SET:
        configs[one.name] = ",".join(_items(one.value)) if is_list else one.value.strip()
        return None
    operation = Operation(one.operation)
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


def _give(broker: Broker, name: str, configs: dict[str, str], *, validate_only: bool) -> Outcome:
    """Check a topic's new configs, and set them unless that was all."""
    if not name:
        return ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."
    message = name_error(name)
    if message is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, message
    try:
        message = configs_error(broker.config, configs.items())
        if message is not None:
            return ErrorCode.INVALID_CONFIG, message
        topic = broker.topics.topic(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        if not validate_only:
            broker.topics.set_configs(topic, configs)
    except StorageError as error:
        return error.code, error.message
    return DONE


def _fixed(broker: Broker, kind: int, name: str, names: Sequence[str]) -> Outcome:
    """What has no configs that can change."""
    if kind == GROUP and not name:
        return ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
    if kind == BROKER and name:
        error = _node_error(broker, name, "Unexpected broker id, expected {}, but received {}")
        if error is not None:
            return error
    if kind not in (BROKER, GROUP):
        return _unknown(kind)
    if not names:
        return DONE
    listed = ", ".join(names)
    return ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{listed}]"


def _logger_error(broker: Broker, name: str, changes: Sequence[Change]) -> Outcome:
    error = _node_error(broker, name, "Unexpected node id. Expected {}, but received {}")
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
