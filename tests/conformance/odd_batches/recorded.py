"""The file with Kafka's answers."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.odd_batches.play import Answers

PATH = Path(__file__).with_name("kafka.json")


def write(answers: Answers, path: Path = PATH) -> None:
    """Write answers, one per line."""
    lines = [f"{json.dumps(name)}: {json.dumps(answers[name], sort_keys=True)}" for name in answers]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path = PATH) -> Answers:
    """Return the stored answers."""
    answers: Answers = json.loads(path.read_text()) if path.exists() else {}
    return answers


def differences(expected: Answers, actual: Answers) -> list[str]:
    """Return a description of each case whose answer is not the expected one."""
    return [
        f"{name}\n  Kafka {json.dumps(expected.get(name), sort_keys=True)}"
        f"\n  ours  {json.dumps(answer, sort_keys=True)}"
        for name, answer in actual.items()
        if expected.get(name) != answer
    ]
