"""The control request for metrics; `coordinator_server.metrics` has the metrics themselves."""

from __future__ import annotations

from coordinator_server.control.request import Content, ControlError, ControlRequest


async def metrics(request: ControlRequest) -> Content:
    """GET /metrics: return all metrics for Prometheus. Raises ControlError without metrics.

    The metrics name all topics and groups, so a user needs the rights on all of them.
    """
    from coordinator_server.metrics.scrape import scraper_of

    request.require("DESCRIBE", "TOPIC", "*")
    request.require("DESCRIBE", "GROUP", "*")
    scraper = await scraper_of(request.cluster)
    if scraper is None:
        raise ControlError(404, "this broker counts nothing: it was started without metrics")
    headers = request.headers
    accept, encodings = headers.get("accept", ""), headers.get("accept-encoding", "")
    shown = await scraper.scrape(accept, encodings)
    return Content(shown.body, shown.content_type, shown.headers)
