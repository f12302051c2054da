"""Tracing: spans of requests and rebalances, and the events of the log.

This is an error boundary: a bug in tracing costs a span or a log record, and the event
`tracing.failed` reports the bug.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coordinator_server import __version__
from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.counting.error_codes import ErrorCodes
from coordinator_server.events.log import LOG
from coordinator_server.net.call import Call, derived
from coordinator_server.net.metered_call import MeteredCall
from coordinator_server.tracing.export import STOP_SECONDS, Export
from coordinator_server.tracing.members import (
    MEMBERSHIP,
    Members,
    kind_of,
    member_ids,
)
from coordinator_server.tracing.traceparents import traceparents
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from opentelemetry.trace import SpanContext

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.core.groups.explain import Cause, Rebalance
    from coordinator_server.net.dispatch import RequestCounter
    from coordinator_server.net.metering import Metering
    from coordinator_server.steps import Steps
    from coordinator_server.tracing.options import TracingOptions
    from protocol.registry import ApiSpec
    from protocol.schema import Message

    Explain = Callable[[str, Rebalance], None]

_T = TypeVar("_T")

MOST_LINKS = 100
"""Limit of the links of a rebalance."""

_EXPECTED = frozenset((ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS))
"""Errors in the normal course of a group; a span with such an error does not have the status."""

_OF_MEMBERS = frozenset((ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS))
"""Error codes of responses to members of the group."""

_FAILED = "tracing.failed"
_POLL_SECONDS = 0.02


class Tracing:
    """The traces and logs of a process. Needs a running event loop."""

    def __init__(self, options: TracingOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_ms = SystemClock().now_ms
        self._export = Export(options, __version__, self._failed)
        self._propagator = TraceContextTextMapPropagator()
        self.members = Members()

    def start(self) -> None:
        """Send the events of the log from now on."""
        LOG.mirror(partial(_guarded, self._log))

    async def stop(self) -> None:
        """Export what waits, for at most STOP_SECONDS."""
        LOG.mirror(None)
        done = self._export.stop()
        deadline_s = self._loop.time() + STOP_SECONDS
        while not done.is_set() and self._loop.time() < deadline_s:
            await asyncio.sleep(_POLL_SECONDS)

    # --- requests ---------------------------------------------------------------------------------

    def counter(self, inner: RequestCounter | None, node_id: int) -> RequestCounter:
        """Return what makes the calls of one broker: traced, and counted by `inner`."""
        return _TracingCounter(self, inner, node_id)

    def begin(self, call: Call, node_id: int) -> Any:
        """Return the span of a request that has been decoded. Never raises."""
        return _guarded(self._begin, call, node_id) or INVALID_SPAN

    def _begin(self, call: Call, node_id: int) -> Any:
        request, api = call.request, call.api_name
        kind = kind_of(api, request)
        attributes: dict[str, Any] = {
            "messaging.system": "kafka",
            "kafka.api": api,
            "kafka.api.version": call.api_version,
            "kafka.broker.id": node_id,
            "kafka.correlation.id": call.correlation_id,
            "messaging.client.id": call.client_id or "",
            "network.peer.address": call.connection.client_host.removeprefix("/"),
        }
        group = getattr(request, "group_id", None)
        if isinstance(group, str):
            attributes["messaging.consumer.group.name"] = group
        is_always = api in MEMBERSHIP or (kind is not None and kind != "alive")
        tracer = self._export.always if is_always else self._export.requests
        span = tracer.start_span(api, kind=SpanKind.SERVER, attributes=attributes)
        if span.is_recording():
            if kind is not None and isinstance(group, str):
                for member in member_ids(request):
                    self.members.begin(group, member, kind, span.get_span_context())
            elif api == "Produce":
                for context in self._contexts(request):
                    span.add_link(context)
        return span

    def end(self, call: Call, span: Any, response: Any, places: ErrorCodes, end_ns: int) -> None:
        """End the span of a request at a time. Never raises.

        `response` is None without a response; `places` are the places of its error codes.
        """
        if span.is_recording():
            _guarded(self._count_and_end, call, span, response, places, end_ns)

    def _count_and_end(
        self, call: Call, span: Any, response: Any, places: ErrorCodes, end_ns: int
    ) -> None:
        errors: dict[int, int] = {}
        if response is not None:
            places.count(response, errors)
        self._end(call, span, response, errors, end_ns)

    def end_in_steps(self, call: Call, span: Any, response: Any, places: ErrorCodes) -> Steps:
        """End the span of a request with a large response. Never raises."""
        if not span.is_recording():
            return
        end_ns = time_ns()
        errors: dict[int, int] = {}
        try:
            yield from places.count_in_steps(response, errors)
        except Exception as error:  # error boundary: the response must be sent
            _failed_by_bug(error)
        _guarded(self._end, call, span, response, errors, end_ns)

    def _end(
        self, call: Call, span: Any, response: Any, errors: Collection[int], end_ns: int
    ) -> None:
        """End a span; `errors` are the error codes of the response other than NONE."""
        request = call.request
        kind, group = kind_of(call.api_name, request), getattr(request, "group_id", None)
        if kind is not None and isinstance(group, str):
            is_error = getattr(response, "error_code", 0) not in _OF_MEMBERS
            members = member_ids(request)
            # The first JoinGroup, and the first heartbeat, get their member id in the response.
            if (member := getattr(response, "member_id", None)) and member not in members:
                members.append(member)
            for member in members:
                context = span.get_span_context()
                self.members.end(group, member, kind, context, is_error=is_error)
        if errors:
            names = [_error_name(code) for code in errors]
            span.set_attribute("error.type", names[0])
            span.set_attribute("kafka.errors", names)
            if not _EXPECTED.issuperset(errors):
                span.set_status(Status(StatusCode.ERROR, ", ".join(names)))
        span.end(end_ns)

    def _contexts(self, request: Any) -> Iterator[SpanContext]:
        """Yield the contexts in the headers of produced records."""
        for text in traceparents(request):
            context = self._propagator.extract({"traceparent": text})
            span_context = get_current_span(context).get_span_context()
            if span_context.is_valid:
                yield span_context

    # --- rebalances -------------------------------------------------------------------------------

    def explaining(self, explain: Explain, node_id: int, clock: Clock) -> Explain:
        """Return a function that makes a span of an ended rebalance, and calls `explain`.

        `clock` is the clock of the rebalances, which may be virtual; spans have the machine's time.
        """

        def trace_and_explain(group_id: str, rebalance: Rebalance) -> None:
            offset_ms = self._now_ms() - clock.now_ms()
            _guarded(self._rebalanced, group_id, rebalance, node_id, offset_ms)
            explain(group_id, rebalance)

        return trace_and_explain

    def _rebalanced(
        self, group_id: str, rebalance: Rebalance, node_id: int, offset_ms: int
    ) -> None:
        causes = [rebalance.cause, *(late.cause for late in rebalance.also)]
        links = [
            Link(context, _cause_attributes(cause))
            for cause in causes[:MOST_LINKS]
            if (context := self.members.cause(group_id, cause)) is not None
        ]
        cause = rebalance.cause
        attributes: dict[str, Any] = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": group_id,
            "kafka.broker.id": node_id,
            "kafka.group.type": rebalance.kind.value,
            "kafka.group.generation": rebalance.generation,
            "kafka.rebalance.outcome": rebalance.outcome.value,
            **_cause_attributes(cause),
        }
        if cause.reason:
            attributes["kafka.rebalance.reason"] = cause.reason
        span = self._export.always.start_span(
            "rebalance",
            attributes=attributes,
            links=links,
            start_time=(rebalance.started_ms + offset_ms) * 1_000_000,
        )
        if rebalance.joined_ms is not None:
            span.add_event("joined", timestamp=(rebalance.joined_ms + offset_ms) * 1_000_000)
        span.end((rebalance.ended_ms + offset_ms) * 1_000_000)

    # --- logs -------------------------------------------------------------------------------------

    def _log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        """Send an event of the log."""
        if event == _FAILED:
            return
        attributes = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in fields.items()
            if value is not None and name != "exc_info"
        }
        if fields.get("exc_info"):
            import traceback

            attributes["exception.stacktrace"] = traceback.format_exc()
        self._export.log(level, event, attributes)

    def _failed(self, signal: str, reason: str) -> None:
        """Log that an export has failed; called in a thread of the SDK."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(_log_failure, signal, reason[:500])


