"""One request on its way through the broker, and the way back for its answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

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
"""APIs whose answers hold records: these are sent as they are, without another copy."""

Body = bytes | bytearray | list[bytes]
"""The body of an answer, in parts where it holds records."""

B = TypeVar("B")
"""What the handlers get beside the call and the request: the broker."""


class ApiBinding(Generic[B]):
    """One API at one version, bound to its codec and its handler.

    `decode(frame, position)` gives (request, end), `handle(broker, call, request)` serves it, and
    `encode(response)` gives the bytes of the answer's body, in parts if it may hold records. A
    handler answers now or later, or gives its work as steps if it may be long. `new_call` makes the
    Call of a request; `is_metered` says that it wants to know how long the frame is.
    """

    __slots__ = (
        "decode",
        "encode",
        "flexible_response",
        "handle",
        "is_metered",
        "new_call",
        "spec",
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
    ) -> None:
        self.spec = spec
        self.version = version
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.new_call = new_call
        self.is_metered = is_metered
        self.flexible_response = spec.response_header_version(version) == 1


Amend = Callable[[Any], Generator[None, None, Message]]


class StepDispatcher(Protocol):
    """What runs the long work of a call."""

    def run(self, call: Call, steps: Steps) -> None:
        """Do work for a request: in one slice if that is enough, else in steps from now on."""


class Call:
    """One `request`: who sent it, and `reply`, to be called exactly once, now or later.

    Until the answer is given the connection handles nothing else. If the client is gone by then,
    the answer is dropped. `is_large` says that the request or its answer may take longer than one
    turn of the loop, so that all that is done for it is done in steps. A guard may set `amend`: the
    steps that give the answer to send for that of the handler.
    """

    is_metered = False
    """Whether a quota may have the client wait for the answer."""

    __slots__ = (
        "_binding",
        "_dispatcher",
        "amend",
        "answered",
        "caller",
        "connection",
        "correlation_id",
        "is_large",
        "request",
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
        self.amend: Amend | None = None

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return self._binding.spec.name

    @property
    def api_version(self) -> int:
        """The version of the request, and of its answer."""
        return self._binding.version

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.caller.client_id

    def received(self, frame_bytes: int) -> None:
        """Note how long the frame of the request is; only quotas want to know."""

    def most_fetched_bytes(self) -> int:
        """How much may be fetched at once."""
        return INT_MAX

    def must_throttle_fetch(self, answer_bytes: int) -> bool:
        """Whether the answer to a fetch has to be empty."""
        return False

    def may_change_partitions(self, count: int) -> bool:
        """Take the right to create or delete partitions; False if a quota refuses that."""
        return True

    def run(self, steps: Steps) -> None:
        """Do work for this request in steps: a first slice now, the rest between turns of the loop.

        A step that raises fails the request. A client that is gone changes nothing: what is half
        done could only be dropped at once, and for millions of objects that takes too long.
        """
        self._dispatcher.run(self, steps)

    def reply(self, response: Message) -> None:
        """Answer the request. A message that cannot be encoded raises and answers nothing."""
        assert not self.answered, f"{self.api_name} answered twice"
        if self.amend is not None:
            self.answered = True
            self.run(self._reply_amended(self.amend, response))
            return
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

    def _reply_amended(self, amend: Amend, response: Message) -> Steps:
        try:
            response = yield from amend(response)
        finally:
            self.answered = False
            self.amend = None
        self.reply(response)

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
        self.connection.answer(
            response_prefix(self.correlation_id, binding.flexible_response, size), body
        )
        del body
        yield from dispose(self.request)
        yield from dispose(response)

    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR as `refuse` does.

        A request that is answered already stays so.
        """
        if not self.answered:
            self.amend = None
            self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Answer an error in the API's own form, or close if that has no place for it."""
        from coordinator_server.net.error_response import Failure, error_response_steps

        binding = self._binding
        self.reply_with(
            error_response_steps(
                binding.spec.response_type, self.request, binding.version, Failure(error, message)
            )
        )

    def reply_with(self, answer: Generator[None, None, Message | None]) -> None:
        """Answer what comes of these steps, or close if that is None."""
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
        """End the request without an answer (Produce with acks=0)."""
        assert not self.answered, f"{self.api_name} answered twice"
        self.answered = True
        self.connection.answer_nothing()
