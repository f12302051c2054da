"""The files of examples/prometheus, and the metrics that they use."""

from __future__ import annotations

import re
from runpy import run_path
from typing import Any

from coordinator_server.metrics.names import METRICS, PROCESS_METRICS, series_of
from tests.support import ROOT

EXAMPLES = ROOT / "examples" / "prometheus"

METRIC = re.compile(r"\b(?:coordinator|process|kafka)_[a-z_]+\b")


def dashboard() -> dict[str, Any]:
    """Return the dashboard that the script of the example writes."""
    model: dict[str, Any] = run_path(str(EXAMPLES / "dashboard.py"))["dashboard"]()
    return model


def served() -> set[str]:
    """Return the names of all series of the broker."""
    return {series for row in (*METRICS, *PROCESS_METRICS) for series in series_of(row)}


def names_in_rules(name: str) -> set[str]:
    """Return the metrics in the expressions of a rules file."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    found = re.findall(r"^ +expr: (.*?)\n +(?:for|labels):", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("- alert:")
    return set(METRIC.findall(" ".join(found)))
