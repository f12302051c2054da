"""The command line parses times and other values, and reports wrong ones in one line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from pipeline.command import main
from pipeline.options import count, duration_ms, instant_ms, parser, questions_of, regex, time_of
from pipeline.sources.jars import connector_settings
from pipeline.sources.source import InputError
from pipeline.sources.spark_progress import read_progress


@pytest.mark.parametrize(
    ("text", "wanted"), [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("7d", 604_800_000)]
)
def test_durations(text: str, wanted: int) -> None:
    """A duration is a number and a unit."""
    assert duration_ms(text) == wanted


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 d"])
def test_what_is_no_duration(text: str) -> None:
    """A text that is not a number with a unit is refused."""
    with pytest.raises(argparse.ArgumentTypeError):
        duration_ms(text)


def test_instants() -> None:
    """ISO 8601 times are UTC by default, and a plain number is milliseconds."""
    assert instant_ms("1970-01-02") == 86_400_000
    assert instant_ms("1970-01-01T01:00:00+01:00") == 0
    assert instant_ms("2026-11-22T01:30:00.5Z") == 1_795_311_000_500
    assert instant_ms("1795225500000") == 1_795_225_500_000
    with pytest.raises(argparse.ArgumentTypeError):
        instant_ms("yesterday")


def test_numbers_and_times_that_make_no_sense_are_refused() -> None:
    """A duration of 0 and a negative count are refused."""
    with pytest.raises(argparse.ArgumentTypeError, match="'0s' is no time"):
        duration_ms("0s")
    assert count("0") == 0
    for text in ("-5", "many", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is no number"):
            count(text)


def test_groups_are_a_regular_expression() -> None:
    """An invalid regular expression is refused with its reason."""
    assert regex("app-[0-9]+") == "app-[0-9]+"
    with pytest.raises(argparse.ArgumentTypeError, match=r"'app-.' is no .*unterminated"):
        regex("app-[")


def test_options_become_questions() -> None:
    """Every question of the command line reaches the tables."""
    words = "run --log-dir d --out o --at 5 --window 2m --patience 9s --allowed-lag 3"
    questions = questions_of(
        parser().parse_args([*words.split(), "--offsets-retention", "1d", "--replay-from", "4"])
    )
    assert (questions.at_ms, questions.window_ms, questions.allowed_lag) == (5, 120_000, 3)
    assert questions.patience_ms == 9000
    assert (questions.offsets_retention_ms, questions.replay_from_ms) == (86_400_000, 4)


def test_an_input_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A run without an input exits with 2."""
    with pytest.raises(SystemExit) as stop:
        main(["run", "--out", "o"])
    assert stop.value.code == 2
    assert "--bootstrap-server" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--bootstrap-server", "--bootstrap"])
def test_a_broker_is_an_input(name: str) -> None:
    """A broker is given by `--bootstrap-server`, or `--bootstrap` for short."""
    assert parser().parse_args(["run", name, "b:1", "--out", "o"]).bootstrap == "b:1"


@pytest.mark.parametrize(
    ("words", "time"),
    [
        (["--bootstrap-server", "b:1"], "sampled"),
        (["--log-dir", "d"], "exact"),
        (["--log-dir", "d", "--time", "sampled"], "sampled"),
        (["--bootstrap-server", "b:1", "--time", "none"], "none"),
    ],
)
def test_times_are_sampled_by_default_where_records_come_over_a_network(
    words: list[str], time: str
) -> None:
    """The default of `--time` is `sampled` for a broker, and `exact` for files."""
    assert time_of(parser().parse_args(["run", *words, "--out", "o"])) == time


def test_jars_that_are_not_there_are_named(tmp_path: Path) -> None:
    """Missing jars of `--jars` are reported by name."""
    with pytest.raises(InputError, match=r"none\.jar is not there"):
        connector_settings(str(tmp_path / "none.jar"))


def test_a_checkpoint_tells_how_far_its_query_is(tmp_path: Path) -> None:
    """A checkpoint gives the offsets of completed batches, for Kafka sources only."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    (tmp_path / "metadata").write_text('{"id": "q"}')
    for number in (9, 10, 11):
        ends = {"t": {"0": number, "1": 5}}
        lines = ["v1", json.dumps({"batchTimestampMs": number}), json.dumps(ends), "-", "7"]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
    for number in (9, 10):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    assert read_progress(str(tmp_path)) == [
        ("q", None, "t", 0, 9, 9, 9),
        ("q", None, "t", 1, 9, 5, 9),
        ("q", None, "t", 0, 10, 10, 10),
        ("q", None, "t", 1, 10, 5, 10),
    ]


def test_progress_events_tell_the_same(tmp_path: Path) -> None:
    """Progress events are read from JSON lines, with endOffset as an object or as text."""
    event = {
        "id": "q",
        "name": "mine",
        "batchId": 3,
        "timestamp": "1970-01-01T00:00:01.500Z",
        "sources": [{"endOffset": {"t": {"0": 8}}}, {"endOffset": '{"u": {"2": 9}}'}],
    }
    path = tmp_path / "progress.jsonl"
    path.write_text(json.dumps(event) + "\nno json\n" + json.dumps({"progress": {}}) + "\n")
    assert read_progress(str(path)) == [
        ("q", "mine", "t", 0, 3, 8, 1500),
        ("q", "mine", "u", 2, 3, 9, 1500),
    ]


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    """A folder without offsets, or without a readable id, is reported."""
    with pytest.raises(InputError, match="it is no checkpoint"):
        read_progress(str(tmp_path))
    (tmp_path / "offsets").mkdir()
    with pytest.raises(InputError, match="metadata cannot be read"):
        read_progress(str(tmp_path))
