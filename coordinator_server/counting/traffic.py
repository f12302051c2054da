"""Counts the requests of one broker by API and version: number, bytes, error codes and latency.

Kafka: RequestMetrics. The Dispatcher asks for a class of calls when it binds an API, so a broker
without metrics runs none of this code. A call counts its request in its connection (see
`connections`). The latency is the time from the decoded request to the encoded response. If a
request is decoded in steps, the latency includes the decoding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from coordinator_server.counting.buckets import REQUEST_BOUNDS_S, Buckets
from coordinator_server.counting.connections import ApiUse
from coordinator_server.counting.error_codes import ErrorCodes
from coordinator_server.net.call import Call
from coordinator_server.net.metered_call import MeteredCall
from coordinator_server.security.rights import UNRESTRICTED
from protocol.errors import ErrorCode
from protocol.headers import response_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.core.caller import Caller
    from coordinator_server.counting.connections import CountedConnection
    from coordinator_server.net.call import ApiBinding, Body, StepDispatcher
    from coordinator_server.net.metering import Metering
    from coordinator_server.steps import Steps
    from protocol.registry import ApiSpec
    from protocol.schema import Message


_FIRST_BOUND_S = REQUEST_BOUNDS_S[0]
_HEADER_BYTES, _FLEXIBLE_HEADER_BYTES = 8, 9
"""Length prefix and header of a response."""


class ApiTraffic:
    """The counts of one API at one version, from all connections as of their last `settle`."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "codes",
        "errors",
        "has_only_own_code",
        "header_bytes",
        "late",
        "latencies",
        "latency_s",
        "places",
        "shared",
        "shared_codes",
        "shared_errors",
        "spec",
        "unanswered",
        "version",
    )

    def __init__(self, spec: ApiSpec, version: int) -> None:
        self.spec = spec
        self.version = version
        is_flexible = spec.response_header_version(version) == 1
        self.header_bytes = _FLEXIBLE_HEADER_BYTES if is_flexible else _HEADER_BYTES
        self.unanswered = 0
        """Requests that need no response (Produce with acks=0)."""
        self.bytes_in = self.bytes_out = 0
        """Bytes of requests and responses, with headers and length prefixes."""
        self.codes = 0
        """Error codes in responses whose error code is not the only one, including NONE."""
        self.errors: dict[int, int] = {}
        """The number of each error code other than NONE."""
        self.latencies = [0] * (len(REQUEST_BOUNDS_S) + 1)
        self.latency_s = 0.0
        self.places = ErrorCodes(spec.response_type, version)
        self.has_only_own_code = self.places.own == "error_code" and not self.places.arrays
        self.shared: Message | None = None
        """The last response that several requests share, with its counts of codes and errors."""
        self.shared_codes = 0
        self.shared_errors: dict[int, int] = {}
        self.late = ApiUse(self)
        """Requests that were answered after their connections had ended."""

    def codes_of_shared(self, response: Message) -> tuple[int, dict[int, int]]:
        """Return the number of error codes in a response that requests share, and its errors.

        The errors are the number of each code other than NONE.
        """
        if self.shared is not response:
            self.shared_errors = {}
            self.shared_codes = self.places.count(response, self.shared_errors)
            self.shared = response
        return self.shared_codes, self.shared_errors

    @property
    def answers(self) -> int:
        """The number of requests that were answered, or that need no response."""
        return sum(self.latencies)

    def error_codes(self) -> Counter[int]:
        """Return the number of error codes in all responses, by code; NONE is included."""
        codes = self.answers - self.unanswered if self.has_only_own_code else self.codes
        counts = Counter(self.errors)
        counts[ErrorCode.NONE] = codes - counts.total()
        return counts

    def histogram(self) -> Buckets:
        """Return the latencies of all requests as a histogram."""
        buckets = Buckets(REQUEST_BOUNDS_S)
        buckets.counts, buckets.total = list(self.latencies), self.latency_s
        return buckets


