"""Properties of the console tools, from files, `name=value` options and option defaults."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_server.kafka_tools.frame import ToolError, read_properties
from coordinator_server.kafka_tools.options import Options

CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"


def key_values(texts: list[str]) -> dict[str, str]:
    """Parse texts of the form name=value; a text without a value gives an empty value."""
    properties = {}
    for text in texts:
        name, _, value = text.partition("=")
        properties[name] = value
    return properties


def file_properties(options: Options, *names: str) -> dict[str, str]:
    """Return the properties of the file named by the first of these options that is given.

    Raises ToolError.
    """
    for name in names:
        if options.has(name):
            return read_properties(options.value(name) or "")
    return {}


def merge_option(properties: dict[str, str], name: str, options: Options, option: str) -> None:
    """Set a property to the option's value if given, or to the option's default if unset."""
    if options.has(option) or name not in properties:
        value = options.value(option)
        if value is None:
            properties.pop(name, None)
        else:
            properties[name] = value


def number(properties: Mapping[str, str], name: str, default: int, kind: str = "INT") -> int:
    """Return a property as a number.

    Raises ToolError with the message of Kafka's ConfigException.
    """
    text = properties.get(name, str(default)).strip()
    try:
        return int(text)
    except ValueError:
        message = f"Invalid value {text} for configuration {name}: Not a number of type {kind}"
        raise ToolError(CONFIG_EXCEPTION, message) from None


def choice(properties: Mapping[str, str], name: str, default: str, *values: str) -> str:
    """Return a property that must be one of `values`.

    Raises ToolError with the message of Kafka's ConfigException.
    """
    text = properties.get(name, default)
    if text not in values:
        message = f"String must be one of: {', '.join(values)}"
        raise ToolError(
            CONFIG_EXCEPTION, f"Invalid value {text} for configuration {name}: {message}"
        )
    return text
