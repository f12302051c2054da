"""The Prometheus text file, parsed by a second implementation of the format's grammar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import schema
from pipeline.command import main
from pipeline.report.prometheus import export
from pipeline.report.reading import Output, TableRow
from tests.pipeline.report.scene import AT_MS, scene, write

ODD = 'a "quoted" \\ back\nslash, {ü}=1'
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"(,|\})')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse(text: str) -> Samples:
    """Return the samples of a text file; fail if it is malformed or has a duplicate."""
    assert text.endswith("\n")
    samples: Samples = {}
    announced: list[str] = []
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert kind == "gauge"
            assert name not in announced
            announced.append(name)
            continue
        if line.startswith("# HELP "):
            continue
        found = _NAME.match(line)
        assert found is not None, line
        assert found[0] == announced[-1]
        place, labels = found.end(), []
        if line[place] == "{":
            place += 1
            while True:
                label = _LABEL.match(line, place)
                assert label is not None, line[place:]
                value = re.sub(r'\\[\\"n]', lambda one: _ESCAPES[one[0]], label[2])
                labels.append((label[1], value))
                place = label.end()
                if label[3] == "}":
                    break
        assert line[place] == " "
        key = found[0], tuple(sorted(labels))
        assert key not in samples
        samples[key] = float(line[place + 1 :])
    return samples


def sample(found: Samples, name: str, **labels: str) -> float | None:
    """Return the value of a series of the cluster `C-ID`; None if it does not exist."""
    labels = {"cluster_name": "C-ID", **labels}
    return found.get((name, tuple(sorted(labels.items()))))


NO_OWNER = {"member_host": "", "consumer_id": "", "client_id": ""}
OWNER = {"member_host": "/10.0.0.2", "consumer_id": "m-2", "client_id": "app"}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Write tables of two groups on one topic, one with an odd name and no commit on partition 1.

    That group's name has characters which the format must escape.
    """
    place = {"group": "billing", "topic": "orders", "partition": 0}
    odd = {**place, "group": ODD}
    ends = {"at_ms": AT_MS, "log_start": 5, "log_end": 100}
    write(
        tmp_path,
        "tables",
        schema.LAG,
        [
            {**place, **ends, "committed_offset": 90, "lag": 10, "oldest_unread_age_ms": 1500},
            {**odd, **ends, "committed_offset": 100, "lag": 0, "oldest_unread_age_ms": 0},
            {**odd, **ends, "partition": 1, "state": "NO_COMMIT"},
        ],
    )
    write(tmp_path, "tables", schema.COVERAGE, [{"at_ms": AT_MS, "cluster_id": "C-ID"}])
    orders = {"assigned": [{"topic": "orders", "partitions": [0]}], "client_id": "app"}
    # The first generation of billing and the only one of the odd group are over.
    made = [("billing", 1, "generation"), ("billing", 2, "generation"), (ODD, 3, "generation"),
            (ODD, 4, "empty")]  # fmt: skip
    write(
        tmp_path,
        "tables",
        schema.GROUP_GENERATIONS,
        [{"group": group, "log_offset": offset, "event": event} for group, offset, event in made],
    )
    write(
        tmp_path,
        "tables",
        schema.GROUP_MEMBERS,
        [
            {**orders, "group": group, "log_offset": offset, "member_id": f"m-{offset}",
             "client_host": f"/10.0.0.{offset}"} for group, offset, event in made[:3]
        ],
    )  # fmt: skip
    status = {"group": "billing", "status": "WARN", "members": 2}
    write(tmp_path, "tables", schema.STATUS, [status, {**place, "status": "WARN"}])
    return tmp_path


