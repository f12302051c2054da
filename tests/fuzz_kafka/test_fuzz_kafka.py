"""Tests of the tool itself, with our brokers in place of Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from protocol.registry import SPEC_BY_NAME
from tests.fuzz_kafka.__main__ import OFFLOAD, SETTINGS, profile
from tests.fuzz_kafka.compare import Target, find, first_difference, shrink, unsettled
from tests.fuzz_kafka.draw import THEMES, WAIT, Draw, Step
from tests.fuzz_kafka.explained import EXPLAINED, explanation
from tests.fuzz_kafka.play import Player
from tests.fuzz_kafka.settle import Settled, SettlingPlayer
from tests.support import Broker


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A broker with the settings of the tool."""
    with Broker({**profile(), **SETTINGS, **OFFLOAD}) as broker:
        yield Target(broker.address, broker.clock.advance)


def test_a_seed_always_draws_the_same_sequence() -> None:
    """A seed always gives the same sequence, and every theme draws all its APIs."""
    drawn = [Draw(seed, (theme,)) for theme in THEMES for seed in range(60)]
    again = [Draw(seed, (theme,)) for theme in THEMES for seed in range(60)]
    assert [one.steps for one in drawn] == [one.steps for one in again]
    for theme, weights in THEMES.items():
        apis = {step.api for one in drawn if one.theme == theme for step in one.steps}
        assert weights.keys() <= apis
        assert all(api == WAIT or api in SPEC_BY_NAME for api in apis)


@pytest.mark.parametrize("theme", THEMES)
def test_a_broker_agrees_with_itself(target: Target, theme: str) -> None:
    """Ids, epochs and times do not count as differences."""
    assert find(target, target, Draw(1, (theme,)).steps) is None


def test_a_difference_is_found_and_reduced(target: Target) -> None:
    """A different `group.max.size` is found, and requests without influence are dropped."""
    join = {
        "group_id": {"$name": "G0"},
        "session_timeout_ms": 30000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"$subscription": []}}],
    }
    offsets = {"group_id": {"$name": "G0"}, "topics": None}
    steps = [
        Step(0, 0, "JoinGroup", 0, join, "G0"),
        Step(1, 2, "OffsetFetch", 7, offsets, "G0"),
        Step(2, 1, "JoinGroup", 0, join, "G0"),
        Step(3, 2, "OffsetFetch", 7, offsets, "G0"),
    ]
    settings = {**profile(), **SETTINGS, "group.max.size": "1"}
    with Broker(settings) as broker:
        small = Target(broker.address, broker.clock.advance)
        difference = find(target, small, steps)
        assert difference is not None
        assert difference.step == 2
        assert "GROUP_MAX_SIZE_REACHED" in str(difference.ours)
        shrunk = shrink(target, small, steps[:3], difference.kind)
    assert [step.number for step in shrunk] == [0, 2]


