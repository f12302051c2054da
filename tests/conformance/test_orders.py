"""Our broker answers our own scenarios, most about the order of events, like Kafka."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.answers import (
    ADMIN_ANSWERS,
    ANSWERS,
    BROKER_CONFIG_ANSWERS,
    SHARE_ANSWERS,
    STREAMS_ANSWERS,
    Answers,
)
from tests.conformance.cluster import our_cluster
from tests.conformance.recording import Transcript
from tests.conformance.runner import Player, all_scenarios, differences
from tests.conformance.stage import Scenario
from tests.support import ROOT, Serve

HERE = Path(__file__).parent
_SUPERSEDED = "Kafka never answers a parked request that is asked again; we answer at once"

EXPLAINED = {
    "joins.parked_join_asked_again_on_another_connection": _SUPERSEDED,
    "joins.parked_newcomer_asks_again": _SUPERSEDED,
    "joins.pending_id_used_twice": _SUPERSEDED,
    "syncs.follower_syncs_twice_on_two_connections": _SUPERSEDED,
    "syncs.parked_sync_of_one_that_leaves": "Kafka never answers it; we do: UNKNOWN_MEMBER_ID",
}

_TIES = (
    "while as many members name one assignor as another, Kafka's choice depends on who asks, and "
    "heartbeats without news raise the group epoch again and again; it rises once here"
)

EXPLAINED_OF_CONSUMERS = {
    "consumer_assignors.new_choice_holds_from_the_next_target_on": _TIES,
    "consumer_intervals.assignor_is_chosen_when_the_target_is_computed": _TIES,
    "consumer_statics.comes_back_with_another_assignor_other": _TIES,
    "consumer_statics.comes_back_with_another_assignor_same": _TIES,
}

EXPLAINED_OF_SHARES = {
    "share_dead_letters.one_record_is_too_large_for_the_queue_range": (
        "in Kafka those that follow in the same range are lost with it; they are written here"
    ),
}

_HANGS = "Kafka leaves its transaction open for ever; it gets its marker when it has a leader again"

EXPLAINED_IN_A_CLUSTER = {f"txn_moves.ending_without_a_leader_{v}": _HANGS for v in (1, 2)}

SLOW_AREAS = ("txn_exhaustion",)
"""Each of its scenarios sends 32 766 requests before its first step."""


def test_every_scenario_has_an_answer() -> None:
    """Each scenario has a recorded answer, and each answer a scenario."""
    answered: set[str] = set()
    for path in (
        ANSWERS,
        SHARE_ANSWERS,
        STREAMS_ANSWERS,
        ADMIN_ANSWERS,
        BROKER_CONFIG_ANSWERS,
    ):
        answers = Answers.read(path)
        answered |= answers.kept.keys() | set(answers.unstable)
    assert {one.name for one in all_scenarios()} == answered


def test_the_page_counts_the_scenarios_of_each_area() -> None:
    """Each row of the tables in docs/conformance.md has the number of its recorded scenarios."""
    counts = Counter(one.area for one in all_scenarios())
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z_, ]+?)(?: \(.*\))? \| (\d+) of (\d+) \| \d+ of (\d+)", page, re.M)
    told = {areas: {int(one) for one in numbers} for areas, *numbers in rows}
    counted = {
        areas: {sum(counts[area] for area in areas.split(", "))}
        for areas in told
        if counts.keys() >= set(areas.split(", "))
    }
    assert len(counted) > 50
    assert {areas: told[areas] for areas in counted} == counted
    assert f"| scenarios | 243 | {counts.total()}: " in page


@pytest.mark.real_time
def test_the_answers_are_those_of_kafka() -> None:
    """The classic group, offset and transaction scenarios pass, except for explained ones."""
    compare([one for one in all_scenarios() if one.area not in SLOW_AREAS], EXPLAINED, "ab")


@pytest.mark.real_time
def test_the_answers_to_consumer_groups_are_those_of_kafka() -> None:
    """The KIP-848 and conversion scenarios pass, except for explained ones."""
    compare(all_scenarios(), EXPLAINED_OF_CONSUMERS, "defgh")


@pytest.mark.real_time
def test_the_answers_to_share_groups_are_those_of_kafka() -> None:
    """The KIP-932 and KIP-1191 scenarios pass, except for explained ones."""
    compare(all_scenarios(), EXPLAINED_OF_SHARES, "abi", SHARE_ANSWERS)


@pytest.mark.real_time
def test_the_answers_to_streams_groups_are_those_of_kafka() -> None:
    """The KIP-1071 scenarios pass."""
    compare(all_scenarios(), {}, "a", STREAMS_ANSWERS)


@pytest.mark.real_time
def test_the_answers_to_administrators_are_those_of_kafka() -> None:
    """The scenarios of leaders, replicas, the quorum, features and client metrics pass."""
    compare(all_scenarios(), {}, "a", ADMIN_ANSWERS)


@pytest.mark.real_time
def test_the_answers_to_client_telemetry_are_those_of_kafka() -> None:
    """The KIP-714 scenarios pass, one at a time because subscriptions apply to the whole broker."""
    compare(all_scenarios(), {}, "t", ADMIN_ANSWERS, jobs=1)


@pytest.mark.real_time
def test_the_answers_about_configs_of_brokers_are_those_of_kafka() -> None:
    """The dynamic config scenarios pass, one at a time because they share a broker."""
    compare(all_scenarios(), {}, "k", BROKER_CONFIG_ANSWERS, jobs=1)


@pytest.mark.real_time
def test_the_answers_of_a_cluster_are_those_of_kafka(tmp_path: Path) -> None:
    """Three brokers of ours answer like Kafka's while coordinators and leaders move."""
    wanted = Answers.read(ANSWERS).kept | Answers.read(ADMIN_ANSWERS).kept
    scenarios = [one for one in all_scenarios() if one.profile == "c" and one.name in wanted]
    with our_cluster(tmp_path / "data") as cluster:
        player = Player.in_cluster(cluster, patience=1.5)
        played = player.play_as_expected(scenarios, wanted, EXPLAINED_IN_A_CLUSTER)
    check(played, wanted, EXPLAINED_IN_A_CLUSTER)
    assert played.keys() == {one.name for one in scenarios}


