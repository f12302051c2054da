"""Writes the tables of docs/metrics.md: python -m tests.unit.metrics.page."""

from __future__ import annotations

from coordinator_server.metrics.lag import MAX_PARTITIONS
from coordinator_server.metrics.names import METRICS, PROCESS_METRICS, MetricRow
from coordinator_server.metrics.scrape import LOOP_INTERVAL_S
from tests.support import ROOT

PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- generated from metrics/names.py -->\n", "<!-- end -->\n"


def table(rows: tuple[MetricRow, ...]) -> str:
    """Return the table of some metrics in Markdown."""
    lines = [
        "| metric | type | labels | unit | meaning | Kafka (JMX) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        jmx = f"`{row.jmx}`" if row.jmx else ""
        lines.append(
            f"| `{row.name}` | {row.kind.value} | {labels} | {row.unit} | {row.help} | {jmx} |"
        )
    return "\n".join(lines) + "\n"


def generated() -> str:
    """Return the generated part of the page."""
    return (
        f"{BEGIN}\n{table(METRICS)}\n"
        f"On Linux there are also metrics of the process:\n\n{table(PROCESS_METRICS)}\n"
        f"At most {MAX_PARTITIONS} partitions of groups have lag metrics. The lag of the event "
        f"loop is measured every {LOOP_INTERVAL_S:g} s.\n\n{END}"
    )


def page() -> str:
    """Return the page with its generated part replaced."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + generated() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