def _log_failure(signal: str, reason: str) -> None:
    LOG.emit("tracing.failed", signal=signal, reason=reason)


def _guarded(function: Callable[..., _T], *arguments: Any) -> _T | None:
    """Return the result of a function; log an exception and return None."""
    try:
        return function(*arguments)
    except Exception as error:  # error boundary: a bug in tracing must not fail a request or group
        _failed_by_bug(error)
        return None


def _failed_by_bug(error: Exception) -> None:
    _log_failure("traces", f"{type(error).__name__}: {error}"[:500])


def _cause_attributes(cause: Cause) -> dict[str, Any]:
    attributes = {
        "kafka.rebalance.trigger": cause.trigger.value,
        "kafka.member.id": cause.member_id,
        "messaging.client.id": cause.client_id,
    }
    return {name: value for name, value in attributes.items() if value}


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class _Traced(Call):
    """A Call with a span, from the decoded request to the encoded response."""

    tracing: Tracing
    node_id: int
    places: ErrorCodes
    span: Any

    __slots__ = ()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.span = self.tracing.begin(self, self.node_id)

    def reply(self, response: Message) -> None:
        """Send the response, and end the span."""
        is_large = self.is_large
        end_ns = time_ns()  # before `reply`, which may serve the next requests of the connection
        super().reply(response)
        if not is_large:
            self.tracing.end(self, self.span, response, self.places, end_ns)

    def sending(self, response: Message, body_bytes: int) -> Steps:
        """End the span of a response that was encoded in steps."""
        yield from super().sending(response, body_bytes)
        yield from self.tracing.end_in_steps(self, self.span, response, self.places)

    def reply_nothing(self) -> None:
        """End the request without a response, and the span."""
        end_ns = time_ns()
        super().reply_nothing()
        self.tracing.end(self, self.span, None, self.places, end_ns)


class _TracingCounter:
    """Makes traced calls."""

    def __init__(self, tracing: Tracing, inner: RequestCounter | None, node_id: int) -> None:
        self._tracing = tracing
        self._inner = inner
        self._node_id = node_id

    def counted(
        self, spec: ApiSpec, version: int, metering: Metering | None
    ) -> tuple[Callable[..., Call], object]:
        """Return a factory of traced calls, and the counts for their binding."""
        new_call: Any = Call if metering is None else partial(MeteredCall, metering)
        traffic: object = None
        if self._inner is not None:
            new_call, traffic = self._inner.counted(spec, version, metering)
        fields = {
            "__slots__": ("span",),
            "tracing": self._tracing,
            "node_id": self._node_id,
            "places": ErrorCodes(spec.response_type, version),
        }
        return derived(new_call, _Traced, fields), traffic