@pytest.mark.nightly
@pytest.mark.real_time
def test_slow_answers_are_those_of_kafka() -> None:
    """The scenarios that take minutes pass."""
    compare([one for one in all_scenarios() if one.area in SLOW_AREAS], {}, "ab")


def compare(
    scenarios: Sequence[Scenario],
    explained: Mapping[str, str],
    profiles: str,
    answers: Path = ANSWERS,
    jobs: int = 8,
) -> None:
    """Play the scenarios of `profiles`, a letter each, that have an answer in a file.

    Exactly the `explained` scenarios must differ from Kafka's answers.
    """
    wanted = Answers.read(answers).kept
    with ExitStack() as running:
        addresses: dict[str, str | None] = {}
        for name in profiles:
            config = str(HERE / f"profile-{name}.properties")
            broker = running.enter_context(Serve("--ephemeral", "--config", config))
            addresses[name] = broker.bootstrap_servers
        player = Player(addresses, jobs, patience=1.5)
        answered = [one for one in scenarios if one.name in wanted and one.profile in profiles]
        played = player.play_as_expected(answered, wanted, explained)
    check(played, wanted, explained)
    assert played.keys() == {one.name for one in answered}


def check(
    played: Mapping[str, Transcript],
    wanted: Mapping[str, Transcript],
    explained: Mapping[str, str],
) -> None:
    """Compare transcripts with Kafka's answers."""
    differing = {name for name, steps in played.items() if steps != wanted[name]}
    unexplained = differing - explained.keys()
    report = [
        line
        for name in sorted(unexplained)
        for line in (name, *differences(wanted[name], played[name]))
    ]
    assert not unexplained, "\n".join(report)
    assert differing == explained.keys()
