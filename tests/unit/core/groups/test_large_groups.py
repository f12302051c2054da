"""Very large groups: stepwise computations give the same results."""

from __future__ import annotations

import random

import pytest

from coordinator_server.core.groups.consumer import leaving, upgrade
from coordinator_server.core.groups.effects import PER_MEMBER, STEP_ITEMS, Effects, Pace
from coordinator_server.core.groups.modern.assignor_spec import GroupSpec, MemberSpec
from coordinator_server.core.groups.share import leaving as share_leaving
from coordinator_server.core.groups.share.share_group import ShareGroup
from coordinator_server.core.groups.streams.assignors import spec as tasks
from coordinator_server.core.groups.streams.assignors.sticky import sticky
from coordinator_server.steps import run_all
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.consumer.assignors.evolving import OURS
from tests.unit.core.groups.consumer.context import ConsumerContext
from tests.unit.core.groups.consumer.migration import MigrationContext
from tests.unit.core.groups.share.context import ShareContext
from tests.unit.core.groups.streams.context import (
    StreamsContext,
)

MANY = {f"t{number}": 1 for number in range(STEP_ITEMS + 1)}
WIDE = {f"w{number}": 60 for number in range(30)}


def test_a_pace_is_due_when_enough_is_done() -> None:
    """A pause is due after many small items or one large item."""
    pace = Pace()
    assert [pace.is_due() for _ in range(STEP_ITEMS + 1)].index(True) == STEP_ITEMS - 1
    assert pace.is_due(STEP_ITEMS)
    assert not pace.is_due()


@pytest.mark.parametrize("is_homogeneous", [True, False])
@pytest.mark.parametrize("assignor", OURS)
def test_assignors_pause(assignor: str, is_homogeneous: bool) -> None:
    """Assignors pause inside a member's share and lose nothing between the steps."""
    chosen = random.Random(1)
    counts = {number.to_bytes(16, "big"): 1 + number % 5 for number in range(2000)}
    read = [frozenset(counts)] * 6
    if not is_homogeneous:
        read = [frozenset(chosen.sample(sorted(counts), 1500)) for _ in read]
        read.append(frozenset(counts))
    members = {str(number): MemberSpec(topics, {}) for number, topics in enumerate(read)}
    every = {topic_id: frozenset(range(count)) for topic_id, count in counts.items()}
    for _ in range(2):
        steps = OURS[assignor](GroupSpec(members, counts, is_homogeneous, every))
        assert next(steps) is None
        assignment = run_all(steps)
        for topic_id, partitions in every.items():
            owned = [one[topic_id] for one in assignment.values() if topic_id in one]
            assert frozenset().union(*owned) == partitions
            if assignor != "simple":
                assert sum(map(len, owned)) == len(partitions)
        members = {name: one._replace(partitions=assignment[name]) for name, one in members.items()}
        members.pop("0", None)


def test_the_task_assignor_pauses() -> None:
    """The task assignor pauses for active and standby tasks, of new and old members."""
    subtopologies = {str(number): tasks.Subtopology(700, is_stateful=True) for number in range(3)}
    members = {str(number): tasks.StreamsMemberSpec(f"p{number}") for number in range(4)}
    for _ in range(2):
        steps = sticky(tasks.StreamsGroupSpec(members, subtopologies, standby_replicas=1))
        assert next(steps) is None
        assignment = run_all(steps)
        active = [
            (one, partition)
            for owned in assignment.values()
            for one, partitions in owned.active.items()
            for partition in partitions
        ]
        assert len(active) == len(set(active)) == 3 * 700
        members = {name: tasks.StreamsMemberSpec(f"p{name}", assignment[name]) for name in members}


def test_a_consumer_group_of_very_many_topics() -> None:
    """The heartbeat is answered after its steps; other requests of the same group wait."""
    context = ConsumerContext(MANY)
    a, b = context.member("a", *MANY), context.member("b", *MANY)
    with context.broker.one_drain():
        first = a.join()
        second = b.send(member_epoch=0, subscribed_topic_names=["t0"], topic_partitions=[])
    assert first.error is ErrorCode.NONE
    assert len(first.response.assignment.topic_partitions) == len(MANY)
    assert second.error is ErrorCode.INVALID_REQUEST
    a.learn(first)
    assert b.join().error is ErrorCode.NONE
    assert len(context.group.targets["b"]) == len(MANY) // 2
    assert len(context.describe().members) == 2
    context.check()


