"""The files with Apache Kafka's answers to our scenarios.

The files have one line per step, so that a changed answer shows up as a changed line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.conformance.recording import Transcript

ANSWERS = Path(__file__).parent / "orders.json"
SHARE_ANSWERS, STREAMS_ANSWERS = ANSWERS.with_name("share.json"), ANSWERS.with_name("streams.json")
ADMIN_ANSWERS = ANSWERS.with_name("admin.json")
BROKER_CONFIG_ANSWERS = ANSWERS.with_name("broker_configs.json")
"""Share groups, streams groups, administration and broker configs have separate files."""

_UNFINISHED = ("SETUP", "CONNECT", "SCENARIO", "BROKE", "PREPARE")


class Answers(NamedTuple):
    """Transcripts by scenario name, and the names of scenarios whose answers varied."""

    kept: dict[str, Transcript]
    unstable: list[str]

    @classmethod
    def gather(cls, runs: Sequence[dict[str, Transcript]]) -> Self:
        """Keep the answers on which all runs agree."""
        kept, unstable = {}, []
        for name, steps in sorted(runs[0].items()):
            odd = not steps or any(label in _UNFINISHED for label, _ in steps)
            if odd or any(run[name] != steps for run in runs):
                unstable.append(name)
            else:
                kept[name] = steps
        return cls(kept, unstable)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of `write`."""
        stored = json.loads(path.read_text())
        return cls(stored["answers"], stored["unstable"])

    def over(self, older: Answers) -> Self:
        """Return these answers, plus older answers of scenarios that were not played now."""
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
