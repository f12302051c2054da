"""One blocking connection to a broker: negotiates versions and sends one request at a time."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from coordinator_server.client.errors import ClientError
from coordinator_server.client.settings import Address, ClientSettings
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import RequestHeader, ResponseHeader
from protocol.registry import API_VERSIONS_KEY, SPEC_BY_NAME, ApiSpec
from protocol.schema import Message

SOFTWARE_NAME = "coordinator-server"

_API_VERSIONS = SPEC_BY_NAME["ApiVersions"]
_MAX_FRAME_BYTES = 1 << 30
_SESSION_PART = 0.85
"""The part of a SASL session after which it is renewed; Java's clients use 85 to 95 %."""
_LENGTH = struct.Struct(">i")


class ClientConnection:
    """A connection to a broker, secured by the settings, with negotiated versions.

    `ready` is a socket that is already connected and encrypted: the caller then calls `negotiate`
    and `authenticate`. Raises ClientError: NETWORK_EXCEPTION if connecting fails or the connection
    breaks, REQUEST_TIMED_OUT if no response arrives in time, TlsError and SaslError if broker or
    client rejects the other. A failed connection is closed.
    """

    def __init__(
        self, address: Address, settings: ClientSettings, ready: socket.socket | None = None
    ) -> None:
        self.address = address
        self.is_open = True
        self.deadline_s: float | None = None
        """The deadline for all requests, by time.monotonic()."""
        self.api_versions: dict[int, tuple[int, int]] = {}
        self._settings = settings
        self._requests = 0
        self._reauthenticates_at_s = float("inf")
        if ready is not None:
            self._socket = ready
            return
        setup_s = settings.socket_connection_setup_timeout_ms / 1000
        try:
            self._socket = socket.create_connection(
                (address.lookup_name(), address.port),  # type: ignore[arg-type]  # str or bytes
                setup_s,
            )
        except OSError as error:
            raise self._failure(f"no broker at {self}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.security is not None and settings.security.tls is not None:
            from coordinator_server.client import tls

            try:
                context = tls.context_of(settings.security.tls)
                self._socket = tls.handshake(self._socket, address, context, setup_s)
            except OSError as error:
                self.is_open = False
                raise tls.failure(error, str(self)) from error
        self.negotiate()
        self.authenticate()

    def __str__(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        if self.is_open:
            self.is_open = False
            self._socket.close()

    def ask(
        self,
        request: Message,
        *,
        min_version: int = 0,
        max_version: int = 32_767,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request at the newest version that both sides support and return the response.

        `min_version` is for requests with a field that older versions lack, `max_version` for those
        with a field that newer versions dropped. `timeout_ms` replaces `request.timeout.ms` for
        requests that the broker may hold longer. Raises ClientError, including UNSUPPORTED_VERSION.
        """
        self._keep_session()
        spec = spec_of(request)
        version = self.version_of(spec, min_version, max_version)
        return self._exchange(spec, version, request, timeout_ms)

    def exchange(self, request: Message, *, min_version: int = 0) -> Any:
        """Like `ask`, for authentication: does not check whether the session must be renewed."""
        spec = spec_of(request)
        return self._exchange(spec, self.version_of(spec, min_version), request)

    def send(self, request: Message, *, max_version: int = 32_767) -> None:
        """Send a request without a response: Produce with acks 0. Raises ClientError."""
        self._keep_session()
        spec = spec_of(request)
        self._send(spec, self.version_of(spec, 0, max_version), request)

    def version_of(self, spec: ApiSpec, min_version: int = 0, max_version: int = 32_767) -> int:
        """Return the newest common version within the limits.

        Raises ClientError (UNSUPPORTED_VERSION) if there is none.
        """
        name = spec.constant
        if spec.key not in self.api_versions:
            raise ClientError(ErrorCode.UNSUPPORTED_VERSION, f"The node does not support {name}")
        lowest, newest = self.api_versions[spec.key]
        low = max(spec.min_version, min_version)
        high = min(spec.max_version, max_version)
        if low > newest or high < lowest:
            raise ClientError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The node does not support {name} with version in range [{low},{high}]."
                f" The supported range is [{lowest},{newest}].",
            )
        return min(high, newest)

    def authenticate(self) -> None:
        """Authenticate with SASL if the settings say so. Raises ClientError, including SaslError.

        A session with a lifetime (KIP-368) is renewed by the first request after most of its time.
        """
        security = self._settings.security
        if security is None or security.sasl is None:
            return
        from coordinator_server.client.sasl import authenticate

        begin_s = time.monotonic()
        try:
            lifetime_ms = authenticate(self, security.sasl)
        except ClientError:
            self.close()
            raise
        if lifetime_ms:
            self._reauthenticates_at_s = begin_s + lifetime_ms / 1000 * _SESSION_PART

    def _keep_session(self) -> None:
        if time.monotonic() > self._reauthenticates_at_s:
            self.authenticate()

    def negotiate(self) -> None:
        """Request the version range of each API. Raises ClientError.

        A broker that does not know this client's ApiVersions version responds in version 0.
        """
        from protocol.apis.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version="1"
        )
        version = _API_VERSIONS.max_version
        answer = self._exchange(_API_VERSIONS, version, request)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = max(
                (api.max_version for api in answer.api_keys if api.api_key == API_VERSIONS_KEY),
                default=0,
            )
            answer = self._exchange(_API_VERSIONS, version, request)
        if answer.error_code:
            self.close()
            raise ClientError(answer.error_code)
        self.api_versions = {
            api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
        }

    def _send(self, spec: ApiSpec, version: int, request: Message) -> None:
        self._requests += 1
        header = RequestHeader(
            api_key=spec.key,
            api_version=version,
            correlation_id=self._requests,
            client_id=self._settings.client_id,
        )
        payload = encoder(RequestHeader, spec.request_header_version(version))(header)
        payload += encoder(spec.request_type, version)(request)
        try:
            deadline_s = self._deadline_s(self._settings.request_timeout_ms)
            self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise self._broken(error) from error

    def _exchange(
        self, spec: ApiSpec, version: int, request: Message, timeout_ms: int | None = None
    ) -> Any:
        self._send(spec, version, request)
        if timeout_ms is None:
            timeout_ms = self._settings.request_timeout_ms
        deadline_s = self._deadline_s(timeout_ms)
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size, deadline_s))
        frame = self._receive(size, deadline_s)
        try:
            header, position = decoder(ResponseHeader, spec.response_header_version(version))(
                frame, 0
            )
            if spec is _API_VERSIONS and frame[position : position + 2] == b"\x00\x23":
                # An ApiVersions response with UNSUPPORTED_VERSION has the body of version 0, which
                # any client can read.
                version = 0
            response, _ = decoder(spec.response_type, version)(frame, position)
        except ProtocolError as error:
            raise self._failure(f"{self} does not speak {spec.name} {version}: {error}") from error
        if header.correlation_id != self._requests:
            raise self._failure(f"{self} answers another request than {spec.name}")
        return response

    def _receive(self, size: int, deadline_s: float) -> bytes:
        if not 0 <= size <= _MAX_FRAME_BYTES:
            raise self._failure(f"{self} does not speak Kafka's protocol")
        received = bytearray()
        while len(received) < size:
            try:
                self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
                part = self._socket.recv(min(size - len(received), 1 << 20))
            except TimeoutError as error:
                self.close()
                raise ClientError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{self} does not answer in time"
                ) from error
            except OSError as error:
                raise self._broken(error) from error
            if not part:
                raise self._failure(f"{self} closed the connection")
            received += part
        return bytes(received)

    def _deadline_s(self, timeout_ms: int) -> float:
        deadline_s = time.monotonic() + timeout_ms / 1000
        return deadline_s if self.deadline_s is None else min(deadline_s, self.deadline_s)

    def _broken(self, error: OSError) -> ClientError:
        """Return the error of a broken connection.

        In TLS 1.3 a broker rejects a client's certificate only after the handshake.
        """
        security = self._settings.security
        if security is not None and security.tls is not None:
            import ssl

            if isinstance(error, ssl.SSLError):
                from coordinator_server.client.tls import failure

                self.close()
                return failure(error, str(self))
        return self._failure(f"{self} does not answer: {error}")

    def _failure(self, message: str) -> ClientError:
        """Close the unusable connection and return the error to raise."""
        if hasattr(self, "_socket"):
            self.close()
        return ClientError(ErrorCode.NETWORK_EXCEPTION, message)


def spec_of(request: Message) -> ApiSpec:
    """Return the ApiSpec of a request."""
    return SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
