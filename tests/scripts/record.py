"""Record the output of Kafka's tools with our broker, and the options of the tools.

    python -m tests.scripts.record [CASES...]

This needs Java and the jars of the oracle tests. `test_recorded` plays the recorded cases.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.scripts import json_texts
from tests.scripts.options import RECORDED, listed_options
from tests.scripts.player import AREAS, HERE, Area, OfficialTools, Player, cases
from tests.support import Broker


def main() -> None:
    """Record the case files named as arguments, or all of them."""
    for area in AREAS:
        if not sys.argv[1:] or area.cases in sys.argv[1:]:
            record(area)
    if not sys.argv[1:] or json_texts.RECORDED.name in sys.argv[1:]:
        record_json_texts()
    with OfficialTools() as tools:
        RECORDED.write_text(json.dumps(listed_options(tools), indent=1) + "\n")


def record(area: Area, out: Path = HERE) -> None:
    """Record the output of Kafka's tools for an area into a directory."""
    with tempfile.TemporaryDirectory() as directory, Broker(area.settings) as broker:
        recorded = []
        with OfficialTools() as tools:
            files = Path(directory, "files")
            player = Player(
                tools,
                broker.bootstrap_servers,
                "k-",
                files,
                users=area.users,
                control=broker.control,
            )
            for case in cases(area):
                outcome = player.play(case)
                if outcome is not None:
                    recorded.append({"case": case.line, **outcome._asdict()})
    (out / area.recorded).write_text(json.dumps(recorded, indent=1) + "\n")


def record_json_texts(out: Path = HERE) -> None:
    """Record the output of Kafka's tool for the recorded texts in a directory."""
    texts = json_texts.read_recorded()
    with tempfile.TemporaryDirectory() as directory, Broker() as broker, OfficialTools() as tools:
        found = json_texts.outcomes(tools, broker.bootstrap_servers, Path(directory), texts)
    (out / json_texts.RECORDED.name).write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
