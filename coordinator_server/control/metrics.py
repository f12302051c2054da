"""The control request for metrics; `coordinator_server.metrics` has the metrics themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import Content, ControlError, ControlRequest

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


async def metrics(request: ControlRequest) -> Content:
    """GET /metrics: return all metrics for Prometheus. Raises ControlError without metrics.

    The metrics name all topics and groups, so a user needs the rights on all of them.
    """
    from coordinator_server.metrics.scrape import scraper_of

    if request.user is not None and not await in_steps(_sees_all(request)):
        text = f"{request.user} may not do that: no ACL allows DESCRIBE on all topics and groups"
        raise ControlError(403, text)
    scraper = await scraper_of(request.cluster)
    if scraper is None:
        raise ControlError(404, "this broker counts nothing: it was started without metrics")
    if request.state is not None:
        request.state.scraper = scraper
    headers = request.headers
    accept, encodings = headers.get("accept", ""), headers.get("accept-encoding", "")
    shown = await scraper.scrape(accept, encodings)
    return Content(shown.body, shown.content_type, shown.headers)


def _sees_all(request: ControlRequest) -> Computation[bool]:
    """Return whether the user may see all topics and groups that exist, in steps.

    An ACL for the name `*` is not enough: a deny ACL takes precedence for its topics and groups.
    """
    for topic in tuple(request.cluster.topics.all_topics()):
        if not request.sees_topic(topic.name):
            return False
        yield
    for broker in tuple(request.cluster.brokers.values()):
        for group_id in tuple(broker.groups.tasks):
            if not request.sees_group(group_id):
                return False
            yield
    return True
