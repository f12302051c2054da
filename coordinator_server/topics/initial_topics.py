"""The topics of the setting create.topics, which exist once the broker has started.

The form is that of KAFKA_CREATE_TOPICS in wurstmeister/kafka: orders:3:1,audit:1:1:compact.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from coordinator_server.config.config import ConfigError
from coordinator_server.topics.names import collision_key, name_error
from coordinator_server.topics.topic_configs import configs_error
from storage.errors import TopicConfigError

if TYPE_CHECKING:
    from coordinator_server.config.config import Config

_SETTING = "create.topics"
_MAX_PARTITIONS = 10_000  # the limit of CreateTopics for one topic
_TOPIC = re.compile(
    r"(?P<name>[^:]*):(?P<partitions>[0-9]+):(?P<factor>[0-9]+)(?::(?P<policy>[^:\s]*))?"
    r"(?P<configs>(?:\s+--config[=\s]\s*[^=\s]+=\S*)*)\s*"
)
_CONFIG = re.compile(r"--config[=\s]\s*([^=\s]+)=(\S*)")


class InitialTopic(NamedTuple):
    """A topic of create.topics; `factor` is the replication factor in the setting."""

    name: str
    partitions: int
    factor: int
    configs: dict[str, str]


def parse_initial_topics(config: Config) -> list[InitialTopic]:
    """Return the topics of create.topics. Raises ConfigError."""
    separators = re.escape(config.text("create.topics.separator"))
    texts = re.split(
        rf"[{separators}\r\n]|(?<!--config)\s+(?!--)", config.optional_text(_SETTING) or ""
    )
    topics: dict[str, InitialTopic] = {}
    for text in texts:
        if text.strip():
            topic = _parse(config, text)
            other = topics.setdefault(collision_key(topic.name), topic)
            if other.name != topic.name:
                refuse(config, f"{text.strip()!r}: its name collides with that of {other.name}")
            if other != topic:
                refuse(config, f"{text.strip()!r}: {topic.name} is there twice, with other values")
    return list(topics.values())


def initial_topic_doubts(config: Config) -> list[str]:
    """Return a warning about topics whose replication factor exceeds the number of brokers."""
    count = config.integer("broker.count")
    names = [topic.name for topic in parse_initial_topics(config) if topic.factor > count]
    if not names:
        return []
    return [
        f"{_written_as(config)}: {', '.join(names)} cannot have more replicas than the "
        f"{count} broker(s) here and get so many; broker.count=N gives N brokers"
    ]


def refuse(config: Config, problem: str) -> NoReturn:
    """Raise ConfigError with the problem and the name by which the user gave the setting."""
    raise ConfigError(f"{_written_as(config)}: {problem}")


def _parse(config: Config, text: str) -> InitialTopic:
    match = _TOPIC.fullmatch(text)
    if match is None:
        refuse(config, f"{text.strip()!r} is not NAME:PARTITIONS:REPLICAS[:CLEANUP.POLICY]")
    topic = InitialTopic(
        match["name"].strip(),
        int(match["partitions"]),
        int(match["factor"]),
        dict(_CONFIG.findall(match["configs"])),
    )
    if match["policy"]:
        topic.configs["cleanup.policy"] = match["policy"]
    try:
        problem = name_error(topic.name) or configs_error(config, topic.configs.items())
    except TopicConfigError as error:
        problem = error.message
    if not 0 < topic.partitions <= _MAX_PARTITIONS:
        problem = f"it can have 1 to {_MAX_PARTITIONS} partitions"
    elif not 0 < topic.factor < 2**15:
        problem = f"it can have 1 to {2**15 - 1} replicas"
    if problem is not None:
        refuse(config, f"{text.strip()!r}: {problem}")
    return topic


def _written_as(config: Config) -> str:
    """Return the name by which the user gave the setting."""
    is_variable = config.source(_SETTING) == "environment"
    return "KAFKA_CREATE_TOPICS" if is_variable else _SETTING