def test_every_series_is_what_the_tables_say(tables: Path, tmp_path: Path) -> None:
    """Series have the tables' values and kafka-lag-exporter's names; unknown values have none."""
    target = tmp_path / "lag.prom"
    export(Output(tables), target)
    found = parse(target.read_text(encoding="utf-8"))
    lag = "kafka_consumergroup_group_lag"
    billing = {"group": "billing", "topic": "orders", "partition": "0", **OWNER}
    odd = {"group": ODD, "topic": "orders", **NO_OWNER}
    assert sample(found, lag, **billing) == 10
    assert sample(found, f"{lag}_seconds", **billing) == 1.5
    assert sample(found, "kafka_consumergroup_group_offset", **billing) == 90
    assert sample(found, lag, **odd, partition="0") == 0
    assert sample(found, lag, **odd, partition="1") is None
    topic = "kafka_consumergroup_group_topic_sum_lag"
    assert sample(found, topic, group="billing", topic="orders") == 10
    assert sample(found, "kafka_consumergroup_group_sum_lag", group="billing") == 10
    assert sample(found, "kafka_consumergroup_group_max_lag_seconds", group=ODD) == 0
    assert sample(found, "kafka_partition_latest_offset", topic="orders", partition="1") == 100
    status = "coordinator_group_status"
    told = [sample(found, status, group="billing", status=one) for one in ("OK", "WARN", "ERR")]
    assert told == [0, 1, 0]
    assert sample(found, "coordinator_group_members", group="billing") == 2
    assert sample(found, "coordinator_pipeline_instant_seconds") == AT_MS / 1000
    assert [path.name for path in tmp_path.glob("*lag*.p*")] == ["lag.prom"]
    assert all(name.startswith(("kafka_", "coordinator_")) for name, _ in found)
    assert {dict(labels)["cluster_name"] for _, labels in found} == {"C-ID"}
    assert (
        LAG_EXPORTER.items()
        <= {name: tuple(label for label, _ in labels) for name, labels in found}.items()
    )


_OF_PARTITION = ("cluster_name", "partition", "topic")
_OF_READER = ("client_id", "cluster_name", "consumer_id", "group", "member_host", "partition",
              "topic")  # fmt: skip
LAG_EXPORTER = {
    "kafka_partition_earliest_offset": _OF_PARTITION,
    "kafka_partition_latest_offset": _OF_PARTITION,
    "kafka_consumergroup_group_offset": _OF_READER,
    "kafka_consumergroup_group_lag": _OF_READER,
    "kafka_consumergroup_group_lag_seconds": _OF_READER,
    "kafka_consumergroup_group_max_lag": ("cluster_name", "group"),
    "kafka_consumergroup_group_max_lag_seconds": ("cluster_name", "group"),
    "kafka_consumergroup_group_sum_lag": ("cluster_name", "group"),
    "kafka_consumergroup_group_topic_sum_lag": ("cluster_name", "group", "topic"),
}
"""The metrics of kafka-lag-exporter with their labels."""


def test_a_run_that_cannot_be_written_leaves_the_file_of_the_run_before(
    tables: Path, tmp_path: Path
) -> None:
    """If a value is not a number, the export fails and the old file stays unchanged."""
    target = tmp_path / "lag.prom"
    export(Output(tables), target)
    text = target.read_text(encoding="utf-8")

    class Broken(Output):
        """The same tables with a number of members that is not a number."""

        def rows(self, table: schema.Table, condition: Any = None) -> list[TableRow]:
            rows = super().rows(table, condition)
            if table is schema.STATUS:
                return [{**row, "members": "two"} for row in rows]
            return rows

    with pytest.raises(ValueError, match="two"):
        export(Broken(tables), target)
    assert target.read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.glob("*lag*.p*")] == ["lag.prom"]


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report --prometheus` writes the metrics file, including forecasts and abandoned groups."""
    target = tmp_path / "state.prom"
    out = scene(tmp_path / "out")
    words = ["--prometheus", str(target), "--cluster-name", "C-ID"]
    assert main(["report", "--out", str(out), *words]) == 0
    assert f"metrics: {target}" in capsys.readouterr().out
    found = parse(target.read_text(encoding="utf-8"))
    place = {"group": "stopped", "topic": "orders", "partition": "0"}
    assert sample(found, "coordinator_offset_expires_seconds", **place) == 150 * 3600
    assert sample(found, "coordinator_unread_slack_seconds", **place) == 5 * 3600
    litter = "console-consumer-48213"
    assert sample(found, "coordinator_group_abandoned_seconds", group=litter) == 3600
