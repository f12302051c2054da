"""The page, the dashboard and the alert rules match the table of metrics."""

from __future__ import annotations

import json
import re

from coordinator_server.metrics.names import METRICS, MetricKind
from tests.support import ROOT
from tests.unit.metrics.examples import EXAMPLES, METRIC, dashboard, names_in_rules, served
from tests.unit.metrics.page import PAGE, page

PIPELINE = ROOT / "pipeline" / "report" / "prometheus.py"


def test_the_page_has_every_metric() -> None:
    """`python -m tests.unit.metrics.page` does not change docs/metrics.md."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_names_follow_the_conventions_of_prometheus() -> None:
    """Only counters end in _total; seconds and bytes are in the name; names are unique."""
    names = [row.name for row in METRICS]
    assert len(set(names)) == len(names)
    for row in METRICS:
        assert re.fullmatch(r"coordinator(_[a-z]+)+", row.name)
        assert row.name.endswith("_total") == (row.kind is MetricKind.COUNTER), row.name
        stem = row.name.removesuffix("_total")
        for unit in ("seconds", "bytes"):
            assert stem.endswith(f"_{unit}") == (row.unit == unit), row.name
        assert row.help.endswith(".")


def test_the_dashboard_is_what_its_script_writes() -> None:
    """dashboard.json is up to date."""
    written = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
    assert written == dashboard()


def test_the_dashboard_refers_to_served_metrics() -> None:
    """Queries and variables of the dashboard use metrics of the table only."""
    model = dashboard()
    queries = [
        target["expr"] for panel in model["panels"] for target in panel.get("targets", ())
    ] + [one["definition"] for one in model["templating"]["list"] if "definition" in one]
    found = set(METRIC.findall(" ".join(queries)))
    assert found
    assert found <= served()


def test_the_dashboard_is_placed_without_overlaps() -> None:
    """Panels have unique ids, fit the width of 24, do not overlap, and use the variable source."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        mine = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not mine & cells, panel["title"]
        cells |= mine
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"


def test_the_alert_rules_refer_to_served_metrics() -> None:
    """alerts.yml uses only metrics of the table.

    pipeline-alerts.yml uses only metrics of the pipeline.
    """
    found = names_in_rules("alerts.yml")
    assert found
    assert found <= served()
    exported = set(METRIC.findall(PIPELINE.read_text(encoding="utf-8")))
    of_pipeline = names_in_rules("pipeline-alerts.yml")
    assert of_pipeline
    assert of_pipeline <= exported
