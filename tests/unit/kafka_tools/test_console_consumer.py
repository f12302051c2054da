"""kafka-console-consumer: errors whose order Kafka takes from a hash table."""

from __future__ import annotations

from tests.scripts.player import ours


def test_two_names_of_the_group_contradict_each_other() -> None:
    """The group may be given in several places, but only with one name."""
    line = ["--bootstrap-server", "h:1", "--topic", "t", "--group", "b"]
    done = ours("kafka-console-consumer", [*line, "--command-property", "group.id=a"])
    assert done.code == 1
    assert done.err.splitlines()[0] == (
        "The group ids provided in different places (directly using '--group', via"
        " '--consumer-property', or via '--consumer.config') do not match. Detected group ids:"
        " 'a', 'b'"
    )
