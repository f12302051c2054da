"""One request on its way through the broker, and the way back for its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from protocol.headers import response_prefix

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.connection import Connection
    from protocol.registry import ApiSpec
    from protocol.schema import Message


class ApiBinding:
    """One API at one version, bound to its codec and its handler.

    `decode(frame, position)` gives (request, end), `handle(broker, call, request)` serves it, and
    `encode(response)` gives the bytes of the answer's body.
    """

    __slots__ = ("decode", "encode", "flexible_response", "handle", "spec", "version")

    def __init__(
        self,
        spec: ApiSpec,
        version: int,
        decode: Callable[[bytes, int], tuple[Any, int]],
        handle: Callable[[Broker, Call, Any], None],
        encode: Callable[[Any], bytes],
    ) -> None:
        self.spec = spec
        self.version = version
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.flexible_response = spec.response_header_version(version) == 1


class Call:
    """One request: who asks, and `reply`, to be called exactly once, now or later.

    `client_host` has Kafka's leading slash ("/127.0.0.1"). Until the answer is given the
    connection handles nothing else. If the client is gone by then, the answer is dropped.
    """

    __slots__ = ("_binding", "_request", "answered", "client_id", "connection", "correlation_id")

    def __init__(
        self,
        binding: ApiBinding,
        connection: Connection,
        correlation_id: int,
        client_id: str | None,
        request: Message,
    ) -> None:
        self._binding = binding
        self._request = request
        self.connection = connection
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.answered = False

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return self._binding.spec.name

    @property
    def api_version(self) -> int:
        """The version of the request, and of its answer."""
        return self._binding.version

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it, "/127.0.0.1"."""
        return self.connection.client_host

    def reply(self, response: Message) -> None:
        """Answer the request. A message that cannot be encoded raises and answers nothing."""
        assert not self.answered, f"{self.api_name} answered twice"
        binding = self._binding
        body = binding.encode(response)
        self.answered = True
        self.connection.answer(
            response_prefix(self.correlation_id, binding.flexible_response, len(body)), body
        )

    def fail(self) -> None:
        """Answer UNKNOWN_SERVER_ERROR in the API's own form, or close if that has no place.

        A request that is answered already stays so.
        """
        if self.answered:
            return
        from coordinator_server.net.error_response import failed_response

        binding = self._binding
        response = failed_response(binding.spec.response_type, self._request, binding.version)
        if response is None:
            self.connection.refuse("the request failed", binding.spec.name, binding.version)
        else:
            self.reply(response)

    def reply_nothing(self) -> None:
        """End the request without an answer (Produce with acks=0)."""
        assert not self.answered, f"{self.api_name} answered twice"
        self.answered = True
        self.connection.answer_nothing()
