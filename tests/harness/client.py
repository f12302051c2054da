"""A client's connection without a socket, and the requests in progress on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from coordinator_server.core.caller import Caller
from coordinator_server.net.connection import NO_CALLER
from coordinator_server.security.principal import ANONYMOUS, Principal
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import SPEC_BY_NAME, ApiSpec
from protocol.schema import Message

_LENGTH_BYTES = 4


class SentRequest:
    """A client's request; the response is decoded when the test first reads the response."""

    def __init__(self, client: Client, spec: ApiSpec, version: int, request: Message) -> None:
        self.connection = client
        self.request = request
        self.spec = spec
        self.version = version
        self._frames: list[bytes] = []
        self._decoded: list[Any] = []
        self.ended_without_answer = False

    @property
    def answered(self) -> bool:
        """Return whether the response has arrived."""
        return bool(self._frames)

    @property
    def replies(self) -> list[Any]:
        """The decoded response, if it has arrived."""
        if len(self._decoded) < len(self._frames):
            header_version = self.spec.response_header_version(self.version)
            (frame,) = self._frames
            position = decoder(ResponseHeader, header_version)(frame, 0)[1]
            response, end = decoder(self.spec.response_type, self.version)(frame, position)
            assert end == len(frame)
            self._decoded.append(response)
        return self._decoded

    @property
    def response(self) -> Any:
        """The response, which must have arrived."""
        assert self.replies, f"{self.spec.name} is not answered"
        return self.replies[0]

    @property
    def failed(self) -> bool:
        """Return whether an error of the response is UNKNOWN_SERVER_ERROR, as after a bug."""
        return self.answered and f"error_code={int(ErrorCode.UNKNOWN_SERVER_ERROR)}" in repr(
            self.response
        )

    def arrived(self, frame: bytes) -> None:
        """Keep the response; a second response is a failure."""
        assert not self._frames, f"{self.spec.name} is answered twice"
        self._frames.append(frame)


class Client:
    """A client's connection. `refusals` are the reasons for which the broker has closed it."""

    def __init__(
        self,
        principal: Principal = ANONYMOUS,
        *,
        listener_name: str = "PLAINTEXT",
        local_address: tuple[str, int] = ("127.0.0.1", 9092),
        has_token: bool = False,
    ) -> None:
        self.principal = principal
        self.listener_name = listener_name
        self.local_address = local_address
        self.has_token = has_token
        self.client_host, self.remote = "/127.0.0.1", "127.0.0.1:40000"
        self.software = ("test", "1.0")
        self.is_unauthenticated = False
        self.caller: Caller = NO_CALLER
        self.closed = False
        self.refusals: list[str] = []
        self.sent: dict[int, SentRequest] = {}
        self.on_answer: Callable[[SentRequest], None] | None = None
        self._correlation_ids = itertools.count(1)

    def frame(
        self, request: Message, version: int, client_id: str | None
    ) -> tuple[SentRequest, bytes]:
        """Return a request to send and its frame."""
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        sent = SentRequest(self, spec, version, request)
        header = RequestHeader(
            api_key=spec.key,
            api_version=version,
            correlation_id=next(self._correlation_ids),
            client_id=client_id,
        )
        self.sent[header.correlation_id] = sent
        head = encoder(RequestHeader, spec.request_header_version(version))(header)
        return sent, b"\0" * _LENGTH_BYTES + head + encoder(spec.request_type, version)(request)

    def answer(self, prefix: bytes, body: bytes | bytearray | list[bytes]) -> None:
        """Receive a response."""
        frame = prefix[_LENGTH_BYTES:] + (b"".join(body) if isinstance(body, list) else bytes(body))
        sent = self.sent.pop(int.from_bytes(frame[:4], "big"))
        sent.arrived(frame)
        if self.on_answer is not None:
            self.on_answer(sent)

    def answer_nothing(self) -> None:
        """Note that the only request in progress has no response."""
        (correlation_id,) = self.sent
        self.sent.pop(correlation_id).ended_without_answer = True

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Note why the broker closes the connection."""
        self.refusals.append(reason)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
