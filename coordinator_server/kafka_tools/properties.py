"""Properties of the console tools: of files, of `name=value` options, of options' defaults."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_server.kafka_tools.frame import ToolError, read_properties
from coordinator_server.kafka_tools.options import Options

CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"


def key_values(texts: list[str]) -> dict[str, str]:
    """The properties of texts like name=value; without a value they are empty."""
    properties = {}
    for text in texts:
        name, _, value = text.partition("=")
        properties[name] = value
    return properties


def file_properties(options: Options, *names: str) -> dict[str, str]:
    """The properties of the file of the first of these options that is given. Raises ToolError."""
    for name in names:
        if options.has(name):
            return read_properties(options.value(name) or "")
    return {}


def merge_option(properties: dict[str, str], name: str, options: Options, option: str) -> None:
    """Take an option's value when it is given, its default when the property is not."""
    if options.has(option) or name not in properties:
        value = options.value(option)
        if value is None:
            properties.pop(name, None)
        else:
            properties[name] = value


def number(properties: Mapping[str, str], name: str, default: int, kind: str = "INT") -> int:
    """A property as a number. Raises ToolError with the words of Kafka's ConfigException."""
    text = properties.get(name, str(default)).strip()
    try:
        return int(text)
    except ValueError:
        message = f"Invalid value {text} for configuration {name}: Not a number of type {kind}"
        raise ToolError(CONFIG_EXCEPTION, message) from None


def choice(properties: Mapping[str, str], name: str, default: str, *values: str) -> str:
    """A property that is one of some values. Raises ToolError as Kafka's ConfigException."""
    text = properties.get(name, default)
    if text not in values:
        message = f"String must be one of: {', '.join(values)}"
        raise ToolError(
            CONFIG_EXCEPTION, f"Invalid value {text} for configuration {name}: {message}"
        )
    return text
