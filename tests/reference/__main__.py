"""Compare a release of Apache Kafka with our tables, and record our suites from that release.

    python -m tests.reference VERSION [--out DIR] [--suites scenarios,access,..]

The release is fetched; its message definitions, settings, error codes, APIs, features and tool
options are compared with ours. The suites are recorded into DIR (`reference-VERSION`). A line has
the first part of an answer that differs, and the names of all answers that differ in the same way.
Answers that differ are recorded again; answers that vary are listed separately. The last lines list
the decisions to make. Without `--suites` all suites are recorded, which takes an hour;
`--suites none` only compares. `--only 'share_*'` records the scenarios whose names match.

The suite `scenarios` takes more than half of that time. If it is interrupted, the same command
continues after the last part that is written to DIR (`part-*.json`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from time import monotonic

from protocol import REFERENCE_VERSION
from tests.maven import fetch
from tests.oracle.kafka_process import POM, Kafka, jars
from tests.reference import tables
from tests.reference.definitions import declarations, differences, read_definitions
from tests.reference.report import Report
from tests.reference.scenarios import scenarios
from tests.reference.suites import SUITES, Suite
from tests.support import ROOT, Broker

_SHOWN = 40
_WIDTH = 240
_AGAIN = "record them with less load on the machine"


def main() -> int:
    """Compare and record; return 1 if anything differs."""
    options = _options()
    directory = ROOT / f".kafka-{options.version}"
    os.environ["ORACLE_JARS"] = str(fetch(POM, directory, f"kafka.version={options.version}"))
    out = options.out or Path(f"reference-{options.version}")
    out.mkdir(parents=True, exist_ok=True)
    decisions = []
    started = monotonic()
    for name, what, report in _comparisons(out, _chosen(options)):
        lines = report.described
        file = out / f"{name}.txt"
        file.write_text("".join(f"{line}\n" for line in lines))
        shown = [_shortened(line) for line in lines[:_SHOWN]]
        if lines[_SHOWN:]:
            shown.append(f"and {len(lines) - _SHOWN} more lines in {file}")
        seconds = monotonic() - started
        print(f"\n== {name}: {report.total} differ, after {seconds:.0f} s", *shown, sep="\n  ")
        sys.stdout.flush()
        if report.total:
            decisions.append(f"{name} ({report.total}, {file}): {what}")
        if report.unstable:
            decisions.append(f"{name}: {len(report.unstable)} not the same each time: {_AGAIN}")
    release = f"Apache Kafka {options.version}, compared with {REFERENCE_VERSION}"
    print(f"\n== decisions to make about {release}")
    print("\n".join(f"  {one}" for one in decisions) or "  nothing")
    return 1 if decisions else 0


def _shortened(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}.."


def _chosen(options: argparse.Namespace) -> dict[str, Suite]:
    chosen = {name: SUITES[name] for name in options.suites}
    if "scenarios" in chosen:
        chosen["scenarios"] = partial(scenarios, only=options.only)
    return chosen


def _comparisons(out: Path, suites: Mapping[str, Suite]) -> Iterator[tuple[str, str, Report]]:
    """Yield the name of each comparison, the decision that it calls for, and the differences."""
    yield "messages", "declare them in protocol/, with vectors", Report.of_lines(list(_messages()))
    theirs = tables.described()
    yield (
        "settings",
        "serve, keep without effect, or refuse: coordinator_server/config, then write "
        "tests/data/reference/settings.json",
        Report.of_lines(list(tables.setting_differences(theirs))),
    )
    yield (
        "errors",
        "protocol/errors.py and error_messages.py",
        Report.of_lines(list(tables.error_differences(theirs))),
    )
    with tempfile.TemporaryDirectory() as work, Broker() as ours:
        kafka = Kafka(Path(work), {}, takes_telemetry=True)
        try:
            kafka.start()
            yield (
                "apis",
                "protocol/registry.py; levels in coordinator_server/apis/api_versions.py",
                Report.of_lines(
                    list(tables.api_differences(kafka.bootstrap_servers, ours.bootstrap_servers))
                ),
            )
        finally:
            kafka.end()
    for name, suite in suites.items():
        with tempfile.TemporaryDirectory() as work:
            decide = f"answer as the release does, or explain the difference; records: {out}"
            yield name, decide, recorded(suite, out, Path(work) / "kafka")


def recorded(suite: Suite, out: Path, work: Path) -> Report:
    """Return the differences in a suite, or the error that ended it."""
    try:
        return Report.of_recording(suite(out, work))
    except Exception as error:
        traceback.print_exc()
        return Report.of_lines([f"not recorded: {error!r}"])


def _messages() -> Iterator[str]:
    definitions, ours = read_definitions(jars()), declarations()
    for name, definition in sorted(definitions.items()):
        if name in ours:
            yield from (f"{name} {one}" for one in differences(definition, ours[name]))
        elif definition["isServed"]:
            yield f"{name} is not declared here, versions {definition['validVersions']}"
    yield from (f"{name} is gone" for name in sorted(ours.keys() - definitions.keys()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.reference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("version", metavar="VERSION", help="of Apache Kafka, as 4.4.0")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the records go")
    parser.add_argument(
        "--suites", type=_suites, default=list(SUITES), help=f"some of {', '.join(SUITES)}, or none"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="names of scenarios to record"
    )
    return parser.parse_args()


def _suites(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    if unknown := [name for name in names if name not in SUITES]:
        raise argparse.ArgumentTypeError(f"unknown suite {unknown[0]!r}")
    return names


if __name__ == "__main__":
    sys.exit(main())