class _Counted(Call):
    """A Call that counts its request in its connection when it is answered."""

    connection: CountedConnection

    __slots__ = ()

    def reply(self, response: Message) -> None:
        """Send the response as `Call.reply` does, and count the request.

        This is a copy of `Call.reply`: one more function per request would cost as much as the
        whole count.
        """
        assert not self.answered, f"{self.api_name} answered twice"
        if self.is_large:
            self.answered = True
            self.run(self._reply_in_steps(response))
            return
        binding = self._binding
        encodings = response.encodings
        body: Body | None = None if encodings is None else encodings.get(binding.version)
        if body is None:
            body = binding.encode(response)
            if encodings is not None:
                assert isinstance(body, bytes)
                encodings[binding.version] = body
        self.answered = True
        size = sum(map(len, body)) if isinstance(body, list) else len(body)
        connection = self.connection
        use = connection.use
        if use.has_only_own_code:
            code: int = response.error_code  # type: ignore[attr-defined]  # as the schema says
            if code:
                use.errors[code] = use.errors.pop(code, 0) + 1
        elif encodings is None:
            use.codes += use.traffic.places.count(response, use.errors)
        else:
            use.count_shared(response)
        latency_s = perf_counter() - self.began_s
        if latency_s <= _FIRST_BOUND_S:
            use.fast += 1
        else:
            bucket = bisect_left(REQUEST_BOUNDS_S, latency_s)
            use.slow[bucket] = use.slow.get(bucket, 0) + 1
        use.latency_s += latency_s
        use.bytes_in += self.frame_bytes
        use.bytes_out += size
        prefix = response_prefix(self.correlation_id, binding.flexible_response, size)
        connection.answer(prefix, body)

    def reply_nothing(self) -> None:
        """End the request without a response, and count the request."""
        self._count(0, {}).unanswered += 1
        super().reply_nothing()

    def sending(self, response: Message, body_bytes: int) -> Steps:
        """Count a request whose response was encoded in steps."""
        traffic: ApiTraffic = self._binding.traffic
        errors: dict[int, int] = {}
        codes = yield from traffic.places.count_in_steps(response, errors)
        self._count(body_bytes, errors).codes += codes

    def _count(self, body_bytes: int, errors: dict[int, int]) -> ApiUse:
        """Count a request, and return the ApiUse in which it was counted."""
        use = self.connection.use
        latency_s = perf_counter() - self.began_s
        bucket = bisect_left(REQUEST_BOUNDS_S, latency_s)
        use.slow[bucket] = use.slow.get(bucket, 0) + 1
        use.latency_s += latency_s
        use.bytes_in += self.frame_bytes
        use.bytes_out += body_bytes
        for code, number in errors.items():
            use.errors[code] = use.errors.pop(code, 0) + number
        return use


class CountedCall(_Counted):
    """A counted Call of an API without a quota."""

    __slots__ = ()

    def __init__(
        self,
        dispatcher: StepDispatcher,
        binding: ApiBinding[Any],
        connection: CountedConnection,
        caller: Caller,
        correlation_id: int,
        request: Message,
        is_large: bool,
    ) -> None:
        # This is a copy of Call.__init__: calling it would cost as much as the whole count.
        self._dispatcher = dispatcher
        self._binding = binding
        self.connection = connection
        self.caller = caller
        self.correlation_id = correlation_id
        self.request = request
        self.is_large = is_large
        self.answered = False
        self.rights = UNRESTRICTED
        if connection.use.traffic is not binding.traffic:
            connection.use_of(binding.traffic)
        connection.last_request_s = self.began_s = perf_counter()


class CountedMeteredCall(MeteredCall, _Counted):
    """A counted Call of an API with a quota."""

    __slots__ = ()

    def __init__(self, *arguments: Any) -> None:
        MeteredCall.__init__(self, *arguments)
        if self.connection.use.traffic is not self._binding.traffic:
            self.connection.use_of(self._binding.traffic)
        self.connection.last_request_s = self.began_s = perf_counter()


class Traffic:
    """The counts of all requests of one broker."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], ApiTraffic] = {}

    def counted(
        self, spec: ApiSpec, version: int, metering: Metering | None
    ) -> tuple[Callable[..., Call], ApiTraffic]:
        """Return a factory of counted calls, and their counts.

        With `metering`, the calls are metered as well.
        """
        traffic = self._of.get((spec.key, version))
        if traffic is None:
            traffic = self._of[spec.key, version] = ApiTraffic(spec, version)
        if metering is None:
            return CountedCall, traffic
        return partial(CountedMeteredCall, metering), traffic

    def apis(self) -> list[ApiTraffic]:
        """Return the counts by API and version, in the order of the first requests.

        Requests of open connections are included as of the last `settle` of their connection.
        """
        for traffic in self._of.values():
            traffic.late.settle()
        return list(self._of.values())
