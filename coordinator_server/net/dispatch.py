"""Dispatches frames to handlers, and handles invalid requests and failing handlers.

An API version is bound (see `ApiBinding`) when a client first uses it, so that startup loads no
messages or handlers. This is the first error boundary: an exception of a handler is logged, and
only its request is answered with UNKNOWN_SERVER_ERROR.

Requests larger than LARGE_REQUEST_BYTES are decoded, served and answered in steps, so that other
connections are served meanwhile. A handler whose work may be long for another reason also returns
steps.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol

from coordinator_server.core.caller import Caller
from coordinator_server.events.log import LOG
from coordinator_server.net.call import APIS_WITH_RECORDS, ApiBinding, B, Call
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import decode_request_header, response_prefix
from protocol.registry import API_VERSIONS_KEY, SPEC_BY_KEY

if TYPE_CHECKING:
    from weakref import WeakSet

    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.net.connection import Connection
    from coordinator_server.net.metering import Metering
    from coordinator_server.steps import Steps
    from protocol.headers import RequestHeader
    from protocol.registry import ApiSpec

Handler = Callable[[B, Call, Any], "Steps | None"]
FindHandler = Callable[["ApiSpec"], Handler[B]]

LARGE_REQUEST_BYTES = 64 * 1024
_FRAME_LENGTH_BYTES = 4
_API_VERSIONS_V0 = Struct(">hihhh")


class RequestCounter(Protocol):
    """Counts requests for metrics."""

    def counted(
        self, spec: ApiSpec, version: int, metering: Metering | None
    ) -> tuple[Callable[..., Call], object]:
        """Return a factory of counted calls, and the counts for their binding.

        With `metering`, the calls are metered as well.
        """


class RequestFaults(Protocol):
    """The fault rules of the process; a change of the rules rebinds the APIs of `followers`."""

    followers: WeakSet[Any]

    def __len__(self) -> int:
        """Return the number of rules."""

    def wrapped(
        self, spec: ApiSpec, version: int, handle: Handler[Any], new_call: Callable[..., Call]
    ) -> tuple[Handler[Any], Callable[..., Call]]:
        """Return a handler and a factory of calls that follow the rules for an API."""


class Dispatcher(Generic[B]):
    """Handles the frames of all connections of one broker; handlers get the broker.

    `find_handler(spec)` is called when an API is bound. `metering` applies the clients' quotas,
    `counter` counts the requests, None without metrics. `faults` are the rules of faults on demand.
    """

    __slots__ = (
        "__weakref__",
        "_bindings",
        "_broker",
        "_counter",
        "_faults",
        "_find_handler",
        "_metering",
        "_step_runner",
    )

    def __init__(
        self,
        broker: B,
        step_runner: StepRunner,
        find_handler: FindHandler[B],
        metering: Metering | None = None,
        counter: RequestCounter | None = None,
        faults: RequestFaults | None = None,
    ) -> None:
        self._find_handler = find_handler
        self._counter = counter
        self._metering = metering
        self._faults = faults
        if metering is not None:
            metering.on_changed = self.bind_anew
        if faults is not None:
            faults.followers.add(self)
        self._broker = broker
        self._step_runner = step_runner
        self._bindings: dict[tuple[int, int], ApiBinding[B]] = {}

    def dispatch(self, connection: Connection, frame: bytes | bytearray) -> None:
        """Handle one frame, including its length prefix. Never raises."""
        try:
            header, position = decode_request_header(frame, _FRAME_LENGTH_BYTES)
        except ProtocolError as error:
            connection.refuse(str(error))
            return
        binding = self._bindings.get((header.api_key, header.api_version))
        if binding is None:
            binding = self._new_binding(connection, header)
            if binding is None:
                return
        if len(frame) > LARGE_REQUEST_BYTES:
            large = self._dispatch_large(connection, header, binding, frame, position)
            self._step_runner.run_long(large)
            return
        try:
            request, _ = binding.decode(frame, position)
        except ProtocolError as error:
            connection.refuse(str(error), binding.spec.name, binding.version)
            return
        caller = connection.caller
        if caller[0] != header.client_id or caller[2] != binding.version:
            caller = Caller(header.client_id, connection.client_host, binding.version)
            connection.caller = caller
        call = binding.new_call(
            self, binding, connection, caller, header.correlation_id, request, False
        )
        if binding.is_metered:
            call.frame_bytes = len(frame)
        try:
            steps = binding.handle(self._broker, call, request)
        except Exception:  # error boundary: a bug in a handler must not stop the broker
            _log_failure(call)
            call.fail()
            return
        if steps is not None:
            self.run(call, steps)

    def _dispatch_large(
        self,
        connection: Connection,
        header: RequestHeader,
        binding: ApiBinding[B],
        frame: bytes | bytearray,
        position: int,
    ) -> Steps:
        """Decode and handle a large frame in steps."""
        from protocol.codec import step_decoder

        began_s = perf_counter()
        decode = step_decoder(binding.spec.request_type, binding.version)
        try:
            request, _ = yield from decode(frame, position)
        except ProtocolError as error:
            connection.refuse(str(error), binding.spec.name, binding.version)
            return
        except Exception:  # error boundary; there is no decoded request to answer
            LOG.emit(
                "request.failed",
                remote=connection.remote,
                api=binding.spec.name,
                version=binding.version,
                correlation_id=header.correlation_id,
                exc_info=True,
            )
            connection.close()
            return
        caller = Caller(header.client_id, connection.client_host, binding.version)
        call = binding.new_call(
            self, binding, connection, caller, header.correlation_id, request, True
        )
        if binding.is_metered:
            call.frame_bytes, call.began_s = len(frame), began_s
        del request, frame  # drop references, so that `dispose` frees the request in steps
        yield from self._guarded(call, self._handle(binding, call))

    def _handle(self, binding: ApiBinding[B], call: Call) -> Steps:
        steps = binding.handle(self._broker, call, call.request)
        if steps is not None:
            yield from steps

    def run(self, call: Call, steps: Steps) -> None:
        """Run steps for a request: in one slice if they fit, else over several turns."""
        if not self._step_runner.run_now(self._guarded(call, steps)):
            call.is_large = True

    def _guarded(self, call: Call, steps: Steps) -> Steps:
        """Run the steps of a handler; fail the request if a step raises."""
        try:
            yield from steps
        except Exception:  # error boundary: a bug in a handler must not stop the broker
            _log_failure(call)
            call.fail()

    def bind_anew(self) -> None:
        """Drop all bindings after quotas or fault rules changed; requests in progress continue."""
        self._bindings.clear()

    def _new_binding(self, connection: Connection, header: RequestHeader) -> ApiBinding[B] | None:
        """Bind an API at a version; return None after refusing an unsupported version.

        Like Kafka, the broker then closes the connection without a response, except for
        ApiVersions: every client must be able to discover the supported versions (KIP-35,
        KIP-511).
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
        from protocol.codec import decoder, encoder, parts_encoder

        handle = self._find_handler(spec)
        new_call: Callable[..., Call] = Call
        is_metered = self._metering is not None and self._metering.meters(spec)
        if self._metering is not None and is_metered:
            handle, new_call = self._metering.metered(handle)
        traffic: object = None
        if self._counter is not None:
            metering = self._metering if is_metered else None
            new_call, traffic = self._counter.counted(spec, version, metering)
            is_metered = True
        if self._faults:
            handle, new_call = self._faults.wrapped(spec, version, handle, new_call)
        decode = decoder(spec.request_type, version)
        make_encoder = parts_encoder if spec.name in APIS_WITH_RECORDS else encoder
        encode = make_encoder(spec.response_type, version)
        binding = ApiBinding(
            *(spec, version, decode, handle, encode, new_call),
            is_metered=is_metered,
            traffic=traffic,
        )
        self._bindings[api_key, version] = binding
        return binding


def _unsupported_api_versions(min_version: int, max_version: int) -> bytes:
    """Return a v0 body that any client can read: error 35 and the version range of ApiVersions."""
    error = ErrorCode.UNSUPPORTED_VERSION
    return _API_VERSIONS_V0.pack(error, 1, API_VERSIONS_KEY, min_version, max_version)


def _log_failure(call: Call) -> None:
    LOG.emit(
        "request.failed",
        remote=call.connection.remote,
        api=call.api_name,
        version=call.api_version,
        correlation_id=call.correlation_id,
        exc_info=True,
    )
