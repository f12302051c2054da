"""`make pipeline` runs a workload and makes tables and report; the notebook reads the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipeline import schema
from pipeline.report.reading import Output, TableRow
from tests.support import ROOT

_EXAMPLE = ROOT / "examples" / "offset_pipeline"
_SECONDS = 900


pytestmark = pytest.mark.nightly


class Demo(NamedTuple):
    """The output folder of `make pipeline`, and its standard output."""

    directory: Path
    printed: str

    def rows(self, table: schema.Table) -> list[TableRow]:
        """Return the rows of a table."""
        return Output(self.directory / "out").rows(table)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run `make pipeline` once, with the interpreter of the tests, so that nothing is installed."""
    directory = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [
            "make",
            "--old-file=.venv/.installed-pipeline",
            f"BIN={Path(sys.executable).parent}",
            f"PIPELINE_DIR={directory}",
            "pipeline",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return Demo(directory, done.stdout)


def test_the_three_groups_are_what_they_are(demo: Demo) -> None:
    """`billing` is OK, `reports` lags, `old-export` is abandoned; page and summary show this."""
    status = {row["group"]: row for row in demo.rows(schema.STATUS) if row["topic"] is None}
    assert {group: row["status"] for group, row in status.items()} == {
        "billing": "OK",
        "reports": "WARN",
        "old-export": "ERR",
    }
    assert status["billing"]["lag"] < status["reports"]["lag"]
    assert "the lag never falls" in status["reports"]["rule"]
    (abandoned,) = demo.rows(schema.ABANDONED_GROUPS)
    assert abandoned["group"] == "old-export"
    assert abandoned["silent_ms"] > 2 * 24 * 3600 * 1000
    page = demo.directory / "out" / "report.html"
    assert f"page: {page}" in demo.printed
    assert "reports" in demo.printed
    assert "1 groups that nobody seems to need" in demo.printed
    text = page.read_text(encoding="utf-8")
    assert all(group in text for group in status)
    assert 'kafka_consumergroup_group_lag{group="reports"' in (
        demo.directory / "metrics.prom"
    ).read_text(encoding="utf-8")


def test_rebalances_are_told_with_their_cause(demo: Demo) -> None:
    """Three members join `billing` one by one, one leaves, and each rebalance has a trigger."""
    told = [row for row in demo.rows(schema.REBALANCES) if row["group"] == "billing"]
    sizes = [row["members"] for row in sorted(told, key=lambda row: row["generation"])]
    assert sizes[0] == 1
    assert max(sizes) == 3
    assert sizes[-1] == 2
    assert all(row["trigger"] for row in told)


def test_the_notebook_reads_them(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's cells run on the tables in one namespace; the file is kept without output."""
    notebook = json.loads((_EXAMPLE / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    monkeypatch.setenv("PIPELINE_OUT", str(demo.directory / "out"))
    namespace: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), namespace)
    assert set(namespace["by_group"].index) == {"billing", "reports", "old-export"}
    lags = {row["group"]: 0 for row in demo.rows(schema.LAG)}
    for row in demo.rows(schema.LAG):
        lags[row["group"]] += row["lag"] or 0
    assert namespace["by_group"]["records"].to_dict() == lags
    assert namespace["verdicts"].loc["billing", "status"] == "OK"
    assert len(namespace["rebalances"]) == len(demo.rows(schema.REBALANCES))
    assert lags["billing"] == 0
    # The lag of `reports` has grown. The last lag of `billing` is at most the records of one
    # commit.
    over_time = namespace["over_time"]
    assert over_time["reports"].dropna().iloc[-1] > over_time["reports"].dropna().iloc[0]
    assert over_time["billing"].dropna().iloc[-1] <= 30
