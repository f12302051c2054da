"""Apache Kafka's answers, stored in JSON files for modules and in data files for their scenarios.

The JSON files have one line per step, so that a changed answer shows up as a changed line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from tests.conformance.recording import UNFINISHED, Transcript
from tests.conformance.tables import data_files

_HERE = Path(__file__).parent
ANSWERS = _HERE / "orders.json"
OLDER_ANSWERS = _HERE / "orders-4.1.json"
"""Answers of Kafka 4.1 that differ."""
_FILES = {
    "share_": _HERE / "share.json",
    "streams_": _HERE / "streams.json",
    "leader_": _HERE / "admin.json",
    "cluster_admin": _HERE / "admin.json",
    "client_metrics": _HERE / "admin.json",
    "telemetry": _HERE / "admin.json",
    "broker_configs": _HERE / "broker_configs.json",
    "dynamic_listeners": _HERE / "broker_configs.json",
}
"""Files by the start of an area; the others have `ANSWERS`."""


def answers_file(area: str) -> Path:
    """Return the JSON file of an area's scenarios."""
    return next((path for start, path in _FILES.items() if area.startswith(start)), ANSWERS)


def answers_files() -> list[Path]:
    """Return the JSON files."""
    return list(dict.fromkeys((ANSWERS, *_FILES.values())))


class Answers(NamedTuple):
    """Transcripts by scenario name, and the names of scenarios whose answers varied."""

    kept: dict[str, Transcript]
    unstable: list[str]

    @classmethod
    def gather(cls, runs: Sequence[Mapping[str, Transcript]]) -> Self:
        """Return the answers on which all runs agree, and the names of the other scenarios."""
        kept, unstable = {}, []
        for name, steps in sorted(runs[0].items()):
            odd = not steps or any(label in UNFINISHED for label, _ in steps)
            if odd or any(run[name] != steps for run in runs):
                unstable.append(name)
            else:
                kept[name] = steps
        return cls(kept, unstable)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the answers from a file of `write`."""
        stored = json.loads(path.read_text())
        return cls(stored["answers"], stored["unstable"])

    @classmethod
    @cache
    def recorded(cls) -> Self:
        """Return the answers from all files, which are read once."""
        kept: dict[str, Transcript] = {}
        unstable = []
        for path in answers_files():
            answers = cls.read(path)
            kept |= answers.kept
            unstable += answers.unstable
        for file in data_files():
            kept |= file.answers()
        return cls(kept, unstable)

    def over(self, older: Answers) -> Self:
        """Return these answers, plus the older answers of scenarios that were not played."""
        played = self.kept.keys() | set(self.unstable)
        kept = {name: steps for name, steps in older.kept.items() if name not in played}
        unstable = [name for name in older.unstable if name not in played]
        return type(self)(kept | self.kept, sorted(unstable + self.unstable))

    def write(self, path: Path) -> None:
        """Write the answers in a readable form that gives small diffs."""
        scenarios = ",\n".join(
            f"{json.dumps(name)}: [\n"
            + ",\n".join(f" {json.dumps(step, sort_keys=True)}" for step in steps)
            + "\n]"
            for name, steps in sorted(self.kept.items())
        )
        unstable = json.dumps(self.unstable)
        path.write_text(f'{{"unstable": {unstable},\n"answers": {{\n{scenarios}\n}}}}\n')

    def write_all(self, directory: Path | None = None) -> None:
        """Write the answers to the files of their scenarios, or to files in `directory`.

        Stored answers of other scenarios stay.
        """
        tables: set[str] = set()
        for file in data_files():
            file.rewrite(self.kept, directory)
            tables |= {one.name for one in file.scenarios()}
        for path in answers_files():
            kept = {
                name: steps
                for name, steps in self.kept.items()
                if name not in tables and answers_file(_area(name)) == path
            }
            unstable = [one for one in self.unstable if answers_file(_area(one)) == path]
            if kept or unstable:
                answers = type(self)(kept, unstable).over(self.read(path))
                answers.write((directory or path.parent) / path.name)


def _area(name: str) -> str:
    return name.partition(".")[0]
