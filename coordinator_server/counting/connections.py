"""Client connections that count their requests, and the topics that a client reads and writes.

Each connection counts its own requests, by API and version. The counts of a broker (`traffic`) are
the sum of these: an `ApiUse` is added to them when the counts are read, and when the
connection ends. So a request is counted once.
"""

from __future__ import annotations

from itertools import count
from time import perf_counter, time_ns
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from coordinator_server.net.connection import Connection

if TYPE_CHECKING:
    import asyncio

    from coordinator_server.counting.traffic import ApiTraffic
    from coordinator_server.net.call import Call
    from coordinator_server.net.dispatch import Handler
    from protocol.registry import ApiSpec
    from protocol.schema import Message

MOST_TOPICS = 20
"""Limit of topics that a connection remembers, for reading and for writing."""

_numbers = count(1)


class ApiUse:
    """The requests of one connection to one API at one version.

    The first fields have the requests since the last call of `settle`, as in `ApiTraffic`. The
    fields from `requests` on have all requests up to that call, for the description of the
    connection.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "codes",
        "error_count",
        "errors",
        "fast",
        "has_only_own_code",
        "last_error",
        "latency_s",
        "received_bytes",
        "requests",
        "sent_bytes",
        "slow",
        "traffic",
        "unanswered",
    )

    def __init__(self, traffic: ApiTraffic) -> None:
        self.traffic = traffic
        self.has_only_own_code = traffic.has_only_own_code
        self.requests = self.error_count = self.last_error = 0
        self.received_bytes = self.sent_bytes = 0
        self._clear()

    def _clear(self) -> None:
        self.fast = self.codes = self.unanswered = self.bytes_in = self.bytes_out = 0
        self.latency_s = 0.0
        self.slow: dict[int, int] = {}
        """Latencies above the first bucket, by bucket."""
        self.errors: dict[int, int] = {}
        """The number of each error code other than NONE; the most recent code is the last."""

    def count_shared(self, response: Message) -> None:
        """Count the error codes of a response object that later requests may share."""
        codes, errors = self.traffic.codes_of_shared(response)
        self.codes += codes
        for code, number in errors.items():
            self.errors[code] = self.errors.pop(code, 0) + number

    def settle(self) -> None:
        """Add the requests since the last call to the counts of the broker."""
        requests = self.fast + sum(self.slow.values())
        if not requests:
            return
        traffic = self.traffic
        sent_bytes = self.bytes_out + traffic.header_bytes * (requests - self.unanswered)
        self.requests += requests
        self.received_bytes += self.bytes_in
        self.sent_bytes += sent_bytes
        traffic.unanswered += self.unanswered
        traffic.bytes_in += self.bytes_in
        traffic.bytes_out += sent_bytes
        traffic.codes += self.codes
        traffic.latencies[0] += self.fast
        traffic.latency_s += self.latency_s
        for bucket, number in self.slow.items():
            traffic.latencies[bucket] += number
        for code, number in self.errors.items():
            traffic.errors[code] = traffic.errors.get(code, 0) + number
            self.error_count += number
            self.last_error = code
        self._clear()


_NO_USE = cast("ApiUse", SimpleNamespace(traffic=None))
"""The use of a connection before its first request."""


class CountedConnection(Connection):
    """A connection that counts its requests, with its number and its age.

    `last_request_s` is the time of the last request in seconds of perf_counter, or None before the
    first request. `use` is the ApiUse that counts this request: a connection serves one request at
    a time.
    """

    __slots__ = (
        "_opened_s",
        "last_request_s",
        "number",
        "opened_at_ms",
        "topics_read",
        "topics_written",
        "use",
        "uses",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.number = next(_numbers)
        self.opened_at_ms, self._opened_s = time_ns() // 1_000_000, perf_counter()
        self.use = _NO_USE
        self.last_request_s: float | None = None
        self.uses: dict[ApiTraffic, ApiUse] = {}
        self.topics_read: dict[str, None] = {}
        self.topics_written: dict[str, None] = {}

    closed_at_ms = None

    @property
    def last_request_at_ms(self) -> int | None:
        """The arrival time of the last request in ms, by the machine's clock.

        None before the first request.
        """
        if self.last_request_s is None:
            return None
        return self.opened_at_ms + round((self.last_request_s - self._opened_s) * 1000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the addresses and register the connection."""
        super().connection_made(transport)
        self.opened_at_ms, self._opened_s = time_ns() // 1_000_000, perf_counter()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all state, and add the requests to the counts of the broker."""
        super().connection_lost(exc)
        self.settle()
        self.uses.clear()
        if self.use is not _NO_USE:
            # The response to the last request may still come; it is then counted as late.
            self.use = self.use.traffic.late

    @property
    def use_in_progress(self) -> ApiUse | None:
        """The ApiUse that will count the request in progress; None if no request is in progress."""
        return self.use if self.use is not _NO_USE and self.answer_is_due else None

    def use_of(self, traffic: ApiTraffic) -> None:
        """Select the ApiUse that will count the request of this API that has just arrived."""
        use = traffic.late if self.closed else self.uses.get(traffic)
        if use is None:
            use = self.uses[traffic] = ApiUse(traffic)
        self.use = use

    def settle(self) -> None:
        """Add the requests since the last call to the counts of the broker."""
        for use in self.uses.values():
            use.settle()


class ClosedConnection:
    """The requests and the client of a closed connection.

    The fields have the same meaning as in CountedConnection.
    """

    use_in_progress = None

    def __init__(self, connection: CountedConnection) -> None:
        connection.settle()
        self.number = connection.number
        self.remote = connection.remote
        self.listener_name = connection.listener_name
        self.caller = connection.caller
        self.software = connection.software
        self.principal = connection.principal
        self.opened_at_ms = connection.opened_at_ms
        self.closed_at_ms: int | None = time_ns() // 1_000_000
        self.last_request_at_ms = connection.last_request_at_ms
        self.uses = dict(connection.uses)
        self.topics_read = connection.topics_read
        self.topics_written = connection.topics_written

    def settle(self) -> None:
        """Do nothing, because the requests have already been added to the counts of the broker."""


def noting_topics(spec: ApiSpec, handle: Handler[Any]) -> Handler[Any]:
    """Return the handler of an API that also notes the topics that a client reads and writes."""
    topics_of = _TOPICS_OF.get(spec.name)
    if topics_of is None:
        return handle
    attribute, is_written = topics_of

    def noting(broker: Any, call: Call, request: Any) -> Any:
        connection = call.connection
        if isinstance(connection, CountedConnection):
            topics = connection.topics_written if is_written else connection.topics_read
            if len(topics) < MOST_TOPICS:
                _note(topics, broker, getattr(request, attribute))
        return handle(broker, call, request)

    return noting


def _note(topics: dict[str, None], broker: Any, entries: list[Any]) -> None:
    for entry in entries[:MOST_TOPICS]:
        name = getattr(entry, "topic", "") or getattr(entry, "name", "")
        if not name:
            topic = broker.topics.topic_by_id(entry.topic_id)
            name = "" if topic is None else topic.name
        if name and len(topics) < MOST_TOPICS:
            topics[name] = None


_TOPICS_OF: dict[str, tuple[str, bool]] = {
    "Fetch": ("topics", False),
    "Produce": ("topic_data", True),
    "ShareFetch": ("topics", False),
}
"""The field with the topics of a request, and whether the client writes to them."""
