"""The command `report`: write the page, print the summary, and with --alert check for trouble.

Exit codes: 0 done; 1 no data for a report, or a file cannot be written; 3 with `--alert` if a group
is in error or records may be lost, with the reasons on stderr.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ALERT = 3
_SHOWN = 10


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options of `report`."""
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="directory with the tables of `run`"
    )
    command.add_argument(
        "--html", type=Path, metavar="FILE", help="file of the page (default: report.html in DIR)"
    )
    command.add_argument(
        "--prometheus",
        type=Path,
        metavar="FILE",
        help="also write the state to this file in the Prometheus text format",
    )
    command.add_argument(
        "--cluster-name",
        metavar="NAME",
        help="label cluster_name of the metrics (default: the cluster id)",
    )
    command.add_argument(
        "--alert",
        action="store_true",
        help="exit with code 3 if a group is in error or records may be lost",
    )


def run(options: argparse.Namespace) -> int:
    """Write the page, print the summary, and return the exit code."""
    from pipeline.report.findings import find
    from pipeline.report.page import render
    from pipeline.report.reading import NoReportError, Output

    page = options.html or options.out / "report.html"
    try:
        output = Output(options.out)
        findings = find(output)
        page.write_text(render(findings), encoding="utf-8")
        from pipeline.report.summary import summary

        print(summary(findings, _SHOWN))
        print(f"page: {page}")
        if options.prometheus is not None:
            from pipeline.report.prometheus import export

            export(output, options.prometheus, options.cluster_name)
            print(f"metrics: {options.prometheus}")
    except NoReportError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}")
    if options.alert and findings.alarms:
        for reason in findings.alarms:
            print(f"alert: {reason}", file=sys.stderr)
        return ALERT
    return 0


def _failed(reason: str) -> int:
    print(f"coordinator-server pipeline report: {reason}", file=sys.stderr)
    return 1
