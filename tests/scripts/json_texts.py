"""JSON files, well-formed and damaged, and the output of kafka-reassign-partitions for each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.scripts.player import HERE, Tool, without_frames

RECORDED = HERE / "json_texts.json"
"""The texts, each with the exit code and the output of Kafka's tool."""

Outcomes = dict[str, list[int | str]]


def read_recorded() -> Outcomes:
    """Return the recorded outcomes."""
    outcomes: Outcomes = json.loads(RECORDED.read_text())
    return outcomes


def outcomes(tool: Tool, bootstrap: str, directory: Path, texts: Iterable[str]) -> Outcomes:
    """Return the exit code and output for each text, passed as the file of --verify."""
    path = directory / "reassignment.json"
    arguments = ["--bootstrap-server", bootstrap, "--verify", "--preserve-throttles"]
    found: Outcomes = {}
    for text in texts:
        path.write_bytes(text.encode())
        outcome = tool(
            "kafka-reassign-partitions", [*arguments, "--reassignment-json-file", str(path)], ""
        )
        found[text] = [outcome.code, without_frames(outcome.out)]
    return found
