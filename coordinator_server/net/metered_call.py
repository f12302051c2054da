"""A request whose client has a quota.

Source: Kafka's RequestHandlerHelper, KafkaApis.handleProduceRequest and handleFetchRequest. The
response is sent at once and contains the throttle time (KIP-219); then the connection is muted for
that time. The request time is the CPU time of the request's own work in the event loop thread, from
its handler to its encoded response, including all steps of a long request.
"""

from __future__ import annotations

from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from coordinator_server.net.call import Call
from coordinator_server.net.metering import STRICT_SINCE
from coordinator_server.security.quotas.manager import MutationQuota

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.net.metering import Metering
    from coordinator_server.steps import Steps
    from protocol.schema import Message

_PERCENT_PER_NANOSECOND = 100 / 1e9
_FRAME_LENGTH_BYTES = 4


class MeteredCall(Call):
    """A Call that records its client's usage and throttles the client."""

    is_metered = True

    __slots__ = ("_began_ns", "_changes", "_metering", "_spent_ns", "_throttle_ms")

    def __init__(self, metering: Metering, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._metering = metering
        self._changes: MutationQuota | None = None
        self._throttle_ms: int | None = None
        self._spent_ns = self.frame_bytes = 0
        self._began_ns = thread_time_ns() if self._counts_time else 0

    # --- request quota ----------------------------------------------------------------------------

    @property
    def _counts_time(self) -> bool:
        """Whether a quota limits request time. Unauthenticated clients are not charged."""
        return self._metering.request.is_enabled and not self.connection.is_unauthenticated

    def begin(self) -> None:
        """Start counting CPU time."""
        if self._counts_time:
            self._began_ns = thread_time_ns()

    def pause(self) -> None:
        """Stop counting CPU time. Time spent after the response was sent is charged immediately."""
        if self._began_ns:
            self._spent_ns += thread_time_ns() - self._began_ns
            self._began_ns = 0
        if self.answered and self._spent_ns:
            user, client_id = self._who
            used = self._used_percent()
            self._metering.request.note(user, client_id, used, self._metering.now_ms())

    def timed(self, steps: Steps) -> Steps:
        """Yield from `steps` and count their CPU time."""
        while True:
            self.begin()
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self.pause()
            yield

    def run(self, steps: Steps) -> None:
        """Run work for this request in steps, and count its CPU time."""
        super().run(self.timed(steps))

    def _used_percent(self) -> float:
        """Return the CPU time since the last call, as percent of one second of one thread."""
        if self._began_ns:
            now_ns = thread_time_ns()
            self._spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        used = self._spent_ns * _PERCENT_PER_NANOSECOND
        self._spent_ns = 0
        return used

    # --- usage ------------------------------------------------------------------------------------

    @property
    def _who(self) -> tuple[str, str | None]:
        return self.connection.principal.name, self.caller.client_id

    def most_fetched_bytes(self) -> int:
        """Return the maximum bytes of one fetch; larger fetches would be throttled repeatedly."""
        return int(self._metering.fetch.most_in_windows(*self._who))

    def must_throttle_fetch(self, answer_bytes: int) -> bool:
        """Return whether the fetch response must be empty; an empty response is not charged."""
        metering, now_ms = self._metering, self._metering.now_ms()
        user, client_id = self._who
        throttle_ms = self._request_throttle_ms(now_ms)
        if metering.fetch.is_enabled:
            fetch_ms = metering.fetch.record(user, client_id, answer_bytes, now_ms)
            throttle_ms = max(fetch_ms, throttle_ms)
            if throttle_ms:
                metering.fetch.note(user, client_id, -answer_bytes, now_ms)
        self._throttle_ms = throttle_ms
        return throttle_ms > 0

    def may_change_partitions(self, count: int) -> bool:
        """Charge the creation or deletion of partitions; return False if a quota refuses it."""
        metering = self._metering
        if not metering.changes.is_enabled:
            return True
        if self._changes is None:
            # Topics created automatically by another API are charged like a CreateTopics request of
            # the newest version.
            is_strict = self.api_version >= STRICT_SINCE.get(self.api_name, 0)
            self._changes = MutationQuota(metering.changes, *self._who, is_strict=is_strict)
        return self._changes.take(count, metering.now_ms())

    def _request_throttle_ms(self, now_ms: int) -> int:
        if not self._counts_time:
            return 0
        user, client_id = self._who
        return self._metering.request.record(user, client_id, self._used_percent(), now_ms)

    def _produce_throttle_ms(self, now_ms: int) -> int:
        produce = self._metering.produce
        if self.api_name != "Produce" or not produce.is_enabled:
            return 0
        user, client_id = self._who
        return produce.record(user, client_id, self.frame_bytes - _FRAME_LENGTH_BYTES, now_ms)

    # --- throttled responses ----------------------------------------------------------------------

    def reply(self, response: Message) -> None:
        """Send the response, and throttle the client if it is over a quota."""
        throttle_ms = self._throttle_ms
        if throttle_ms is None:
            now_ms = self._metering.now_ms()
            throttle_ms = max(self._produce_throttle_ms(now_ms), self._request_throttle_ms(now_ms))
            if self._changes is not None and self.api_name in STRICT_SINCE:
                throttle_ms = max(throttle_ms, self._changes.throttle_ms(now_ms))
            self._throttle_ms = throttle_ms
        if throttle_ms:
            if hasattr(response, "throttle_time_ms"):
                response = response.copy()  # copy, because other requests may share the response
                response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
            self.connection.mute(throttle_ms)
        super().reply(response)

    def reply_nothing(self) -> None:
        """End the request without a response; only the produce quota is charged."""
        throttle_ms = self._produce_throttle_ms(self._metering.now_ms())
        if throttle_ms:
            self.connection.mute(throttle_ms)
        super().reply_nothing()


def measured(handle: Callable[..., Steps | None]) -> Callable[..., Steps | None]:
    """Return a handler that calls `handle` and counts its CPU time."""

    def serve(broker: object, call: MeteredCall, request: Message) -> Steps | None:
        steps = handle(broker, call, request)
        call.pause()
        return None if steps is None else call.timed(steps)

    return serve
