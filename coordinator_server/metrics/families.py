"""Turns samples into prometheus_client's metrics, as the table of names describes them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)

from coordinator_server.metrics.names import ROWS, MetricKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from coordinator_server.counting.buckets import Buckets

SAMPLES_PER_CHUNK = 250
"""Samples that are rendered in one step, about 2 ms."""

Labels = tuple[object, ...]


def text(value: object) -> str:
    r"""Return a label value. Lone surrogates, which UTF-8 cannot encode, become like \ud800."""
    label = str(value)
    if label.isascii():
        return label
    return label.encode("utf-8", "backslashreplace").decode()


def numbers(name: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[Metric]:
    """Yield a counter or gauge in chunks, at least one; chunks of one metric are adjacent."""
    row = ROWS[name]
    new_metric = CounterMetricFamily if row.kind is MetricKind.COUNTER else GaugeMetricFamily
    metric = new_metric(name, row.help, labels=row.labels)
    count = 0
    for labels, value in samples:
        metric.add_metric([text(label) for label in labels], value)
        count += 1
        if not count % SAMPLES_PER_CHUNK:
            yield metric
            metric = new_metric(name, row.help, labels=row.labels)
    if not count or count % SAMPLES_PER_CHUNK:
        yield metric


def number(name: str, value: float) -> Iterator[Metric]:
    """Yield a counter or gauge without labels."""
    return numbers(name, [((), value)])


def histogram(name: str, samples: Iterable[tuple[Labels, Buckets]]) -> Iterator[Metric]:
    """Yield a histogram, in chunks."""
    row = ROWS[name]
    metric = HistogramMetricFamily(name, row.help, labels=row.labels)
    is_empty = True
    for labels, buckets in samples:
        counts = accumulate(buckets.counts)
        bounds = [*map(repr, buckets.bounds), "+Inf"]
        metric.add_metric(
            [text(label) for label in labels],
            buckets=list(zip(bounds, counts, strict=True)),
            sum_value=buckets.total,
        )
        is_empty = False
        if len(metric.samples) >= SAMPLES_PER_CHUNK:
            yield metric
            metric = HistogramMetricFamily(name, row.help, labels=row.labels)
    if metric.samples or is_empty:
        yield metric


def summary(name: str, count: int, total: float) -> Iterator[Metric]:
    """Yield a summary without labels and quantiles."""
    row = ROWS[name]
    metric = SummaryMetricFamily(name, row.help, labels=row.labels)
    metric.add_metric([], count_value=count, sum_value=total)
    yield metric
