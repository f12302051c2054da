"""Fetch: read record batches, now or when enough data is available.

The partitions come from the fetch session; a fetch that finds less than `min_bytes` is delayed as
a DelayedFetch. See `fetch.session` and `fetch.delayed_fetch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.fetch.delayed_fetch import DelayedFetch
from protocol.apis.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: FetchRequest) -> Steps:
    """Respond at once if there is enough data or an error; otherwise delay the fetch."""
    now_ms = broker.client_clock.now_ms()
    context = yield from broker.fetch_sessions.context(request, call.api_version, now_ms)
    if context.error:
        call.reply(FetchResponse(error_code=context.error))
        return
    fetch = DelayedFetch(broker, call, request, context, now_ms)
    purgatory = broker.fetch_purgatory
    changes = purgatory.changes
    yield from fetch.look_up()
    if not (yield from fetch.answer_if_enough(request.max_wait_ms)):
        partitions = fetch.partitions()
        purgatory.watch(fetch, partitions)
        if purgatory.changes != changes:
            # The partition may have changed since an earlier step: check again.
            purgatory.notify(partitions[0])
