"""The setting create.topics: its format, and the created topics."""

from __future__ import annotations

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.topics.initial_topics import (
    InitialTopic,
    initial_topic_doubts,
    parse_initial_topics,
)
from tests.harness.broker import MemoryBroker
from tests.harness.nodes import Nodes


def config(text: str, separator: str = ",", **more: str) -> Config:
    """Return a configuration with KAFKA_CREATE_TOPICS, a variable of wurstmeister's image."""
    variables = {"KAFKA_CREATE_TOPICS": text, "KAFKA_CREATE_TOPICS_SEPARATOR": separator}
    return Config(environment=variables, overrides=more)


ORDERS = InitialTopic("orders", 3, 1, {})
AUDIT = InitialTopic("audit", 1, 2, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("text", "separator", "topics"),
    [
        ("orders:3:1,audit:1:2:compact", ",", [ORDERS, AUDIT]),
        (" orders:3:1, audit:1:2:compact,", ",", [ORDERS, AUDIT]),
        ("orders:3:1;audit:1:2:compact", ";", [ORDERS, AUDIT]),
        ("orders:3:1\naudit:1:2:compact\n", "$'\n'", [ORDERS, AUDIT]),
        ("orders:3:1\naudit:1:2:compact\n", "\n", [ORDERS, AUDIT]),
        ("orders:3:1 audit:1:2:compact", " ", [ORDERS, AUDIT]),
        ("orders:3:1: ", ",", [ORDERS]),
        ("orders:3:1,orders:3:1", ",", [ORDERS]),
        (
            "a:1:1:compact --config=segment.ms=5 --config retention.ms=7,orders:3:1",
            ",",
            [
                InitialTopic(
                    "a",
                    1,
                    1,
                    {"segment.ms": "5", "retention.ms": "7", "cleanup.policy": "compact"},
                ),
                ORDERS,
            ],
        ),
        ("", ",", []),
    ],
)
def test_topics_of_the_setting(text: str, separator: str, topics: list[InitialTopic]) -> None:
    """Every character of KAFKA_CREATE_TOPICS_SEPARATOR separates topics, as in a shell's IFS."""
    assert parse_initial_topics(config(text, separator)) == topics


FORM = " is not NAME:PARTITIONS:REPLICAS[:CLEANUP.POLICY]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("orders", "'orders'" + FORM),
        ("orders:3", "'orders:3'" + FORM),
        ("orders:x:1", "'orders:x:1'" + FORM),
        ("orders:-1:1", "'orders:-1:1'" + FORM),
        ("orders:1:1:compact:x", "'orders:1:1:compact:x'" + FORM),
        (":1:1", "':1:1': Topic name is invalid: the empty string is not allowed"),
        ("a/b:1:1", "'a/b:1:1': Topic name is invalid"),
        ("orders:0:1", "'orders:0:1': it can have 1 to 10000 partitions"),
        ("orders:10001:1", "'orders:10001:1': it can have 1 to 10000 partitions"),
        ("orders:1:0", "'orders:1:0': it can have 1 to 32767 replicas"),
        ("a.b:1:1,a_b:1:1", "'a_b:1:1': its name collides with that of a.b"),
        ("a:1:1,a:2:1", "'a:2:1': a is there twice, with other values"),
        ("orders:1:1:nonsense", "'orders:1:1:nonsense': Invalid value nonsense"),
        ("orders:1:1:compact --config a=b", "'orders:1:1:compact --config a=b': Unknown topic"),
    ],
)
def test_entries_that_are_refused(text: str, problem: str) -> None:
    """The error for an invalid entry has the variable and the entry."""
    with pytest.raises(ConfigError) as caught:
        parse_initial_topics(config(text))
    assert str(caught.value).startswith(f"KAFKA_CREATE_TOPICS: {problem}")
    with pytest.raises(ConfigError, match=r"^create\.topics: "):
        parse_initial_topics(Config(overrides={"create.topics": text}))


def test_too_many_replicas_are_one_warning() -> None:
    """Too many replicas give one warning that names the topics; enough brokers give none."""
    text = "orders:3:1,audit:1:2,log:1:3"
    (doubt,) = initial_topic_doubts(config(text))
    assert doubt.startswith("KAFKA_CREATE_TOPICS: audit, log cannot have more replicas than the 1")
    assert initial_topic_doubts(config(text, **{"broker.count": "3"})) == []


async def test_no_topic_is_created_if_one_is_refused() -> None:
    """If a name collides with an existing topic, the start fails and no topic is created."""
    before = Nodes(create_topics="a.b:1:1")
    await before.cluster.stop()
    nodes = MemoryBroker(before.disk, starts=False, create_topics="new:1:1,a_b:1:1")
    with pytest.raises(ConfigError, match=r"^create\.topics: .*'a_b' collides.*: a\.b"):
        nodes.cluster.start()
    assert nodes.cluster.topics.topic("new") is None
