"""Authentication on a connection: the order of steps, failures, sessions."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.events.log import LOG
from coordinator_server.net.connection import Connection
from coordinator_server.security.principal import ANONYMOUS, user
from coordinator_server.security.sasl.authenticator import AwaitTurn, SaslAuthenticator
from coordinator_server.security.sasl.listener import (
    AUTHENTICATION_TIMEOUT_SECONDS,
    SaslListener,
)
from coordinator_server.security.sasl.oauthbearer import VALIDATED
from coordinator_server.security.sasl.plain import PLAIN_MODULE, Plain
from coordinator_server.security.security import Security
from protocol.apis.api_versions import ApiVersionsRequest
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from protocol.codec import decoder
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from protocol.schema import Message
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.faults.client import frame_of
from tests.harness.clock import ManualClock
from tests.unit.net.fakes import FakeNetwork, FakeTransport

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="secret" user_bob="builder";'
)
SETTINGS = {
    "listener.name.users.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.users.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "0",
}
SESSION_MS = 5000
SESSIONS = {"listener.name.users.plain.connections.max.reauth.ms": str(SESSION_MS)}


class Room:
    """A listener with one client; `served` has the frames that reached the broker."""

    def __init__(
        self, more: Mapping[str, str] | None = None, await_turn: AwaitTurn | None = None
    ) -> None:
        self.network = FakeNetwork(dispatch=self._serve)
        self.served: list[bytes | bytearray] = []
        config = Config(overrides={**SETTINGS, **(more or {})})
        disk = MemoryDisk()
        disk.mkdir("/d")
        security = Security(config, SecurityState(disk, "/d"), ManualClock(), ManualClock())
        listener = SaslListener(config.of_listener("USERS"), "USERS", security)
        clock = self.clock = ManualClock()

        def authenticate(connection: Any, serve: Any) -> SaslAuthenticator:
            return SaslAuthenticator(listener, clock, connection, serve, await_turn=await_turn)

        self.connection = Connection(self.network.connections, "USERS", authenticate)
        self.transport = FakeTransport()
        self.connection.connection_made(cast(Any, self.transport))

    def _serve(self, connection: Connection, frame: bytes | bytearray) -> None:
        self.served.append(frame)
        connection.answer(b"", b"served")

    def say(self, request: Message, version: int) -> Any:
        """Send a request; return its response, if any."""
        before = len(self.transport.written)
        self.connection.data_received(frame_of(request, version))
        if len(self.transport.written) == before:
            return None
        answer = self.transport.written[-1]
        if answer == b"served":
            return "served"
        spec = SPEC_BY_NAME[type(request).__name__.removesuffix("Request")]
        position = 8 + spec.response_header_version(version)
        return decoder(spec.response_type, version)(answer, position)[0]

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.say(SaslHandshakeRequest(mechanism=mechanism), version)

    def plain(self, name: str = "alice", password: str = "secret") -> Any:
        token = f"\0{name}\0{password}".encode()
        return self.say(SaslAuthenticateRequest(auth_bytes=token), 2)

    def metadata(self) -> Any:
        return self.say(MetadataRequest(topics=[]), 4)

    def versions(self, name: str = "x") -> Any:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        return self.say(request, 4)


def test_versions_handshake_token_requests() -> None:
    """After ApiVersions, handshake and tokens in this order, requests reach the broker."""
    room = Room()
    assert room.versions() == "served"
    handshake = room.handshake()
    assert handshake.error_code == 0
    assert handshake.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    before = room.connection.principal
    was_unauthenticated = room.connection.is_unauthenticated
    answer = room.plain()
    assert (was_unauthenticated, room.connection.is_unauthenticated) == (True, False)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert (before, room.connection.principal) == (ANONYMOUS, user("alice"))
    assert room.metadata() == "served"
    room.connection.connection_lost(None)


def test_a_raw_token() -> None:
    """After version 0 of the handshake tokens have no header."""
    room = Room()
    room.handshake(version=0)
    token = b"\0alice\0secret"
    room.connection.data_received(len(token).to_bytes(4, "big") + token)
    assert room.transport.written[-1] == bytes(4)
    assert room.metadata() == "served"


def test_a_wrong_password_is_told() -> None:
    """A wrong password gets Kafka's message, then the connection is closed."""
    room = Room()
    room.handshake()
    answer = room.plain(password="wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert room.transport.closed
    assert room.metadata() is None
    assert room.connection.principal == ANONYMOUS


def test_the_answer_to_a_failure_waits() -> None:
    """The response to a failed login is delayed by the setting; further input is ignored."""
    room = Room({"connection.failed.authentication.delay.ms": "30"})
    room.handshake()
    assert room.plain(password="wrong") is None
    assert room.plain() is None
    was_open = not room.transport.closed
    room.clock.pass_time(30)
    assert (was_open, room.transport.closed) == (True, True)
    assert len(room.transport.written) == 2


def test_a_client_that_does_not_wait_for_the_answer() -> None:
    """A client that disconnects before the delayed failure gets no response."""
    room = Room({"connection.failed.authentication.delay.ms": "10"})
    room.handshake()
    room.plain(password="wrong")
    room.connection.connection_lost(None)
    room.clock.pass_time(10)
    assert len(room.transport.written) == 1


def test_an_unknown_mechanism_is_told() -> None:
    """An unknown mechanism gets the list of mechanisms, then the connection is closed."""
    room = Room()
    answer = room.handshake("GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert room.transport.closed


@pytest.mark.parametrize(
    "calls",
    [
        [Room.metadata],
        [Room.versions, Room.metadata],
        [Room.versions, Room.versions],
        [Room.plain],
        [Room.handshake, Room.versions],
        [Room.handshake, Room.metadata],
    ],
)
def test_what_comes_out_of_order_closes(calls: list[Any]) -> None:
    """Before authentication any request except the next step closes the connection."""
    room = Room()
    for call in calls:
        call(room)
    assert room.transport.closed
    assert room.connection.principal == ANONYMOUS


def test_another_request_in_place_of_a_token() -> None:
    """Another request instead of a token gets an error, then the connection is closed."""
    room = Room()
    room.handshake()
    answer = room.handshake()
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert room.transport.closed


def test_a_client_without_a_name_may_ask_again() -> None:
    """A refused ApiVersions request is not counted as the single allowed request."""
    room = Room()
    assert room.versions("") == "served"
    assert room.versions() == "served"
    assert not room.transport.closed


def test_large_frames_are_refused_before() -> None:
    """A frame above sasl.server.max.receive.size is refused only before authentication."""
    room = Room({"sasl.server.max.receive.size": "200"})
    room.handshake()
    room.plain()
    frame = frame_of(MetadataRequest(topics=[]), 4)
    room.connection.data_received((500).to_bytes(4, "big") + frame[4:] + bytes(504 - len(frame)))
    assert len(room.served) == 1
    room = Room({"sasl.server.max.receive.size": "200"})
    room.connection.data_received((201).to_bytes(4, "big"))
    assert room.transport.closed


def test_whoever_takes_too_long_is_closed() -> None:
    """A client that takes too long is closed; the time counts from the connection's start."""
    slow, quick = Room(), Room()
    quick.handshake()
    quick.plain()
    slow.handshake()
    for room in (slow, quick):
        room.clock.pass_time(AUTHENTICATION_TIMEOUT_SECONDS * 1000)
    assert slow.transport.closed
    assert not quick.transport.closed


def test_a_session_goes_on_after_another_authentication() -> None:
    """Reauthentication extends the session, and the response has the new lifetime."""
    room = Room(SESSIONS)
    room.handshake()
    assert room.plain().session_lifetime_ms == SESSION_MS
    assert room.metadata() == "served"
    room.clock.time_ms += SESSION_MS - 1
    assert room.handshake().error_code == 0
    assert room.plain().session_lifetime_ms == SESSION_MS
    room.clock.time_ms += SESSION_MS - 1
    assert room.metadata() == "served"
    room.clock.time_ms += 1
    assert room.metadata() is None
    assert room.transport.closed


def test_nobody_becomes_somebody_else() -> None:
    """Reauthentication with another user or mechanism closes the connection."""
    room = Room(SESSIONS)
    room.handshake()
    room.plain()
    room.handshake()
    answer = room.plain("bob", "builder")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert room.transport.closed
    room = Room(SESSIONS)
    room.handshake()
    room.plain()
    assert room.handshake("SCRAM-SHA-256").error_code == 0
    assert room.plain() is None
    assert room.transport.closed


def test_a_second_handshake_within_a_second_is_a_request() -> None:
    """A handshake within a second of the last one, or without a session, is a normal request."""
    room = Room(SESSIONS)
    for _ in range(2):
        room.handshake()
        room.plain()
    assert room.handshake() == "served"
    room = Room()
    room.handshake()
    room.plain()
    assert room.handshake() == "served"


@pytest.mark.parametrize("settings", [{}, SESSIONS])
@pytest.mark.parametrize("has_authenticated", [True, False])
def test_a_connection_that_has_ended_keeps_nothing(
    settings: dict[str, str], has_authenticated: bool
) -> None:
    """The authenticator of a closed connection is freed without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        room = Room(settings)
        room.handshake()
        if has_authenticated:
            room.plain()
        room.connection.connection_lost(None)
        kept = [one for one in gc.get_objects() if isinstance(one, SaslAuthenticator)]
        assert not [one for one in kept if one._client is room.connection]
    finally:
        gc.enable()


def test_a_bug_costs_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug closes one connection, and the log has a traceback."""
    room, other = Room(), Room()
    room.handshake()
    other.handshake()

    class Broken(Plain):
        def evaluate(self, token: bytes) -> bytes:
            raise OverflowError("a bug")

    logged: list[tuple[str, object]] = []

    def emit(event: str, exc_info: bool = False, **_: object) -> None:
        logged.append((event, sys.exc_info()[0] if exc_info else None))

    monkeypatch.setattr(type(LOG), "emit", staticmethod(emit))
    cast(Any, room.connection._authenticator)._mechanism = Broken({})
    assert room.plain() is None
    assert room.transport.closed
    assert room.clock.timers == []
    room.connection.connection_lost(None)
    assert other.plain().error_code == 0
    assert logged == [("authenticator.failed", OverflowError)]


def test_large_requests_are_closed_unread() -> None:
    """Before authentication a large request other than a token closes the connection unread."""
    room = Room()
    room.handshake()
    assert room.metadata().topics == []
    many = MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(3000)])
    versions = ApiVersionsRequest(client_software_name="x" * 5000, client_software_version="1")
    for has_handshake, request, version in ((True, many, 1), (False, versions, 4)):
        room = Room()
        if has_handshake:
            room.handshake()
        before = len(room.transport.written)
        room.connection.data_received(frame_of(request, version))
        assert (room.transport.closed, len(room.transport.written)) == (True, before)