def test_a_delay_does_not_hide_a_later_difference(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delay in the quick run is not a difference, and does not hide a later difference."""
    steps = [Step(number, 0, "Heartbeat", 0, {}) for number in (0, 1)]
    ours = target._replace(wait=lambda _: None)

    def played(
        one: Target, steps: Sequence[Step], patience: float
    ) -> list[tuple[str, list[tuple[int, object]]]]:
        is_late = one is target and patience == 1.0
        answers = ("parked" if is_late else "NONE", "UNKNOWN" if one is ours else "NONE")
        return [("Heartbeat v0", [(step.number, answers[step.number])]) for step in steps]

    monkeypatch.setattr("tests.fuzz_kafka.compare._play", played)
    difference = find(target, ours, steps)
    assert difference is not None
    assert (difference.step, difference.kind) == (1, "Heartbeat : NONE | UNKNOWN")


def test_explanations_match_what_they_are_about() -> None:
    """An explanation applies to its kind of difference, and only after answers like `after`."""
    refused = (
        "('ConsumerGroupHeartbeat v1', [(2, {})]), "
        "('JoinGroup v9', [(3, {'error_code': 'UNKNOWN_MEMBER_ID'})])"
    )
    kind = "OffsetCommit topics.partitions.error_code: GROUP_ID_NOT_FOUND | UNKNOWN_MEMBER_ID"
    assert explanation(kind, "") is None
    assert explanation(kind, refused) in EXPLAINED
    assert explanation("Fetch error_code: NONE | UNKNOWN_TOPIC_ID", "") is None
    created = (
        "DescribeGroups groups.error_code: GROUP_ID_NOT_FOUND | NONE; groups.error_message: .."
    )
    assert explanation(created, "") is None
    assert explanation(created, "'error_code': 'OFFSET_METADATA_TOO_LARGE'") in EXPLAINED
    joined = "DescribeGroups groups.group_state: Dead | CompletingRebalance; groups.members#: 0 | 1"
    assert explanation(joined, "'error_code': 'OFFSET_METADATA_TOO_LARGE'") in EXPLAINED
    elected = "LeaveGroup leader: <member 8> | <member 4>; members#: 0 | 2"
    assert explanation(elected, "('JoinGroup v9', [])") is None
    assert explanation(elected, "('LeaveGroup v0', [])") in EXPLAINED
    assert explanation("JoinGroup generation_id: 1 | 2", "('LeaveGroup v0', [])") is None
    left = "LeaveGroup #: 1 | 2"
    assert explanation(left, "('SyncGroup v5', [(23, {'error_code': 'NONE'})])") is None
    assert explanation(left, "('SyncGroup v5', [(23, 'parked')])") in EXPLAINED
    fault = "ConsumerGroup G0 settles: Settled(error='NONE') | Settled(error='NONE')"
    assert explanation(fault, "'subscribed_topic_regex': {'$regex': 't.*'}") is None
    assert explanation(fault, "'subscribed_topic_regex': {'$regex': 'nothing'}") in EXPLAINED
    for count, is_explained in (("0 | 1", True), ("1 | 2", True), ("2 | 1", False)):
        for field in ("responses", "responses.partitions"):
            assert (explanation(f"ShareFetch {field}#: {count}", "") is not None) is is_explained


def test_only_assignments_differ_if_hash_maps_explain_it() -> None:
    """A difference in a further field of the same answer is not explained by hash maps."""
    assigned = "ConsumerGroupHeartbeat assignment: null | {}"
    found = explanation(assigned, "")
    assert found is not None
    assert found.settles
    assert explanation(f"{assigned}; member_epoch: 2 | 3", "") is None
    assert explanation("Fetch assignment: null | {}", "") is None


def never(_: Sequence[Step]) -> str:
    """Fail: the sequence has no difference for which the groups must settle."""
    raise AssertionError


def joining(client: int, number: int, epoch: int = 0) -> Step:
    """Return a heartbeat of a member of G0 that joins, or receives its assignment."""
    body: dict[str, object] = {
        "group_id": {"$name": "G0"},
        "member_id": {"$chosen_id": client},
        "member_epoch": epoch,
    }
    if not epoch:
        body |= {"rebalance_timeout_ms": 60000, "subscribed_topic_names": [{"$name": "t1"}]}
        body |= {"topic_partitions": []}
    return Step(number, client, "ConsumerGroupHeartbeat", 1, body, "G0")


def test_members_settle(target: Target) -> None:
    """Members that have not yet received their partitions get them by further heartbeats."""
    player = SettlingPlayer(target.address, "s0")
    settled = player.settled([joining(0, 0), joining(1, 1)])
    partitions = [f"topic_partitions <id 2 t1> {one}" for one in range(3)]
    assert settled == {"ConsumerGroup G0": Settled("NONE", [1, 2], partitions, 0, 0)}
    assert unsettled(target, target, 1.0, [joining(0, 0), joining(1, 1)]) == ""


def test_a_member_that_is_never_told_its_assignment_is_not_explained(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assignments may differ only if each member of both brokers receives its own assignment."""
    ours = target._replace(wait=lambda _: None)
    receive = Player._receive

    def without_assignment(player: Player, step: Step, *rest: Any) -> Any:
        answer = receive(player, step, *rest)
        is_deaf = player._wait is ours.wait and "assignment" in answer
        if is_deaf and answer["member_id"].endswith("member-0"):
            return {**answer, "assignment": None}
        return answer

    monkeypatch.setattr(Player, "_receive", without_assignment)
    difference = find(target, ours, [joining(0, 0), joining(1, 1)])
    assert difference is not None
    assert difference.kind.startswith("ConsumerGroup G0 settles: ")
    assert difference.kind.endswith("untold=1, unfinished=0)")


def test_who_gets_a_partition_is_explained(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members may get other partitions than in Kafka if every member receives its partitions."""
    ours = target._replace(wait=lambda _: None)

    def played(one: Target, *_: object) -> list[tuple[str, list[tuple[int, object]]]]:
        answer: Any = {"assignment": None if one is ours else {"topic_partitions": []}}
        return [("ConsumerGroupHeartbeat v1", [(0, answer)])]

    monkeypatch.setattr("tests.fuzz_kafka.compare._play", played)
    assert find(target, ours, [joining(0, 0)]) is None


def test_the_step_that_differs_counts_for_its_explanation() -> None:
    """The pattern `after` of an explanation is also matched against the step that differs."""
    steps = [
        Step(number, number, "ConsumerGroupHeartbeat", 1, {"server_assignor": assignor}, "G0")
        for number, assignor in enumerate(("uniform", "range"))
    ]
    kafka, ours = (
        [("ConsumerGroupHeartbeat v1", [(number, {"member_epoch": epoch})]) for number, epoch in of]
        for of in (((0, 1), (1, 3)), ((0, 1), (1, 2)))
    )
    assert first_difference(steps, kafka, ours, never) is None
    votes_alike = [one._replace(body={"server_assignor": "range"}) for one in steps]
    difference = first_difference(votes_alike, kafka, ours, never)
    assert difference is not None
    assert difference.kind == "ConsumerGroupHeartbeat member_epoch: 3 | 2"
