"""Tests of the tool itself, with our brokers in place of Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from protocol.registry import SPEC_BY_NAME
from tests.fuzz_kafka.__main__ import OFFLOAD, SETTINGS, profile
from tests.fuzz_kafka.compare import Target, find, first_difference, shrink
from tests.fuzz_kafka.draw import THEMES, WAIT, Draw, Step
from tests.fuzz_kafka.explained import EXPLAINED, explanation
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
    """A delay in the quick run is not a difference, and does not hide a later one."""
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
    """An explanation applies to its kind of difference; with `after` only after such an answer."""
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


def test_the_step_that_differs_counts_for_its_explanation() -> None:
    """`after` also sees the step that differs."""
    steps = [
        Step(number, number, "ConsumerGroupHeartbeat", 1, {"server_assignor": assignor}, "G0")
        for number, assignor in enumerate(("uniform", "range"))
    ]
    kafka, ours = (
        [("ConsumerGroupHeartbeat v1", [(number, {"member_epoch": epoch})]) for number, epoch in of]
        for of in (((0, 1), (1, 3)), ((0, 1), (1, 2)))
    )
    assert first_difference(steps, kafka, ours) is None
    votes_alike = [one._replace(body={"server_assignor": "range"}) for one in steps]
    difference = first_difference(votes_alike, kafka, ours)
    assert difference is not None
    assert difference.kind == "ConsumerGroupHeartbeat member_epoch: 3 | 2"