def test_a_long_token_that_is_no_utf8_is_closed() -> None:
    """A long token that is not UTF-8 closes the connection; a short token gets the reason.

    Replacing each invalid byte takes too long.
    """
    for size, is_told in ((100, True), (5000, False)):
        room = Room()
        room.handshake()
        answer = room.say(SaslAuthenticateRequest(auth_bytes=b"\xff" * size), 2)
        assert (answer is not None, room.transport.closed) == (is_told, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not served"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": ""},
            "users are needed for PLAIN, and it is not set",
        ),
        (
            {"plain.sasl.jaas.config": 'PlainLogin required user_a="geheim";'},
            "users are needed for PLAIN, and it has another login module",
        ),
        (
            {"plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="geheim";'},
            "users are needed for PLAIN, and it has no option user_NAME",
        ),
        ({"plain.sasl.jaas.config": 'x required user_a="geheim" y'}, "Value not specified"),
        ({"plain.sasl.jaas.config": JAAS + JAAS}, "2 login modules, should be 1 module"),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "oauthbearer.sasl.server.callback.handler.class": VALIDATED,
            },
            "jwks.endpoint.url",
        ),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], words: str) -> None:
    """Invalid settings are refused at the start, with the name but not the value."""
    overrides = {**SETTINGS, **{f"listener.name.users.{k}": v for k, v in settings.items()}}
    config = Config(overrides=overrides)
    security = Security(config, SecurityState(MemoryDisk(), "/d"), ManualClock(), ManualClock())
    with pytest.raises(ConfigError, match=words) as caught:
        SaslListener(config.of_listener("USERS"), "USERS", security)
    assert "listener.name.users." in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_steps_wait_for_their_turn() -> None:
    """Authentication steps take turns in the order of frames, and end with the connection."""
    waiting: list[Callable[[], None]] = []
    room = Room(await_turn=waiting.append)
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
    frames = (
        frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        frame_of(token, 2),
        frame_of(MetadataRequest(topics=[]), 4),
    )
    room.connection.data_received(b"".join(frames))
    assert (len(waiting), room.transport.written) == (1, [])
    waiting.pop()()
    assert (len(waiting), room.served) == (1, [])
    waiting.pop()()
    assert (len(waiting), room.served) == (0, [frames[2]])
    gone = Room(await_turn=waiting.append)
    gone.connection.data_received(frames[0])
    gone.connection.connection_lost(None)
    waiting.pop()()
    assert gone.transport.written == []


def test_mechanisms_that_nobody_has_named() -> None:
    """GSSAPI is refused; without a setting, the error says that GSSAPI is Kafka's default."""
    for names, expected in (
        ({}, "GSSAPI, Kafka's default, is not served"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not served"),
        ({"listener.name.users.sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not served"),
    ):
        config = Config(overrides=names)
        security = Security(config, SecurityState(MemoryDisk(), "/d"), ManualClock(), ManualClock())
        with pytest.raises(ConfigError, match=expected):
            SaslListener(config.of_listener("USERS"), "USERS", security)
