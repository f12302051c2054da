"""Share and streams group tools: errors whose order Kafka takes from a set."""

from __future__ import annotations

import pytest

from tests.scripts.player import ours

SERVER = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("kafka-share-groups", "Dead, Empty, Stable"),
        ("kafka-streams-groups", "Assigning, Dead, Empty, NotReady, Reconciling, Stable"),
    ],
)
def test_a_state_that_a_group_of_the_kind_cannot_have_is_refused(name: str, states: str) -> None:
    """A state that no group of this kind can have, such as PreparingRebalance, is refused."""
    done = ours(name, [*SERVER, "--list", "--state", "Empty,PreparingRebalance"])
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[0] == (
        f"Invalid state list 'Empty,PreparingRebalance'. Valid states are: {states}"
    )


def test_two_names_of_the_share_group_contradict_each_other() -> None:
    """The group may be given in several places, but only with one name."""
    line = [*SERVER, "--topic", "t", "--group", "b", "--command-property", "group.id=a"]
    done = ours("kafka-console-share-consumer", line)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[0] == (
        "The group ids provided in different places (directly using '--group', via"
        " '--consumer-property', or via '--consumer-config') do not match. Detected group ids:"
        " 'a', 'b'"
    )
