"""Our broker answers every recorded scenario like Kafka."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from protocol import REFERENCE_VERSION
from tests.conformance.answers import OLDER_ANSWERS, Answers, answers_file
from tests.conformance.cluster import our_cluster
from tests.conformance.recording import Transcript
from tests.conformance.runner import Player, all_scenarios, differences
from tests.conformance.stage import Scenario
from tests.conformance.tables import DataFile, data_files
from tests.support import AUTHORIZED, ROOT, Serve

HERE = Path(__file__).parent
_SUPERSEDED = "Kafka never answers a parked request that is asked again; we answer at once"

_UNANSWERED = "Kafka never answers it; we do"

EXPLAINED = {
    "join.same_protocol_named_twice": _UNANSWERED,
    "sync.parked_sync_of_a_leaving_member": _UNANSWERED,
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

OLDER_SCENARIOS = {"admin": 1, "consumer848": 15, "join": 1, "versions": 5}
"""Scenarios by area that Kafka 4.1 answered otherwise."""

SLOW_AREAS = ("txn_exhaustion",)
"""Each of its scenarios sends 32 766 requests before its first step."""


GROUP_APIS = (
    "commit",
    "consumer848",
    "coordinator",
    "delete",
    "describe",
    "expiry",
    "fetch",
    "heartbeat",
    "join",
    "leave",
    "list",
    "malformed",
    "offset_delete",
    "static",
    "sync",
    "timing_b",
    "txn",
    "versions",
)
"""Areas that send every version of every group request."""

ALLOWS_ALL = {
    "authorizer.class.name": AUTHORIZER_CLASS,
    "allow.everyone.if.no.acl.found": "true",
}


def test_every_scenario_has_an_answer() -> None:
    """Each scenario has a recorded answer, and each answer a scenario."""
    answers = Answers.recorded()
    answered = answers.kept.keys() | set(answers.unstable)
    assert {one.name for one in all_scenarios()} == answered


def test_the_answers_are_of_the_reference_version() -> None:
    """Answers and message definitions are those of the reference version."""
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert f"against Apache Kafka {REFERENCE_VERSION} and" in page
    assert f"Kafka {REFERENCE_VERSION}'s message definitions" in (HERE / "wire.py").read_text()


def test_answers_of_an_older_release_are_kept() -> None:
    """The stored answers of Kafka 4.1 are those that differ from the reference version's."""
    older, answers = Answers.read(OLDER_ANSWERS).kept, Answers.recorded().kept
    assert Counter(name.partition(".")[0] for name in older) == OLDER_SCENARIOS
    assert all(answers[name] != steps for name, steps in older.items())


def test_a_changed_answer_of_a_data_file_is_a_difference(tmp_path: Path) -> None:
    """A change of any answer in a data file is found; a rewritten file has the same answers."""
    for file in data_files():
        copy = tmp_path / file.path.name
        copy.write_text(file.path.read_text(encoding="utf-8"), encoding="utf-8")
        answers = file.answers()
        changed = DataFile(copy)
        changed.rewrite({name: _changed(steps) for name, steps in answers.items()})
        assert DataFile(copy).answers() == {
            name: _changed(steps) for name, steps in answers.items()
        }
        changed.rewrite(answers)
        assert copy.read_text(encoding="utf-8") == file.path.read_text(encoding="utf-8")


def _changed(steps: Transcript) -> Transcript:
    return [[label, [*block[:-1], f"{block[-1]} changed"]] for label, block in steps]


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
    assert f"**{counts.total()} scenarios**" in page


@pytest.mark.real_time
def test_the_answers_are_those_of_kafka() -> None:
    """The classic group, offset and transaction scenarios pass, except for explained ones."""
    compare(of_file("orders"), EXPLAINED, "ab")


@pytest.mark.nightly
@pytest.mark.real_time
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ALLOWS_ALL, id="authorizer-that-allows-all"),
        pytest.param(AUTHORIZED, id="super-user"),
    ],
)
def test_the_answers_to_allowed_requests_are_those_of_kafka(settings: Mapping[str, str]) -> None:
    """Scenarios pass if an authorizer allows all requests."""
    scenarios = [one for one in all_scenarios() if one.area in GROUP_APIS]
    explained = {name: why for name, why in EXPLAINED.items() if why == _UNANSWERED}
    compare(scenarios, explained, "ab", settings=settings)


@pytest.mark.real_time
def test_the_answers_to_consumer_groups_are_those_of_kafka() -> None:
    """The KIP-848 and conversion scenarios pass, except for explained ones."""
    compare(of_file("orders"), EXPLAINED_OF_CONSUMERS, "defgh")


@pytest.mark.real_time
def test_the_answers_to_share_groups_are_those_of_kafka() -> None:
    """The KIP-932 and KIP-1191 scenarios pass, except for explained ones."""
    compare(of_file("share"), EXPLAINED_OF_SHARES, "abi")


@pytest.mark.real_time
def test_the_answers_to_streams_groups_are_those_of_kafka() -> None:
    """The KIP-1071 scenarios pass."""
    compare(of_file("streams"), {}, "a")


@pytest.mark.real_time
def test_the_answers_to_administrators_are_those_of_kafka() -> None:
    """The scenarios of leaders, replicas, the quorum, features and client metrics pass."""
    compare(of_file("admin"), {}, "a")


@pytest.mark.real_time
def test_the_answers_to_client_telemetry_are_those_of_kafka() -> None:
    """The KIP-714 scenarios pass, one at a time because subscriptions apply to the whole broker."""
    compare(of_file("admin"), {}, "t", jobs=1)


@pytest.mark.real_time
def test_the_answers_about_configs_of_brokers_are_those_of_kafka() -> None:
    """The dynamic config scenarios pass, one at a time because they share a broker."""
    compare(of_file("broker_configs"), {}, "k", jobs=1)


@pytest.mark.real_time
def test_the_answers_of_a_cluster_are_those_of_kafka(tmp_path: Path) -> None:
    """Three brokers of ours answer like Kafka's while coordinators and leaders move."""
    wanted = Answers.recorded().kept
    scenarios = [one for one in all_scenarios() if one.profile == "c"]
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


def of_file(name: str) -> list[Scenario]:
    """Return the scenarios of the areas whose module answers are in a JSON file.

    Areas that take minutes are left out.
    """
    return [
        one
        for one in all_scenarios()
        if answers_file(one.area).stem == name and one.area not in SLOW_AREAS
    ]


def compare(
    scenarios: Sequence[Scenario],
    explained: Mapping[str, str],
    profiles: str,
    jobs: int = 8,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Play the scenarios of `profiles`, a letter each, with these settings.

    Exactly the `explained` scenarios must differ from Kafka's answers.
    """
    wanted = Answers.recorded().kept
    more = [part for pair in (settings or {}).items() for part in ("--set", "=".join(pair))]
    with ExitStack() as running:
        addresses: dict[str, str | None] = {}
        for name in profiles:
            config = str(HERE / f"profile-{name}.properties")
            broker = running.enter_context(Serve("--ephemeral", "--config", config, *more))
            addresses[name] = broker.bootstrap_servers
        player = Player(addresses, jobs, patience=1.5)
        answered = [one for one in scenarios if one.name in wanted and one.profile in profiles]
        played = player.play_as_expected(answered, wanted, explained)
    check(played, wanted, explained)
    assert played.keys() == {one.name for one in answered}
    assert answered


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
