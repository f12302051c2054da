"""Handles the frames of a connection during SASL authentication and re-authentication.

Source: Kafka's SaslServerAuthenticator, and the handling of its exceptions by KafkaChannel and
Selector. An error that the client may see (an AuthenticationException) is answered after
connection.failed.authentication.delay.ms, then the connection is closed; any other error closes the
connection at once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from coordinator_server.events.log import LOG
from coordinator_server.security import client_software
from coordinator_server.security.principal import Principal, user
from coordinator_server.security.sasl.listener import AUTHENTICATION_TIMEOUT_SECONDS
from coordinator_server.security.sasl.mechanism import (
    Mechanism,
    SaslAuthenticationError,
    SaslRefusalError,
    UnreadableTokenError,
)
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import RequestHeader, decode_request_header, response_prefix
from protocol.registry import (
    API_VERSIONS_KEY,
    SASL_AUTHENTICATE_KEY,
    SASL_HANDSHAKE_KEY,
    SPEC_BY_KEY,
)

if TYPE_CHECKING:
    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.security.sasl.listener import SaslListener
    from protocol.registry import ApiSpec
    from protocol.schema import Message

LONGEST_LOGGED_NAME = 100
MOST_REQUEST_BYTES = 4096
"""Size limit of a request without a token before authentication. Clients have no reason to send
more, and large requests take long to decode and answer."""

MIN_REAUTH_INTERVAL_MS = 1000
_FRAME_LENGTH_BYTES = 4
_TOKEN_LENGTH = Struct(">i")
_API_KEY = Struct(">h")

Frame = bytes | bytearray


class SaslConnection(Protocol):
    """A connection, as the authenticator uses it."""

    remote: str
    principal: Principal
    has_token: bool

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""

    def hand_frames_to(
        self, dispatch: Callable[[Any, Frame], None], most_bytes: int | None
    ) -> None:
        """Use another dispatch for later frames, with a maximum frame size; None is the default."""

    def answer(self, prefix: bytes, body: bytes) -> None:
        """Send the response to the current request."""

    def failed(
        self, spec: ApiSpec, version: int, request: Message, error: ErrorCode, message: str
    ) -> Message:
        """Return the API's response type with an error in every error field."""

    def refuse(self, reason: str, api: str | int | None = None, version: int | None = None) -> None:
        """Close the connection because of invalid input."""

    def close(self) -> None:
        """Close the connection after sending queued responses."""


Serve = Callable[[Any, Frame], None]
"""Handles the requests of an authenticated client."""


AwaitTurn = Callable[[Callable[[], None]], None]
"""Queues a callback for its turn of the event loop."""


class _State(Enum):
    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    SESSION = auto()
    BAD_MECHANISM = auto()
    FAILED = auto()


