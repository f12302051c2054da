"""Record `tests/data/segments`: log segments of a running Kafka, their dumps, and the groups.

    python -m tests.oracle.segments [DIRECTORY]

`GroupLife.java` plays the events of the groups. Kafka is restarted between the offsets that expire
and the other events, so that the logs have two leader epochs. After one more restart, Kafka has
loaded the groups from these logs, and `expected.json` records its description of the groups.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.oracle.kafka_process import Kafka, dump_log_segments, java
from tests.support import ROOT

SEGMENTS = ROOT / "tests" / "data" / "segments"
EXPECTED = "expected.json"
_PROGRAM = Path(__file__).with_name("GroupLife.java")
_SETTINGS = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "1"}
_EXPIRING = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
_LOG = f"{0:020d}.log"
_KEPT = (_LOG, "leader-epoch-checkpoint", "partition.metadata")
_DECODERS = {
    **{f"__consumer_offsets-{number}": "--offsets-decoder" for number in range(4)},
    "__transaction_state-0": "--transaction-log-decoder",
    "life-out-0": "--print-data-log",
}
"""The recorded partitions, with the option of the dump tool that decodes their records."""
_RECORD = re.compile(r'key: (\{"type".*\}) payload: (\{.*\})$', re.M)


def record(out: Path, work: Path) -> None:
    """Record everything into a directory; `work` is for the broker."""
    work.mkdir(parents=True, exist_ok=True)
    _run(work, _SETTINGS | _EXPIRING, "expire")
    _run(work, _SETTINGS, "live")
    for name, decoder in _DECODERS.items():
        partition = out / name
        partition.mkdir(parents=True, exist_ok=True)
        for file in _KEPT:
            shutil.copyfile(work / "data" / name / file, partition / file)
        dump = dump_log_segments([partition / _LOG], decoder, "--deep-iteration")
        dump = dump.replace(f"{partition}/", "./")
        (out / f"{name}.dump.txt").write_text(dump)
    (out / EXPECTED).write_text(_run(work, _SETTINGS, "describe"))


def _run(work: Path, settings: dict[str, str], phase: str) -> str:
    """Run a phase with a Kafka, and return the output."""
    kafka = Kafka(work, settings)
    try:
        kafka.start()
        command = java(str(_PROGRAM), kafka.bootstrap_servers, phase)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        kafka.stop()
    finally:
        kafka.end()
    return done.stdout


def facts(directory: Path) -> dict[str, Any]:
    """Return the groups, and versions and fields of each type of record, of a recording."""
    found: dict[str, Any] = {
        f"group {name}": one for name, one in json.loads((directory / EXPECTED).read_text()).items()
    }
    for dump in sorted(directory.glob("*.dump.txt")):
        topic = dump.name.partition(".")[0].rpartition("-")[0]
        for key, value in _RECORD.findall(dump.read_text()):
            kind = json.loads(key)["type"]
            version, data = json.loads(value).values()
            fields = found.setdefault(f"{topic} record of type {kind} version {version}", {})
            fields |= dict.fromkeys(sorted(_fields(data)), "written")
    return found


def _fields(data: Any, path: str = "") -> Iterator[str]:
    if isinstance(data, list):
        for one in data:
            yield from _fields(one, path)
    elif isinstance(data, dict):
        for name, value in data.items():
            inner = f"{path}.{name}" if path else name
            yield inner
            yield from _fields(value, inner)


def main() -> None:
    """Record into the directory of the command line, or replace the project's recording."""
    out = Path(sys.argv[1]) if sys.argv[1:] else SEGMENTS
    with tempfile.TemporaryDirectory() as work:
        record(out, Path(work))


if __name__ == "__main__":
    main()