def test_a_consumer_group_of_many_members() -> None:
    """Each of many members gets its share of a target that is computed in steps."""
    context = ConsumerContext(WIDE)
    for number in range(20):
        context.member(str(number), *WIDE).join()
    assert context.epochs == (21, 21)
    assert sum(len(one) for owned in context.group.targets.values() for one in owned.values()) == (
        30 * 60
    )
    context.check()


def test_an_expression_over_very_many_topics() -> None:
    """A pattern over very many topics is resolved in steps."""
    context = ConsumerContext(MANY)
    a = context.member("a", regex="t.*")
    assert a.join().error is ErrorCode.NONE
    context.broker.advance(1)
    assert len(context.group.resolved["t.*"].topics) == len(MANY)
    assert a.own() is ErrorCode.NONE
    assert len(context.group.currents["a"].assigned) == len(MANY)
    context.check()


def test_a_share_group_of_very_many_partitions() -> None:
    """Very many share partitions are assigned in steps, also with different subscriptions."""
    context = ShareContext({**WIDE, **MANY})
    members = [context.member(str(number), *list(WIDE)[number:]) for number in range(3)]
    members.append(context.member("many", *MANY))
    for _ in range(2):
        for member in members:
            assert member.join().error is ErrorCode.NONE
    assert len(context.group.targets["many"]) == len(MANY)
    assert len(context.describe().members) == 4
    context.check()


@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_a_streams_group_of_very_many_tasks(delay_ms: int) -> None:
    """Very many tasks are assigned in steps, by a heartbeat or at the end of the delay."""
    context = StreamsContext({"w": 2000}, streams_initial_rebalance_delay_ms=delay_ms)
    reads = topology(subtopology("0", "w"))
    for name in "ab":
        context.member(name, reads).join()
    context.broker.advance(delay_ms)
    targets = context.group.targets.values()
    assert sorted(len(one.active["0"]) for one in targets) == [1000, 1000]
    assert context.broker.any_group is not None
    assert context.broker.any_group.group_id == GROUP
    context.check()


@pytest.mark.parametrize("context_type", [ConsumerContext, ShareContext])
def test_members_of_very_many_topics_leave_and_are_fenced(
    context_type: type[ConsumerContext | ShareContext],
) -> None:
    """The remaining topics are hashed in steps when a member leaves or is fenced.

    The hash changes when the first member leaves, the only subscriber of one of the topics.
    """
    context = context_type(MANY)
    topics = list(MANY)
    members = [context.member(str(number), *topics[number:]) for number in range(3)]
    for member in members:
        assert member.join().error is ErrorCode.NONE
    group = context.group
    if isinstance(group, ShareGroup):
        steps = list(share_leaving.removal(group, group.members["1"]))
    else:
        steps = list(leaving.removal(group, (group.members["1"],), context.broker.now_ms))
    assert len(steps) >= 2
    hashed = context.group.metadata_hash
    assert members[1].leave() is ErrorCode.NONE
    assert context.group.metadata_hash == hashed
    assert members[0].leave() is ErrorCode.NONE
    assert context.group.metadata_hash != hashed
    context.broker.advance(context.group.settings.consumer_session_timeout_ms)
    assert context.group.state.value == "Empty"
    context.check()


def test_a_group_of_many_members_changes_its_protocol() -> None:
    """A group of many members changes its protocol and back in steps; members keep partitions."""
    many = STEP_ITEMS // PER_MEMBER + 1
    context = MigrationContext({"wide": many}, initial_rebalance_delay_ms=0, max_size=many + 1)
    context.stable({f"M{number}": {"wide": [number]} for number in range(many)})
    a = context.member("A", "three")
    steps = upgrade.convert(context.classic_group, Effects())
    assert len(list(steps)) >= 2
    assert a.join().error is ErrorCode.NONE
    assert context.group.member_count == many + 1
    assert len(list(leaving.removal(context.group, (context.group.members[a.id],), 0))) >= 2
    assert a.leave() is ErrorCode.NONE
    assert context.classic_group.member_count == many
    context.broker.check_replay_law()


def test_a_large_write_that_the_log_refuses() -> None:
    """If the log refuses a large write, the heartbeat gets the error and the group is unchanged."""
    context = ConsumerContext(MANY)
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    assert context.member("a", *MANY).join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    context.broker.append_error = lambda: ErrorCode.NONE
    assert context.member("a", *MANY).join().error is ErrorCode.NONE
    context.check()