class SaslAuthenticator:
    """Authenticates one client; afterwards `serve` handles its requests.

    With `await_turn`, each step waits for its turn, so that hundreds of simultaneous logins do not
    block other clients.
    """

    __slots__ = (
        "_await_turn",
        "_began_ms",
        "_client",
        "_clock",
        "_expires_at_ms",
        "_has_headers",
        "_listener",
        "_mechanism",
        "_mechanism_name",
        "_principal",
        "_serve",
        "_state",
        "_timer",
    )

    def __init__(
        self,
        listener: SaslListener,
        clock: BrokerClock,
        client: SaslConnection,
        serve: Serve,
        *,
        await_turn: AwaitTurn | None = None,
    ) -> None:
        self._await_turn = await_turn
        self._listener = listener
        self._clock = clock
        self._client = client
        self._serve = serve
        self._state = _State.HANDSHAKE_OR_VERSIONS
        self._mechanism: Mechanism | None = None
        self._mechanism_name = ""
        self._principal: Principal | None = None
        self._has_headers = False
        self._expires_at_ms: int | None = None
        self._began_ms = 0
        client.hand_frames_to(self.take, listener.max_receive_size)
        self._timer: Timer | None = clock.call_later(AUTHENTICATION_TIMEOUT_SECONDS, self._is_late)

    @property
    def has_authenticated(self) -> bool:
        """Whether the client has authenticated at least once."""
        return self._principal is not None

    def gone(self) -> None:
        """Cancel the authentication timeout."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # break the reference cycle

    def _is_late(self) -> None:
        self._timer = None
        if self._state is not _State.SESSION:
            self._state = _State.FAILED
            self._client.refuse(f"not authenticated after {AUTHENTICATION_TIMEOUT_SECONDS} s")

    # --- frames -----------------------------------------------------------------------------------

    def take(self, connection: object, frame: Frame) -> None:
        """Handle one frame, including its length prefix, in its turn. Never raises."""
        if self._await_turn is None:
            self._take(frame)
        else:
            self._await_turn(partial(self._take, frame))

    def _take(self, frame: Frame) -> None:
        if self._state is _State.FAILED or self._client.closed:
            return
        try:
            if self._state is _State.BAD_MECHANISM:
                raise SaslAuthenticationError("the mechanism of a session cannot be changed")
            if self._state is not _State.AUTHENTICATE:
                self._take_request(frame)
            elif self._has_headers:
                self._take_authenticate(frame)
            else:
                self._take_token(bytes(frame[_FRAME_LENGTH_BYTES:]))
        except SaslAuthenticationError as error:
            self._fail(error.reason)
        except (SaslRefusalError, UnreadableTokenError, ProtocolError) as error:
            self._break_off(str(error))
        except Exception:  # error boundary: no client may stop the broker by an exception
            self._state = _State.FAILED
            self.gone()
            LOG.emit(
                "authenticator.failed",
                remote=self._client.remote,
                listener=self._listener.name,
                mechanism=self._mechanism_name or None,
                exc_info=True,
            )
            self._client.close()

    def _take_request(self, frame: Frame) -> None:
        """Handle ApiVersions, which is allowed once, or SaslHandshake."""
        header, position = decode_request_header(frame, _FRAME_LENGTH_BYTES)
        _check_size(header, frame)
        if header.api_key == SASL_HANDSHAKE_KEY:
            self._take_handshake(header, frame, position)
        elif header.api_key != API_VERSIONS_KEY or self._state is _State.HANDSHAKE:
            raise ProtocolError(f"{_api_name(header)} came before the client has authenticated")
        elif self._principal is not None:
            raise ProtocolError("ApiVersions came instead of SaslHandshake")
        else:
            self._take_api_versions(header, frame, position)

    def _take_api_versions(self, header: RequestHeader, frame: Frame, position: int) -> None:
        version = header.api_version
        if SPEC_BY_KEY[API_VERSIONS_KEY].supports(version):
            request = _decode(header, frame, position)
            if client_software.is_valid_request(request, version):
                self._state = _State.HANDSHAKE
        self._serve(self._client, frame)

    def _take_handshake(self, header: RequestHeader, frame: Frame, position: int) -> None:
        name = _decode(header, frame, position).mechanism
        self._has_headers = header.api_version > 0
        from protocol.apis.sasl_handshake import SaslHandshakeResponse

        response = SaslHandshakeResponse(mechanisms=list(self._listener.mechanisms))
        new_mechanism = self._listener.mechanisms.get(name)
        reason = f"Unsupported SASL mechanism {_printable(name) or ''}"
        if new_mechanism is None and self._principal is not None:
            raise ProtocolError(reason)
        if new_mechanism is None:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = _encode(header, response)
            self._fail(reason, answer)
            return
        if self._principal is not None and name != self._mechanism_name:
            self._state = _State.BAD_MECHANISM
        else:
            self._mechanism, self._mechanism_name = new_mechanism(), name
            self._state = _State.AUTHENTICATE
        self._client.answer(*_encode(header, response))

    def _take_token(self, token: bytes) -> None:
        """Handle a raw token without headers, as after SaslHandshake v0."""
        answer = self._evaluate(token)
        if self._mechanism_is_complete:
            self._complete()
        self._client.answer(_TOKEN_LENGTH.pack(len(answer)), answer)

    def _take_authenticate(self, frame: Frame) -> None:
        header, position = decode_request_header(frame, _FRAME_LENGTH_BYTES)
        if header.api_key != SASL_AUTHENTICATE_KEY:
            self._refuse_request(header, frame, position)
            return
        from protocol.apis.sasl_authenticate import SaslAuthenticateResponse

        token = _decode(header, frame, position).auth_bytes
        response = SaslAuthenticateResponse()
        try:
            response.auth_bytes = self._evaluate(bytes(token))
        except SaslRefusalError as error:
            # Only the message of a SaslAuthenticationError is meant for the client. Any other
            # message may reveal whether the user exists.
            message = (
                error.message
                if isinstance(error, SaslAuthenticationError)
                else f"Authentication failed during {self._what} due to invalid credentials with "
                f"SASL mechanism {self._mechanism_name}"
            )
            response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
            response.error_message = message
            self._fail(error.reason, _encode(header, response))
            return
        if self._mechanism_is_complete:
            response.session_lifetime_ms = self._complete()
        self._client.answer(*_encode(header, response))

    def _refuse_request(self, header: RequestHeader, frame: Frame, position: int) -> None:
        """Send the error response to a request of another API that came in place of a token.

        Raises ProtocolError for an unknown API.
        """
        reason = f"{_api_name(header)} came while the client authenticates"
        if header.api_key not in SPEC_BY_KEY:
            raise ProtocolError(reason)
        _check_size(header, frame)
        request = _decode(header, frame, position)
        spec = SPEC_BY_KEY[header.api_key]
        message = f"Unexpected Kafka request of type {spec.constant} during SASL authentication."
        response = self._client.failed(
            spec, header.api_version, request, ErrorCode.ILLEGAL_SASL_STATE, message
        )
        self._fail(reason, _encode(header, response))

    # --- outcomes ---------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return "authentication" if self._principal is None else "re-authentication"

    @property
    def _mechanism_is_complete(self) -> bool:
        return self._mechanism is not None and self._mechanism.is_complete

    def _evaluate(self, token: bytes) -> bytes:
        mechanism = self._mechanism
        assert mechanism is not None
        answer = mechanism.evaluate(token)
        before, now = self._principal, user(mechanism.user)
        if mechanism.is_complete and before is not None and now != before:
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{before.principal_type}.{before.name}: {now.principal_type}.{now.name}"
            )
        return answer

    def _complete(self) -> int:
        """Open the session; return its lifetime in ms, 0 if unlimited."""
        mechanism, client = self._mechanism, self._client
        assert mechanism is not None
        self.gone()
        self._principal = client.principal = user(mechanism.user)
        client.has_token = mechanism.has_token
        self._state = _State.SESSION
        lifetime_ms = self._lifetime_ms(mechanism)
        if LOG.debug:
            LOG.emit(
                "connection.authenticated",
                remote=client.remote,
                listener=self._listener.name,
                mechanism=self._mechanism_name,
                user=_printable(mechanism.user),
            )
        self._mechanism = None
        if lifetime_ms is None:
            client.hand_frames_to(self._serve, None)
            return 0
        self._expires_at_ms = self._clock.now_ms() + lifetime_ms
        client.hand_frames_to(self._take_in_session, None)
        return lifetime_ms

    def _lifetime_ms(self, mechanism: Mechanism) -> int | None:
        """Return the session lifetime, limited by the setting and the credentials, or None."""
        limits = []
        max_reauth_ms = self._listener.max_reauth_ms[self._mechanism_name]
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        if mechanism.expires_at_ms is not None:
            limits.append(mechanism.expires_at_ms - self._clock.now_ms())
        return max(min(limits), 0) if limits else None

    def _take_in_session(self, connection: object, frame: Frame) -> None:
        """Serve a request of a session with limited lifetime, or start re-authentication.

        Source: KafkaChannel.maybeBeginServerReauthentication.
        """
        now_ms = self._clock.now_ms()
        assert self._expires_at_ms is not None
        key = _API_KEY.unpack_from(frame, _FRAME_LENGTH_BYTES)[0] if len(frame) > 5 else -1
        if key == SASL_HANDSHAKE_KEY and now_ms - self._began_ms >= MIN_REAUTH_INTERVAL_MS:
            self._began_ms = now_ms
            self._state = _State.HANDSHAKE
            self._client.hand_frames_to(self.take, self._listener.max_receive_size)
            self.take(connection, frame)
        elif now_ms >= self._expires_at_ms:
            self._client.refuse("its session has ended, and it did not authenticate again")
        else:
            self._serve(connection, frame)

    def _fail(self, reason: str, answer: tuple[bytes, bytes] | None = None) -> None:
        """Refuse the client after a delay, to slow down password guessing."""
        self._ends(reason)
        delay_ms = self._listener.failure_delay_ms
        if not delay_ms:
            self._end(answer)
        else:
            self._clock.call_later(delay_ms / 1000, partial(self._end, answer))

    def _end(self, answer: tuple[bytes, bytes] | None) -> None:
        if self._client.closed:
            return
        if answer is not None:
            self._client.answer(*answer)
        self._client.close()

    def _break_off(self, reason: str) -> None:
        self._ends(reason)
        self._client.close()

    def _ends(self, reason: str) -> None:
        self._state = _State.FAILED
        self.gone()
        name = "" if self._mechanism is None else self._mechanism.user
        LOG.emit(
            "authentication.failed",
            remote=self._client.remote,
            listener=self._listener.name,
            mechanism=self._mechanism_name or None,
            user=_printable(name),
            reason=reason,
        )


def _printable(name: str) -> str | None:
    """Return a client-supplied name if it can be logged, or None."""
    return name if name.isprintable() and 0 < len(name) <= LONGEST_LOGGED_NAME else None


def _api_name(header: RequestHeader) -> str:
    spec = SPEC_BY_KEY.get(header.api_key)
    return f"API {header.api_key}" if spec is None else spec.name


def _check_size(header: RequestHeader, frame: Frame) -> None:
    if len(frame) > MOST_REQUEST_BYTES:
        raise ProtocolError(f"{_api_name(header)} of {len(frame)} bytes came too early")


def _decode(header: RequestHeader, frame: Frame, position: int) -> Any:
    spec = SPEC_BY_KEY[header.api_key]
    if not spec.supports(header.api_version):
        raise ProtocolError(f"{spec.name} {header.api_version} is not served")
    request, _ = decoder(spec.request_type, header.api_version)(frame, position)
    return request


def _encode(header: RequestHeader, response: Message) -> tuple[bytes, bytes]:
    spec = SPEC_BY_KEY[header.api_key]
    body = encoder(spec.response_type, header.api_version)(response)
    is_flexible = spec.response_header_version(header.api_version) == 1
    return response_prefix(header.correlation_id, is_flexible, len(body)), body
