"""Write the Grafana dashboard: python dashboard.py > dashboard.json."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

SCHEMA_VERSION = 41
"""Version of Grafana's dashboard model, of Grafana 12; later releases migrate it."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8


class Panel(NamedTuple):
    """A graph, with a query and a legend per line. `width` is in 24ths of a row."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    width: int = 8
    kind: str = "timeseries"


_BROKER = 'broker=~"$broker"'
_GROUP = f'{_BROKER},group=~"$group",topic=~"$topic"'


def _rate(name: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({name}{{{_BROKER}{more}}}[$__rate_interval]))"


def _quantile(q: float, name: str, by: str) -> str:
    return f"histogram_quantile({q}, {_rate(f'{name}_bucket', f'le, {by}')})"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Overview": (
        Panel("Groups", "short", ((f"sum(coordinator_groups{{{_BROKER}}})", ""),), 4, "stat"),
        Panel("Members", "short", ((f"sum(coordinator_members{{{_BROKER}}})", ""),), 4, "stat"),
        Panel("Topics", "short", (("max(coordinator_topics)", ""),), 4, "stat"),
        Panel(
            "Connections", "short", ((f"sum(coordinator_connections{{{_BROKER}}})", ""),), 4, "stat"
        ),
        Panel(
            "Open transactions",
            "short",
            ((f"sum(coordinator_transactions_open{{{_BROKER}}})", ""),),
            4,
            "stat",
        ),
        Panel("Greatest lag", "s", (("max(coordinator_group_lag_seconds)", ""),), 4, "stat"),
    ),
    "Groups": (
        Panel(
            "Lag in time",
            "s",
            (
                (
                    f"max by (group, topic) (coordinator_group_lag_seconds{{{_GROUP}}})",
                    "{{group}} {{topic}}",
                ),
            ),
            12,
        ),
        Panel(
            "Lag in records",
            "short",
            (
                (
                    f"sum by (group, topic) (coordinator_group_lag_records{{{_GROUP}}})",
                    "{{group}} {{topic}}",
                ),
            ),
            12,
        ),
        Panel(
            "Groups by state",
            "short",
            ((f"sum by (type, state) (coordinator_groups{{{_BROKER}}})", "{{type}} {{state}}"),),
        ),
        Panel(
            "Rebalances by cause",
            "ops",
            ((_rate("coordinator_rebalances_total", "type, cause"), "{{type}} {{cause}}"),),
        ),
        Panel(
            "Rebalance phases, p99",
            "s",
            (
                (
                    _quantile(0.99, "coordinator_rebalance_phase_seconds", "type, phase"),
                    "{{type}} {{phase}}",
                ),
            ),
        ),
        Panel(
            "Removed members",
            "ops",
            ((_rate("coordinator_members_removed_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            "Committed offsets",
            "ops",
            ((_rate("coordinator_offset_commits_total", "broker"), "broker {{broker}}"),),
        ),
        Panel(
            "Lost records",
            "short",
            (
                (
                    f"sum by (group, topic) (coordinator_group_lost_records{{{_GROUP}}})",
                    "{{group}} {{topic}}",
                ),
            ),
        ),
    ),
    "Share groups and transactions": (
        Panel(
            "Records in flight",
            "short",
            (
                (
                    f"sum by (group, state) (coordinator_share_records{{{_BROKER}}})",
                    "{{group}} {{state}}",
                ),
            ),
            6,
        ),
        Panel(
            "Lag of share groups",
            "short",
            (
                (
                    f"sum by (group, topic) (coordinator_share_lag_records{{{_GROUP}}})",
                    "{{group}} {{topic}}",
                ),
            ),
            6,
        ),
        Panel(
            "Transactions by outcome",
            "ops",
            ((_rate("coordinator_transactions_total", "outcome"), "{{outcome}}"),),
            6,
        ),
        Panel(
            "Oldest open transaction",
            "s",
            (
                (
                    f"max by (broker) (coordinator_transaction_oldest_seconds{{{_BROKER}}})",
                    "broker {{broker}}",
                ),
            ),
            6,
        ),
    ),
    "Requests": (
        Panel("Requests", "reqps", ((_rate("coordinator_requests_total", "api"), "{{api}}"),)),
        Panel(
            "Latency, p99",
            "s",
            ((_quantile(0.99, "coordinator_request_seconds", "api"), "{{api}}"),),
        ),
        Panel(
            "Errors",
            "ops",
            (
                (
                    _rate("coordinator_response_errors_total", "api, error", ',error!="NONE"'),
                    "{{api}} {{error}}",
                ),
            ),
        ),
        Panel(
            "Bytes",
            "Bps",
            (
                (_rate("coordinator_request_bytes_total", "broker"), "in, broker {{broker}}"),
                (_rate("coordinator_response_bytes_total", "broker"), "out, broker {{broker}}"),
            ),
        ),
        Panel(
            "Connections by listener",
            "short",
            (
                (
                    f"sum by (broker, listener) (coordinator_connections{{{_BROKER}}})",
                    "{{listener}}, broker {{broker}}",
                ),
                (
                    _rate("coordinator_connections_accepted_total", "listener"),
                    "{{listener}}: new/s",
                ),
            ),
        ),
        Panel(
            "Waiting operations", "short", (("coordinator_delayed_operations", "{{operation}}"),)
        ),
    ),
    "Process and logs": (
        Panel(
            "Event loop lag, p99",
            "s",
            (
                (
                    "histogram_quantile(0.99, sum by (le, instance) "
                    "(rate(coordinator_event_loop_lag_seconds_bucket[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "CPU", "percentunit", (("rate(process_cpu_seconds_total[$__rate_interval])", "CPU"),)
        ),
        Panel("Memory", "bytes", (("process_resident_memory_bytes", "resident"),)),
        Panel(
            "Size of logs",
            "bytes",
            (("topk(20, sum by (topic) (coordinator_log_size_bytes))", "{{topic}}"),),
        ),
        Panel(
            "Syncs of logs",
            "s",
            (
                (
                    "rate(coordinator_log_flush_seconds_sum[$__rate_interval])"
                    " / rate(coordinator_log_flush_seconds_count[$__rate_interval])",
                    "mean",
                ),
            ),
        ),
        Panel(
            "Compactions",
            "ops",
            (("rate(coordinator_log_compactions_total[$__rate_interval])", "runs"),),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard in Grafana's JSON model."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(_placed({"type": "row", "title": title, "collapsed": False}, panels, 0, y))
        panels[-1]["gridPos"] |= {"w": WIDTH, "h": 1}
        x, y = 0, y + 1
        height = HEIGHT // 2 if row[0].kind == "stat" else HEIGHT
        for panel in row:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            panels.append(_placed(_panel(panel), panels, x, y))
            panels[-1]["gridPos"] |= {"w": panel.width, "h": height}
            x += panel.width
        y += height
    return {
        "title": "coordinator-server",
        "uid": "coordinator-server",
        "tags": ["kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": panels,
    }


def _placed(panel: dict[str, Any], panels: list[Any], x: int, y: int) -> dict[str, Any]:
    return {"id": len(panels) + 1, **panel, "gridPos": {"x": x, "y": y}}


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": query}
        | ({"legendFormat": legend} if legend else {})
        for number, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": targets,
    }


def _variables() -> list[dict[str, Any]]:
    """Return the variables: the data source, and the labels to filter by."""
    labels = {
        "broker": "label_values(coordinator_broker_info, broker)",
        "group": "label_values(coordinator_group_lag_records, group)",
        "topic": "label_values(coordinator_log_size_bytes, topic)",
    }
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        *(
            {
                "name": name,
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": ["All"], "value": ["$__all"]},
            }
            for name, query in labels.items()
        ),
    ]


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    sys.stdout.write("\n")
