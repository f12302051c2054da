"""One request in progress, with the means to send its response."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator_server.security.rights import UNRESTRICTED, Rights
from coordinator_server.steps import run_all
from protocol.errors import ErrorCode
from protocol.headers import response_prefix
from protocol.schema import Message, dispose
from storage.config_def import INT_MAX

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.net.connection import Connection
    from coordinator_server.steps import Steps
    from protocol.registry import ApiSpec

APIS_WITH_RECORDS = frozenset(("Fetch", "ShareFetch"))
"""APIs whose responses contain records, which are sent without copying."""

Body = bytes | bytearray | list[bytes]
"""The encoded response body; a list of parts if it contains records."""

B = TypeVar("B")
"""The broker type, the first argument of handlers."""


class ApiBinding(Generic[B]):
    """One API at one version, bound to its codec and its handler.

    `decode(frame, position)` returns (request, end). `handle(broker, call, request)` serves the
    request: it responds now or later, or returns long work as steps. `encode(response)` returns the
    body of the response, as a list of parts if it may contain records. `new_call` creates the Call
    of a request. If `is_metered` is set, for a quota or for metrics, the Call also gets the frame
    size. `traffic` has the counts for metrics; None without metrics.
    """

    __slots__ = (
        "decode",
        "encode",
        "flexible_response",
        "handle",
        "is_metered",
        "new_call",
        "spec",
        "traffic",
        "version",
    )

    def __init__(
        self,
        spec: ApiSpec,
        version: int,
        decode: Callable[[bytes | bytearray, int], tuple[Any, int]],
        handle: Callable[[B, Call, Any], Steps | None],
        encode: Callable[[Any], bytes | list[bytes]],
        new_call: Callable[..., Call],
        *,
        is_metered: bool = False,
        traffic: Any = None,
    ) -> None:
        self.spec = spec
        self.version = version
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.new_call = new_call
        self.is_metered = is_metered
        self.traffic = traffic
        self.flexible_response = spec.response_header_version(version) == 1


def derived(
    new_call: Callable[..., Call], mixin: type[Call], fields: dict[str, object]
) -> Callable[..., Call]:
    """Return a factory of the same calls, of a class that extends theirs by `mixin` and `fields`.

    `new_call` is a subclass of Call, or a partial of one.
    """
    base, *arguments = (
        (new_call.func, *new_call.args) if isinstance(new_call, partial) else (new_call,)
    )
    name = f"{mixin.__name__.removeprefix('_')}{base.__name__}"
    return partial(type(name, (mixin, base), fields), *arguments)


class StepDispatcher(Protocol):
    """Runs the long work of a call."""

    def run(self, call: Call, steps: Steps) -> None:
        """Run steps for a request: in one slice if they fit, else over several turns."""


class Call:
    """One `request` and its caller. Exactly one response must be sent, now or later.

    The connection handles no other request until the response is sent. If the client has
    disconnected by then, the response is dropped. `is_large` means that the request or response
    may take longer than one turn of the event loop, so that all work is done in steps. `rights`
    has the decisions of the access checks.
    """

    is_metered = False
    """Whether a quota may throttle the client."""

    __slots__ = (
        "_binding",
        "_dispatcher",
        "answered",
        "began_s",
        "caller",
        "connection",
        "correlation_id",
        "frame_bytes",
        "is_large",
        "request",
        "rights",
    )

    def __init__(
        self,
        dispatcher: StepDispatcher,
        binding: ApiBinding[B],
        connection: Connection,
        caller: Caller,
        correlation_id: int,
        request: Message,
        is_large: bool,
    ) -> None:
        self._dispatcher = dispatcher
        self._binding = binding
        self.connection = connection
        self.caller = caller
        self.correlation_id = correlation_id
        self.request = request
        self.is_large = is_large
        self.answered = False
        self.rights: Rights = UNRESTRICTED
        self.frame_bytes: int
        """The frame size of a metered request, with the length prefix; set by the dispatcher."""
        self.began_s: float
        """The start of a counted request, in seconds of perf_counter."""

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return self._binding.spec.name

    @property
    def api_version(self) -> int:
        """The version of the request and its response."""
        return self._binding.version

    @property
    def response_type(self) -> type[Message]:
        """The type of the response."""
        return self._binding.spec.response_type

    @property
    def client_id(self) -> str | None:
        """The client id of the request."""
        return self.caller.client_id

    def sending(self, response: Message, body_bytes: int) -> Steps:
        """Record a response with a body of this size that was encoded in steps."""
        yield from ()

    def most_fetched_bytes(self) -> int:
        """Return the maximum number of bytes that one fetch may return."""
        return INT_MAX

    def must_throttle_fetch(self, answer_bytes: int) -> bool:
        """Return whether a quota requires an empty fetch response."""
        return False

    def may_change_partitions(self, count: int) -> bool:
        """Charge the creation or deletion of partitions; return False if a quota refuses it."""
        return True

    def run(self, steps: Steps) -> None:
        """Run work for this request in steps: a first slice now, the rest in later turns.

        A step that raises fails the request. The steps run to the end even if the client
        disconnects, because dropping millions of half-built objects at once would block the event
        loop.
        """
        self._dispatcher.run(self, steps)

    def reply(self, response: Message) -> None:
        """Send the response. Raises, without sending, if the message cannot be encoded."""
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
        self.connection.answer(
            response_prefix(self.correlation_id, binding.flexible_response, size), body
        )

    def _reply_in_steps(self, response: Message) -> Steps:
        from protocol.codec import step_encoder, step_parts_encoder

        binding = self._binding
        body: Body
        try:
            if binding.spec.name in APIS_WITH_RECORDS:
                encode_parts = step_parts_encoder(binding.spec.response_type, binding.version)
                body = yield from encode_parts(response)
            else:
                encode = step_encoder(binding.spec.response_type, binding.version)
                body = yield from encode(response)
        except BaseException:
            self.answered = self.is_large = False
            raise
        size = sum(map(len, body)) if isinstance(body, list) else len(body)
        yield from self.sending(response, size)
        self.connection.answer(
            response_prefix(self.correlation_id, binding.flexible_response, size), body
        )
        del body
        # `rights` also holds entries of the request. Release these references, so that `dispose`
        # can free the entries in steps.
        self.rights = UNRESTRICTED
        yield from dispose(self.request)
        yield from dispose(response)

    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR as `refuse` does, unless a response has been sent."""
        if not self.answered:
            self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Send an error in the API's response format; close if the format has no error field."""
        self.reply_with(self.error_response(error, message))

    def error_response(
        self, error: ErrorCode, message: str | None = None
    ) -> Generator[None, None, Message | None]:
        """Return the error in the API's response format, in steps; None without an error field."""
        from coordinator_server.net.error_response import Failure, error_response_steps

        binding = self._binding
        return error_response_steps(
            binding.spec.response_type, self.request, binding.version, Failure(error, message)
        )

    def reply_with(self, answer: Generator[None, None, Message | None]) -> None:
        """Send the response that the steps return, or close the connection if it is None."""
        if self.is_large:
            self.answered = True
            self.run(self._reply_made(answer))
        else:
            self._reply_or_close(run_all(answer))

    def _reply_made(self, answer: Generator[None, None, Message | None]) -> Steps:
        try:
            response = yield from answer
        except BaseException:
            self.is_large = False
            raise
        finally:
            self.answered = False
        self._reply_or_close(response)

    def _reply_or_close(self, response: Message | None) -> None:
        if response is None:
            binding = self._binding
            self.connection.refuse("the request failed", binding.spec.name, binding.version)
        else:
            self.reply(response)

    def reply_nothing(self) -> None:
        """End the request without a response (Produce with acks=0)."""
        assert not self.answered, f"{self.api_name} answered twice"
        self.answered = True
        self.connection.answer_nothing()
