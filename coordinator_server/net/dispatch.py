"""From a frame to its handler, and what happens when that is not possible.

The routes (API key, version) -> decode, handler, encode are made when first asked for, so that a
broker that starts pays for no message and no handler. Here stands the door for bugs: whatever a
handler raises is logged, and that request alone is answered with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any

from coordinator_server.events.log import LOG
from coordinator_server.net.call import Call, Route
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import decode_request_header, response_prefix
from protocol.registry import API_VERSIONS_KEY, SPEC_BY_KEY

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.connection import Connection
    from protocol.headers import RequestHeader

_FRAME_LENGTH_BYTES = 4
_API_VERSIONS_V0 = Struct(">hihhh")


class Dispatcher:
    """Handles the frames of all connections of one broker."""

    __slots__ = ("_broker", "_routes")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: dict[tuple[int, int], Route] = {}

    def dispatch(self, connection: Connection, frame: bytes) -> None:
        """Handle one frame, its length in front. Never raises."""
        try:
            header, position = decode_request_header(frame, _FRAME_LENGTH_BYTES)
        except ProtocolError as error:
            connection.refuse(str(error))
            return
        route = self._routes.get((header.api_key, header.api_version))
        if route is None:
            route = self._new_route(connection, header)
            if route is None:
                return
        try:
            request, _ = route.decode(frame, position)
        except ProtocolError as error:
            connection.refuse(str(error), route.spec.name, route.version)
            return
        call = Call(route, connection, header.correlation_id, header.client_id, request)
        try:
            route.handle(self._broker, call, request)
        except Exception:  # the door: no bug in a handler may stop the broker
            _log_failure(call)
            call.fail()

    def _new_route(self, connection: Connection, header: RequestHeader) -> Route | None:
        """Make the route of an API and version; what is not served is refused, as Kafka does.

        Kafka closes the connection without an answer, except for ApiVersions: every client has to
        be able to find out what is served (KIP-35, KIP-511).
        """
        api_key, version = header.api_key, header.api_version
        spec = SPEC_BY_KEY.get(api_key)
        if spec is None:
            connection.refuse("this API is not served", api_key, version)
            return None
        if not spec.supports(version):
            if api_key == API_VERSIONS_KEY:
                body = _unsupported_api_versions(spec.min_version, spec.max_version)
                prefix = response_prefix(header.correlation_id, False, len(body))
                connection.answer(prefix, body)
            else:
                connection.refuse("this version is not served", spec.name, version)
            return None
        from protocol.codec import decoder, encoder

        handle = import_module(f"coordinator_server.apis.{spec.stem}").handle
        decode = decoder(spec.request_type, version)
        encode = encoder(spec.response_type, version)
        route = Route(spec, version, decode, handle, encode)
        self._routes[api_key, version] = route
        return route


def _unsupported_api_versions(min_version: int, max_version: int) -> bytes:
    """The v0 body that any client can read: error 35, and the range of ApiVersions itself."""
    error = ErrorCode.UNSUPPORTED_VERSION
    return _API_VERSIONS_V0.pack(error, 1, API_VERSIONS_KEY, min_version, max_version)


def _log_failure(call: Call, **fields: Any) -> None:
    LOG.emit(
        "request.failed",
        remote=call.connection.remote,
        api=call.api_name,
        version=call.api_version,
        correlation_id=call.correlation_id,
        exc_info=True,
        **fields,
    )
