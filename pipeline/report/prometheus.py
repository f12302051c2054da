"""Export the state of a run as a Prometheus text file, for node_exporter or a push gateway.

Metrics of lag have the names and labels of kafka-lag-exporter, so that dashboards made for it work;
other metrics begin with `coordinator_`. All have the label `cluster_name`. The labels of a member
are empty for a partition without an owner. An unknown value has no line: a gap in a graph, which a
zero would hide. Times are in seconds, as Prometheus recommends. prometheus_client formats the text
from a separate registry, so the file has none of this process's own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline import schema
from pipeline.report.reading import Output, TableRow

STATUSES = ("OK", "WARN", "ERR")
_PARTITION = ("group", "topic", "partition")
_OWNER = {"member_host": "client_host", "consumer_id": "member_id", "client_id": "client_id"}
"""The labels of kafka-lag-exporter for the owner of a partition, and our columns."""

_OWNED = (*_PARTITION, *_OWNER)

Sample = tuple[tuple[object, ...], float | None]
"""The values of a gauge's labels, in their order, and its value; None if the value is unknown."""


def export(output: Output, target: Path, cluster: str | None = None) -> None:
    """Write the metrics file atomically, since a collector may read it at any time.

    `cluster` is the label `cluster_name`, by default the cluster id.
    Raises OSError if the file cannot be written; an existing file then stays unchanged.
    """
    registry = CollectorRegistry()
    registry.register(_Tables(output, cluster))
    write_to_textfile(str(target), registry)


class _Tables(Collector):
    """Exports the tables of a run as gauges; a gauge without a known value is left out."""

    def __init__(self, output: Output, cluster: str | None) -> None:
        self._output = output
        coverage = output.any_row(schema.COVERAGE) or {}
        self._cluster = cluster or coverage.get("cluster_id") or ""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every gauge that has a sample."""
        lag, owners = self._output.rows(schema.LAG), self._output.owners()
        gauges = (
            *_of_lag(lag, owners), *_of_groups(lag, self._output), *_of_forecasts(self._output),
        )  # fmt: skip
        for gauge in gauges:
            if gauge.samples:
                for sample in gauge.samples:
                    sample.labels["cluster_name"] = self._cluster
                yield gauge


def _gauge(
    name: str, help_text: str, labels: tuple[str, ...], samples: Iterable[Sample]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in samples:
        if value is not None:
            gauge.add_metric([str(label) for label in label_values], value)
    return gauge


def _by_partition(
    rows: Iterable[TableRow], value: Callable[[TableRow], float | None]
) -> Iterator[Sample]:
    """Yield one sample per row, labelled with its group and partition."""
    for row in rows:
        yield tuple(row[label] for label in _PARTITION), value(row)


def _of_lag(
    lag: list[TableRow], owners: Mapping[tuple[str, str, int], TableRow]
) -> list[GaugeMetricFamily]:
    """Return the gauges of lag per group and partition, and of log start and end per partition."""

    def owned(value: Callable[[TableRow], float | None]) -> Iterator[Sample]:
        for row in lag:
            place = (row["group"], row["topic"], row["partition"])
            owner = owners.get(place, {})
            yield (*place, *(owner.get(column) or "" for column in _OWNER.values())), value(row)

    ends = sorted({(row["topic"], row["partition"]): row for row in lag}.items())
    return [
        _gauge(
            "kafka_consumergroup_group_offset",
            "Committed offset: the next record to read.",
            _OWNED,
            owned(lambda row: row["committed_offset"]),
        ),
        _gauge(
            "kafka_consumergroup_group_lag",
            "Records to read.",
            _OWNED,
            owned(lambda row: row["lag"]),
        ),
        _gauge(
            "kafka_consumergroup_group_lag_seconds",
            "Age of the oldest unread record.",
            _OWNED,
            owned(lambda row: _seconds(row["oldest_unread_age_ms"])),
        ),
        _gauge(
            "kafka_partition_latest_offset",
            "Log end: the next offset to be written.",
            ("topic", "partition"),
            [(partition, row["log_end"]) for partition, row in ends],
        ),
        _gauge(
            "kafka_partition_earliest_offset",
            "Log start: the first offset there.",
            ("topic", "partition"),
            [(partition, row["log_start"]) for partition, row in ends],
        ),
    ]


def _of_groups(lag: list[TableRow], output: Output) -> list[GaugeMetricFamily]:
    """Return the gauges per group; the status has one sample per possible verdict."""
    of_group: dict[str, list[TableRow]] = {}
    of_topic: dict[tuple[str, str], list[TableRow]] = {}
    for row in lag:
        of_group.setdefault(row["group"], []).append(row)
        of_topic.setdefault((row["group"], row["topic"]), []).append(row)
    groups = [row for row in output.rows(schema.STATUS) if row["topic"] is None]
    return [
        _gauge(
            "kafka_consumergroup_group_sum_lag",
            "Records to read, over all partitions of the group.",
            ("group",),
            [((group,), _over(sum, rows, "lag")) for group, rows in of_group.items()],
        ),
        _gauge(
            "kafka_consumergroup_group_topic_sum_lag",
            "Records to read, over all partitions of the topic.",
            ("group", "topic"),
            [(place, _over(sum, rows, "lag")) for place, rows in of_topic.items()],
        ),
        _gauge(
            "kafka_consumergroup_group_max_lag",
            "Records to read of the partition that is furthest behind.",
            ("group",),
            [((group,), _over(max, rows, "lag")) for group, rows in of_group.items()],
        ),
        _gauge(
            "kafka_consumergroup_group_max_lag_seconds",
            "Age of the oldest record that the group has not read.",
            ("group",),
            [
                ((group,), _seconds(_over(max, rows, "oldest_unread_age_ms")))
                for group, rows in of_group.items()
            ],
        ),
        _gauge(
            "coordinator_group_members",
            "Live members.",
            ("group",),
            [((row["group"],), row["members"]) for row in groups],
        ),
        _gauge(
            "coordinator_group_status",
            "1 for the verdict that holds, 0 for the others.",
            ("group", "status"),
            [
                ((row["group"], status), int(row["status"] == status))
                for row in groups
                for status in STATUSES
            ],
        ),
        _gauge(
            "coordinator_group_abandoned_seconds",
            "Time for which a group that seems abandoned has been silent.",
            ("group",),
            [
                ((row["group"],), _seconds(row["silent_ms"]))
                for row in output.rows(schema.ABANDONED_GROUPS)
            ],
        ),
    ]


def _of_forecasts(output: Output) -> list[GaugeMetricFamily]:
    """Return the gauges of the forecasts, and the instant of the run."""
    expiries = output.rows(schema.OFFSET_EXPIRY_FORECAST)
    losses = output.rows(schema.DATA_LOSS_FORECAST)
    return [
        _gauge(
            "coordinator_offset_expires_seconds",
            "Time until the committed offset may be removed.",
            _PARTITION,
            _by_partition(expiries, lambda row: _seconds(row["expires_in_ms"])),
        ),
        _gauge(
            "coordinator_unread_slack_seconds",
            "Time until retention may remove the oldest unread record.",
            _PARTITION,
            _by_partition(losses, lambda row: _seconds(row["slack_ms"])),
        ),
        _gauge(
            "coordinator_pipeline_instant_seconds",
            "The instant that all of this is about, since 1970.",
            (),
            [((), _seconds(output.at_ms))],
        ),
    ]


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _over(choose: Callable[[list[int]], int], rows: list[TableRow], name: str) -> int | None:
    values = [row[name] for row in rows if row[name] is not None]
    return choose(values) if values else None
