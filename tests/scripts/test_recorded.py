"""Our tools print about our broker what Kafka's tools printed about it when they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.player import AREAS, Area, Outcome, Player, cases, differences, ours
from tests.support import Broker


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.cases)
def test_our_tools_print_what_kafkas_tools_print(area: Area, tmp_path: Path) -> None:
    """Output, errors and exit codes of all cases are the recorded ones."""
    entries = area.read_recorded()
    with Broker(area.settings) as broker:
        player = Player(ours, broker.bootstrap_servers, "k-", tmp_path / "files")
        played = [(case.line, player.play(case)) for case in cases(area)]
    answers = [(line, outcome) for line, outcome in played if outcome is not None]
    assert [line for line, _ in answers] == [entry.pop("case") for entry in entries]
    pairs = zip(answers, entries, strict=True)
    differing = [
        (line, Outcome(**entry), answer)
        for (line, answer), entry in pairs
        if Outcome(**entry) != answer
    ]
    assert not differing, differences(differing)
