"""Our own scenarios, above all orders of events, are answered as Kafka answered them."""

from __future__ import annotations

import pytest

from tests.conformance.answers import ANSWERS, Answers
from tests.conformance.runner import Player, all_scenarios, differences
from tests.conformance.test_recorded import HERE
from tests.support import Serve

_SUPERSEDED = "Kafka never answers a parked request that is asked again; we answer at once"

EXPLAINED = {
    "joins.parked_join_asked_again_on_another_connection": _SUPERSEDED,
    "joins.parked_newcomer_asks_again": _SUPERSEDED,
    "joins.pending_id_used_twice": _SUPERSEDED,
    "syncs.follower_syncs_twice_on_two_connections": _SUPERSEDED,
    "syncs.parked_sync_of_one_that_leaves": "Kafka never answers it; we do: UNKNOWN_MEMBER_ID",
    "admin.coordinator_of_a_share_group_6": "share groups are not served, so nobody leads them",
}


def test_every_scenario_has_an_answer() -> None:
    """The recorded answers belong to the scenarios that there are, and none is missing."""
    answers = Answers.read(ANSWERS)
    assert {one.name for one in all_scenarios()} == answers.kept.keys() | set(answers.unstable)


@pytest.mark.real_time
def test_the_answers_are_those_of_kafka() -> None:
    """All scenarios pass but for the ones explained here, which all still differ."""
    wanted = Answers.read(ANSWERS).kept
    profiles = [("--config", str(HERE / f"profile-{name}.properties")) for name in "ab"]
    with Serve("--ephemeral", *profiles[0]) as a, Serve("--ephemeral", *profiles[1]) as b:
        player = Player(a.bootstrap_servers, b.bootstrap_servers, patience=1.5)
        scenarios = [one for one in all_scenarios() if one.name in wanted]
        played = player.play_as_expected(scenarios, wanted, EXPLAINED)
    differing = {name for name, steps in played.items() if steps != wanted[name]}
    unexplained = differing - EXPLAINED.keys()
    report = [
        line
        for name in sorted(unexplained)
        for line in (name, *differences(wanted[name], played[name]))
    ]
    assert not unexplained, "\n".join(report)
    assert differing == EXPLAINED.keys()
    assert played.keys() == wanted.keys()
