"""A connection that counts its requests, for the control server.

Without a control server, `Connection` is used and this module is not imported.
"""

from __future__ import annotations

from itertools import count
from struct import Struct
from time import time_ns
from typing import TYPE_CHECKING, Any

from coordinator_server.net.connection import Connection

if TYPE_CHECKING:
    import asyncio

    from coordinator_server.net.call import Body, Call
    from coordinator_server.net.connections import Connections, Dispatch
    from coordinator_server.net.dispatch import Handler
    from protocol.registry import ApiSpec

MOST_TOPICS = 20
"""Limit of topics that a connection remembers, for reading and for writing."""

_numbers = count(1)
_key_and_version_at = Struct(">hh").unpack_from
_code_at = Struct(">h").unpack_from
_HEADER_POSITION = 4
_LEAST_FRAME_BYTES = 8


class ApiUse:
    """The use of one API by one connection; `error_position` is of the responses of `version`."""

    __slots__ = ("error_position", "errors", "last_error", "requests", "version")

    def __init__(self) -> None:
        self.requests = self.errors = self.last_error = 0
        self.version = -1
        self.error_position: int | None = None


class CountedConnection(Connection):
    """A connection with its number, its age and its use. `uses` are by API key."""

    __slots__ = (
        "_last_use",
        "bytes_in",
        "bytes_out",
        "last_request_at_ms",
        "number",
        "opened_at_ms",
        "topics_read",
        "topics_written",
        "uses",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.number = next(_numbers)
        self.opened_at_ms = time_ns() // 1_000_000
        self.last_request_at_ms: int | None = None
        self.bytes_in = self.bytes_out = 0
        self.uses: dict[int, ApiUse] = {}
        self.topics_read: dict[str, None] = {}
        self.topics_written: dict[str, None] = {}
        self._last_use: ApiUse | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the addresses and register the connection."""
        super().connection_made(transport)
        self.opened_at_ms = time_ns() // 1_000_000

    def data_received(self, data: bytes) -> None:
        """Count the bytes, then handle them."""
        self.bytes_in += len(data)
        super().data_received(data)

    def count_request(self, frame: bytes | bytearray) -> None:
        """Count a request by its API key."""
        if len(frame) < _LEAST_FRAME_BYTES:
            return
        key, version = _key_and_version_at(frame, _HEADER_POSITION)
        self.last_request_at_ms = time_ns() // 1_000_000
        use = self.uses.get(key)
        if use is None:
            use = self.uses[key] = ApiUse()
        if use.version != version:
            use.version = version
            use.error_position = error_position(key, version)
        use.requests += 1
        self._last_use = use

    def answer(self, prefix: bytes, body: Body) -> None:
        """Count the response and its error, then send the response."""
        if isinstance(body, list):
            first: bytes | bytearray = body[0]
            self.bytes_out += len(prefix) + sum(map(len, body))
        else:
            first = body
            self.bytes_out += len(prefix) + len(body)
        use = self._last_use
        if use is not None and use.error_position is not None:
            position = use.error_position
            if len(first) >= position + 2 and (first[position] or first[position + 1]):
                use.errors += 1
                use.last_error = _code_at(first, position)[0]
        super().answer(prefix, body)


_positions: dict[tuple[int, int], int | None] = {}


def error_position(key: int, version: int) -> int | None:
    """Return the position of `error_code` in the body of a response; None if it is not fixed.

    It is fixed if only the throttle time precedes it. In other responses, such as those of
    Produce, each partition has an error of its own.
    """
    position = _positions.get((key, version), -1)
    if position == -1:
        position = _positions[key, version] = _find_error_position(key, version)
    return position


def _find_error_position(key: int, version: int) -> int | None:
    from protocol.registry import SPEC_BY_KEY
    from protocol.schema import INT16, INT32

    spec = SPEC_BY_KEY.get(key)
    if spec is None or not spec.supports(version):
        return None
    position = 0
    for field_ in spec.response_type.FIELDS:
        if not field_.in_version(version):
            continue
        if field_.name == "error_code" and field_.type is INT16:
            return position
        if field_.type is not INT32:
            return None
        position += 4
    return None


def count_requests(connections: Connections) -> None:
    """Count the requests of future connections."""
    connections.connection_type = CountedConnection
    connections.dispatch = _counting(connections.dispatch)


def _counting(dispatch: Dispatch) -> Dispatch:
    """Return a dispatch that counts each request of a counted connection."""

    def counted(connection: Connection, frame: bytes | bytearray) -> None:
        assert isinstance(connection, CountedConnection)
        connection.count_request(frame)
        dispatch(connection, frame)

    return counted


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
