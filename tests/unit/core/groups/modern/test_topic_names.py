"""The topic names of a member, of which there may be very many."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.modern.members import RefusedError, topic_names
from coordinator_server.core.groups.settings import (
    DEFAULT_WRITE_BYTES,
    GroupEnvironment,
    GroupSettings,
)
from coordinator_server.steps import run_all
from protocol.errors import ErrorCode


def a_group() -> ConsumerGroup:
    """Return a group without members."""
    return ConsumerGroup("g", GroupEnvironment(GroupSettings(), str, str, in_place_of))


@pytest.mark.parametrize("count", [0, 1, STEP_ITEMS, STEP_ITEMS + 1, 12 * STEP_ITEMS + 7])
def test_names_are_put_in_order(count: int) -> None:
    """The topic names of a member are sorted and stored once, however many there are."""
    names = [f"topic-{number}" for number in range(count)]
    mixed = names + names[: count // 2]
    random.Random(count).shuffle(mixed)
    assert run_all(topic_names(a_group(), mixed)) == tuple(sorted(names))


def test_many_names_take_many_steps() -> None:
    """Many names are processed in many steps, so that another connection waits for one step."""
    names = [f"topic-{number}" for number in range(20 * STEP_ITEMS)]
    assert len(list(topic_names(a_group(), names))) >= 20


def test_more_names_than_a_record_holds() -> None:
    """More names than fit into a record are refused early, with the log's error."""
    names = [f"topic-{number}" for number in range(DEFAULT_WRITE_BYTES)]
    steps = islice(topic_names(a_group(), names), len(names) // STEP_ITEMS // 5)
    with pytest.raises(RefusedError) as refused:
        list(steps)
    assert refused.value.error is ErrorCode.UNKNOWN_SERVER_ERROR
