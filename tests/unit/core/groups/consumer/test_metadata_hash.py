"""The metadata hash of the subscribed topics, compared with Kafka's numbers."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.settings import NoTopics
from coordinator_server.steps import run_all
from tests.unit.core.groups.consumer.context import ConsumerContext
from tests.unit.core.groups.consumer.hashed_topics import CASES, ONE, TWO, Hashed, HashedTopics


@pytest.mark.parametrize("case", CASES)
def test_the_hashes_are_kafkas(case: Hashed) -> None:
    """The metadata hash covers ids, names, partition counts and racks, in any order."""
    names = [one.name for one in case.topics]
    topics = HashedTopics(case.topics, case.racks)
    assert run_all(metadata_hash(names, topics)) == case.hashed
    assert run_all(metadata_hash([*reversed(names), names[0]], topics)) == case.hashed


def test_topics_that_do_not_exist_do_not_count() -> None:
    """Nonexistent topics do not change the metadata hash; the hash without topics is 0."""
    nothing = NoTopics()
    assert run_all(metadata_hash(["nowhere"], nothing)) == 0
    assert [*nothing.listed_topics()] == []
    assert nothing.topic_by_id(ONE.topic_id) is None
    topics = HashedTopics([ONE, TWO])
    assert run_all(metadata_hash(["nowhere", "one"], topics)) == CASES[0].hashed


def test_a_rack_raises_the_epoch_of_a_group() -> None:
    """Another `broker.rack` after a restart changes the hash and raises the epoch."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.broker.topics.racks[1] = "r"
    context.broker.crash()
    context.reconcile(a)
    assert context.epochs == (3, 3)
    context.check()
