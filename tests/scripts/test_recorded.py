"""Our tools print the same about our broker as Kafka's tools, whose output is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts import json_texts
from tests.scripts.options import RECORDED, listed_options
from tests.scripts.player import AREAS, Area, Outcome, Player, cases, differences, ours
from tests.support import Broker


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.cases)
def test_our_tools_print_what_kafkas_tools_print(area: Area, tmp_path: Path) -> None:
    """The output, errors and exit code of every case are as recorded."""
    entries = area.read_recorded()
    with Broker(area.settings) as broker:
        files = tmp_path / "files"
        player = Player(
            ours, broker.bootstrap_servers, "k-", files, users=area.users, control=broker.control
        )
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


def test_json_files_are_read_as_kafkas_tools_read_them(tmp_path: Path) -> None:
    """Errors in JSON have the class, text and position of Java's parser."""
    recorded = json_texts.read_recorded()
    with Broker() as broker:
        found = json_texts.outcomes(ours, broker.bootstrap_servers, tmp_path, recorded)
    assert {text: one for text, one in found.items() if one != recorded[text]} == {}


def test_every_option_of_kafkas_tools_is_known() -> None:
    """Our tools support every option of Kafka's tools, or name the alternative."""
    own = listed_options(ours)
    for call, options in json.loads(RECORDED.read_text()).items():
        assert not set(options) - set(own[call]), call


@pytest.mark.parametrize(
    "line",
    [
        "kafka-storage format --add-scram SCRAM-SHA-256=[name=alice,password=p]",
        "kafka-storage format -S SCRAM-SHA-256=[name=alice,password=p]",
        "kafka-storage version-mapping",
        "kafka-storage feature-dependencies --feature metadata.version=5",
        "kafka-configs --bootstrap-controller h:1 --describe --entity-type brokers",
        "kafka-metadata-quorum --bootstrap-controller h:1 describe --status",
        "kafka-features --bootstrap-controller h:1 describe",
        "kafka-cluster cluster-id --bootstrap-controller h:1",
        "kafka-console-consumer --bootstrap-server h:1 --topic t --command-property"
        " group.protocol=consumer",
    ],
)
def test_what_is_not_here_is_said_in_a_line(line: str) -> None:
    """An unsupported request ends with one line that names the request and the alternative."""
    name, *arguments = line.split()
    outcome = ours(name, arguments)
    assert (outcome.code, outcome.out) == (1, "")
    (said,) = outcome.err.splitlines()
    assert said.startswith(f"{name}: ")
