"""Records what Kafka's tools print about our broker: `python -m tests.scripts.record`.

It needs Java and the jars of the oracle tests. `test_recorded` plays what is recorded.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.scripts.player import RECORDED, SETTINGS, OfficialTools, Player, cases
from tests.support import Broker


def main() -> None:
    """Write `recorded.json`."""
    with tempfile.TemporaryDirectory() as directory, Broker(SETTINGS) as broker:
        recorded = []
        with OfficialTools() as tools:
            player = Player(tools, broker.bootstrap_servers, "k-", Path(directory, "files"))
            for case in cases():
                outcome = player.play(case)
                if outcome is not None:
                    recorded.append({"case": case.line, **outcome._asdict()})
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
