"""Answers `GET /metrics`: collects and renders the metrics in steps.

prometheus_client is imported with the first scrape, in a thread, because the import would hold the
event loop for 100 ms. The library chooses the format by the Accept header, OpenMetrics or
Prometheus text. Metrics are rendered in small chunks, so that a scrape of 10 000 groups holds the
event loop for a few milliseconds at a time.
"""

from __future__ import annotations

import asyncio
import zlib
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from coordinator_server.cluster import Cluster
    from coordinator_server.counting.counts import Counts
    from coordinator_server.steps import Steps

LOOP_INTERVAL_S = 0.25
"""Interval of the timer that measures the delays of the event loop."""

_GZIP_WINDOW_BITS = 31
_GZIP_LEVEL = 4
_END_OF_OPENMETRICS = b"# EOF\n"
_HEADER = b"# "


class Exposition(NamedTuple):
    """A rendered scrape: its content type, its body and further headers."""

    content_type: str
    body: bytearray
    headers: Mapping[str, str]


class _Chunk(NamedTuple):
    """A collector of one metric, for prometheus_client's renderers."""

    metrics: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        """Return the metric."""
        return self.metrics


class Scraper:
    """Scrapes one cluster. The timestamps that a scrape has read are kept for the next scrape."""

    def __init__(self, cluster: Cluster, counts: Counts) -> None:
        from prometheus_client import ProcessCollector

        from coordinator_server.metrics.lag import CommittedLagReader

        self._cluster = cluster
        self._counts = counts
        self._lag = CommittedLagReader(cluster)
        self._process = ProcessCollector(registry=None)
        self._last_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._measure_loop()

    def stop(self) -> None:
        """End the measurement of the event loop. The next scrape needs a new Scraper."""
        if self._timer is not None:
            self._timer.cancel()
        self._counts.scraper = None

    async def scrape(self, accept: str, accept_encoding: str) -> Exposition:
        """Return the metrics in the format and encoding that the client accepts."""
        from prometheus_client.exposition import choose_encoder, gzip_accepted

        began_s = perf_counter()
        render, content_type = choose_encoder(accept)
        headers = {"Vary": "Accept, Accept-Encoding"}
        compressor = None
        if gzip_accepted(accept_encoding):
            compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            headers["Content-Encoding"] = "gzip"
        body = bytearray()

        def work() -> Steps:
            for text in self._rendered(render):
                body.extend(text if compressor is None else compressor.compress(text))
                yield

        await _done(self._cluster, work())
        if compressor is not None:
            body += compressor.flush()
        self._last_s = perf_counter() - began_s
        return Exposition(content_type, body, headers)

    def _rendered(self, render: Callable[[_Chunk], bytes]) -> Iterator[bytes]:
        """Yield the text of each chunk.

        At the end of a step that yields no metric, the text is empty.
        """
        name = ""
        is_openmetrics = False
        for metric in self._metrics():
            if metric is None:
                yield b""
                continue
            text = render(_Chunk((metric,)))
            if text.endswith(_END_OF_OPENMETRICS):
                text = text.removesuffix(_END_OF_OPENMETRICS)
                is_openmetrics = True
            while metric.name == name and text.startswith(_HEADER):
                text = text[text.index(b"\n") + 1 :]  # an earlier chunk has the header lines
            name = metric.name
            yield text
        if is_openmetrics:
            yield _END_OF_OPENMETRICS

    def _metrics(self) -> Iterator[Metric | None]:
        from coordinator_server.metrics.collect import collect
        from coordinator_server.metrics.families import number

        yield from collect(self._cluster, self._counts, self._lag)
        yield from number("coordinator_scrape_seconds", self._last_s)
        yield from self._process.collect()

    def _measure_loop(self) -> None:
        """Observe the delay of this timer, and set it again."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if self._due_s:
            self._counts.loop_lag.observe(max(now_s - self._due_s, 0.0))
        self._due_s = now_s + LOOP_INTERVAL_S
        self._timer = loop.call_at(self._due_s, self._measure_loop)


async def scraper_of(cluster: Cluster) -> Scraper | None:
    """Return the scraper of a cluster, created by the first call; None without metrics."""
    counts = cluster.shared.counts
    if counts is None:
        return None
    if counts.scraper is None:
        await asyncio.to_thread(import_module, "coordinator_server.metrics.collect")
    if not isinstance(counts.scraper, Scraper):
        counts.scraper = Scraper(cluster, counts)
    return counts.scraper


async def _done(cluster: Cluster, steps: Steps) -> None:
    """Wait until the step runner has run all steps. Raises what a step raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def guarded() -> Steps:
        try:
            for _ in steps:
                if future.cancelled():  # the client has disconnected
                    return
                yield
            if not future.done():
                future.set_result(None)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        finally:
            if not loop.is_closed():
                future.cancel()

    cluster.step_runner.run(guarded())
    await future
