"""Scripted conversations of authenticating clients with Kafka and with our broker.

Each conversation is a function that sends requests through a `Talk`. The `Talk` records all bytes
of the server's responses except nonces, and whether the server closes the connection.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from protocol.apis.api_versions import ApiVersionsRequest
from protocol.apis.metadata import MetadataRequest
from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from protocol.codec import decoder
from protocol.registry import SPEC_BY_KEY
from protocol.schema import Message
from tests.faults.client import frame_of
from tests.support import Wire, address_of

HANDSHAKE, AUTHENTICATE, API_VERSIONS, METADATA = 17, 36, 18, 3
CLOSED = "closed"
ANSWERED = "answered"
SECONDS = 10.0
REAUTH_MS = 2500


class Talk:
    """One connection to a broker, and a record of the broker's responses in `said`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._wire = Wire(socket.create_connection(address_of(bootstrap), SECONDS))
        self.said: list[Any] = []

    def close(self) -> None:
        self._wire.socket.close()

    def send(self, frame: bytes) -> bytes | None:
        """Send a frame; return the response, and record a closed connection or silence."""
        try:
            self._wire.send(frame)
            answer = self._wire.receive()
        except (ConnectionError, TimeoutError) as error:
            answer = None
            if isinstance(error, TimeoutError):
                self.said.append("silence")
                return None
        if answer is None:
            self.said.append(CLOSED)
        return answer

    def ask(self, request: Message, version: int) -> Any:
        """Send a request, and record its response with all fields."""
        answer = self.send(frame_of(request, version))
        if answer is None:
            return None
        spec = next(one for one in SPEC_BY_KEY.values() if one.request_type is type(request))
        if spec.key in (API_VERSIONS, METADATA):
            self.said.append((spec.name, ANSWERED))
            return answer
        position = 4 + spec.response_header_version(version)
        response, end = decoder(spec.response_type, version)(answer, position)
        assert end == len(answer)
        fields = {
            field.name: getattr(response, field.name)
            for field in spec.response_type.FIELDS
            if field.in_version(version)
        }
        if "mechanisms" in fields:
            fields["mechanisms"] = sorted(fields["mechanisms"])
        if "auth_bytes" in fields:
            fields["auth_bytes"] = _without_nonce(fields["auth_bytes"])
        self.said.append((spec.name, fields))
        return response

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def raw(self, token: bytes) -> bytes | None:
        answer = self.send(struct.pack(">i", len(token)) + token)
        if answer is not None:
            self.said.append(_without_nonce(answer))
        return answer

    def versions(self, version: int = 4, name: str = "test") -> Any:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        return self.ask(request, version)

    def metadata(self) -> Any:
        return self.ask(MetadataRequest(topics=[]), 4)

    def plain(self, user: str = "alice", password: str = "secret", version: int = 2) -> Any:
        return self.token(f"\0{user}\0{password}".encode(), version)

    def scram(
        self, say: Callable[[bytes], bytes | None], user: str, password: str, **changes: Any
    ) -> None:
        """Send both messages of SCRAM; `changes` are mistakes, extensions, or signed extensions."""
        name, extensions = f"n={user},r=cnonce", changes.get("extensions", "")
        first = say(f"{changes.get('gs2', 'n,,')}{name}{extensions}".encode())
        if first is None or not first.startswith(b"r="):
            return
        bare = name + changes.get("signed_extensions", extensions)
        final = scram_final(bare, first.decode(), password, **changes)
        say(final.encode())

    def in_headers(self, token: bytes) -> bytes | None:
        response = self.token(token)
        return None if response is None else bytes(response.auth_bytes)


def scram_final(bare: str, first: str, password: str, **changes: Any) -> str:
    """Return the client's final message of SCRAM-SHA-256, or of the mechanism in `changes`.

    All other `changes` are deliberate mistakes in the message.
    """
    nonce, salt, iterations = (item[2:] for item in first.split(","))
    hash_name = changes.get("hash_name", "sha256")
    salted = hashlib.pbkdf2_hmac(
        hash_name, password.encode(), base64.b64decode(salt), int(iterations)
    )
    nonce = changes.get("nonce", nonce)
    without_proof = f"c={changes.get('channel', 'biws')},r={nonce}"
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, f"{bare},{first},{without_proof}".encode(), hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    proof = proof[: changes.get("proof_bytes", len(proof))]
    return f"{without_proof},p={base64.b64encode(proof).decode()}"


def _without_nonce(token: bytes) -> bytes:
    """Return a server's SCRAM token without the parts that depend on its nonce.

    The salt of a delegation token, a number in base 36, also differs each time and is removed.
    """
    if token.startswith(b"v="):
        return b"v=..."
    if not token.startswith(b"r="):
        return token
    nonce, salt, rest = token.split(b",", 2)
    if re.fullmatch(b"[0-9a-z]{18,26}", base64.b64decode(salt[2:])):
        salt = b"s=..."
    return nonce[:8] + b"...," + salt + b"," + rest


class Conversation(NamedTuple):
    name: str
    listener: str
    hold: Callable[[Talk], object]


# --- conversations of users ----------------------------------------------------------------------


def _wrong_header(talk: Talk) -> None:
    talk.send(struct.pack(">i", 3) + b"abc")


def _http(talk: Talk) -> None:
    talk.send(b"GET / HTTP/1.1\r\n\r\n")


def _users() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    def steps(*calls: Callable[[Talk], object]) -> Callable[[Talk], None]:
        def hold(talk: Talk) -> None:
            for call in calls:
                if talk.said and talk.said[-1] == CLOSED:
                    return
                call(talk)

        return hold

    def shake(mechanism: str = "PLAIN", version: int = 1) -> Callable[[Talk], object]:
        return lambda talk: talk.handshake(mechanism, version)

    def token(token: bytes, version: int = 2) -> Callable[[Talk], object]:
        return lambda talk: talk.token(token, version)

    def raw(token: bytes) -> Callable[[Talk], object]:
        return lambda talk: talk.raw(token)

    versions, metadata, plain = Talk.versions, Talk.metadata, Talk.plain
    for version in (0, 1, 2):
        yield (
            f"plain {version}",
            steps(versions, shake(), partial(Talk.plain, version=version), metadata),
        )
    yield "no api versions", steps(shake(), plain, metadata)
    yield "api versions twice", steps(versions, versions)
    yield "api versions after handshake", steps(shake(), versions)
    yield "api versions unsupported", steps(
        lambda talk: talk.send(struct.pack(">ihhih", 10, 18, 99, 1, -1)) and None,
        versions, shake(), plain, metadata,
    )  # fmt: skip
    yield (
        "api versions without a name",
        steps(lambda talk: talk.versions(4, ""), versions, shake(), plain),
    )
    for version in (0, 1):
        yield f"wrong mechanism {version}", steps(shake("GSSAPI", version), plain)
    yield from _requests(steps, shake, token, raw)
    yield from _plains(steps, shake, token, raw)
    yield from _scrams()


Hold = Callable[[Talk], object]
Make = Callable[..., Hold]


def _requests(steps: Make, shake: Make, token: Make, raw: Make) -> Iterator[tuple[str, Hold]]:
    """Yield conversations with requests in a wrong state, and with invalid frames."""
    versions, metadata, plain = Talk.versions, Talk.metadata, Talk.plain
    yield "no mechanism", steps(shake(""), plain)
    yield "mechanism in lower case", steps(shake("plain"), plain)
    yield "handshake twice", steps(shake(), shake())
    yield (
        "handshake of another version",
        steps(lambda talk: talk.send(struct.pack(">ihhih", 10, 17, 9, 1, -1))),
    )
    yield "metadata first", steps(metadata)
    yield "metadata after api versions", steps(versions, metadata)
    yield "metadata after handshake", steps(shake(), metadata)
    yield "authenticate first", steps(plain)
    yield "authenticate after api versions", steps(versions, plain)
    yield "authenticate after authentication", steps(shake(), plain, plain, metadata)
    yield "handshake after authentication", steps(shake(), plain, shake(), metadata)
    yield "api versions after authentication", steps(shake(), plain, versions, metadata)
    yield (
        "unknown api first",
        steps(lambda talk: talk.send(struct.pack(">ihhih", 10, 999, 0, 1, -1))),
    )
    yield (
        "authenticate of another version",
        steps(shake(), lambda talk: talk.send(struct.pack(">ihhih", 10, 36, 9, 1, -1))),
    )
    yield "garbage first", _wrong_header
    yield "http first", _http
    yield "gssapi first", steps(raw(b"\x60\x82\x02\x5a\x06"))
    yield "garbage after handshake", steps(shake(), _wrong_header)
    yield "negative length", steps(lambda talk: talk.send(struct.pack(">i", -5)))
    yield "oversize first", steps(lambda talk: talk.send(struct.pack(">i", 524289)))
    yield "largest token", steps(shake(), token(bytes(524_000)))
    yield "oversize token", steps(shake(), token(bytes(525_000)))


def _plains(steps: Make, shake: Make, token: Make, raw: Make) -> Iterator[tuple[str, Hold]]:
    """Yield conversations with valid and invalid PLAIN tokens."""
    metadata, plain = Talk.metadata, Talk.plain
    for name, bad in {
        "wrong password": b"\0alice\0wrong",
        "unknown user": b"\0nobody\0wrong",
        "no user": b"\0\0secret",
        "no password": b"\0alice\0",
        "one part": b"alice",
        "two parts": b"alice\0secret",
        "four parts": b"\0alice\0secret\0",
        "five parts": b"\0alice\0secret\0\0",
        "nothing": b"",
        "another authzid": b"bob\0alice\0secret",
        "another authzid, wrong password": b"bob\0alice\0wrong",
        "no utf-8": b"\0al\xffice\0secret",
    }.items():
        yield f"plain with {name}", steps(shake(), token(bad))
        yield f"raw plain with {name}", steps(shake(version=0), raw(bad))
    yield "plain with an authzid", steps(shake(), token(b"alice\0alice\0secret"), metadata)
    yield (
        "plain with a name not of ascii",
        steps(shake(), token("\0zoë\0sécret 1;2".encode()), metadata),
    )
    yield "raw plain", steps(shake(version=0), raw(b"\0alice\0secret"), metadata)
    yield "raw metadata", steps(shake(version=0), metadata)
    yield (
        "raw, then handshake after authentication",
        steps(shake(version=0), raw(b"\0alice\0secret"), shake(), metadata),
    )
    yield "headers after a raw handshake", steps(shake(version=0), plain)


def _scrams() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    def scram(version: int, user: str, password: str, **changes: Any) -> Callable[[Talk], None]:
        def hold(talk: Talk) -> None:
            talk.handshake("SCRAM-SHA-256", version)
            talk.scram(talk.in_headers if version else talk.raw, user, password, **changes)
            if talk.said[-1] != CLOSED:
                talk.metadata()

        return hold

    for version in (0, 1):
        form = "scram" if version else "raw scram"
        yield form, scram(version, "carol", "pencil")
        yield f"{form} with a name of signs", scram(version, "d=2Ca=3Dn", "pencil")
        yield f"{form} with wrong password", scram(version, "carol", "wrong")
        yield f"{form} of unknown user", scram(version, "nobody", "pencil")
        yield f"{form} with another nonce", scram(version, "carol", "pencil", nonce="cnonceX")
        yield f"{form} with a short proof", scram(version, "carol", "pencil", proof_bytes=30)
        yield f"{form} without proof", scram(version, "carol", "pencil", proof_bytes=0)
        yield f"{form} with another channel", scram(version, "carol", "pencil", channel="eSws")
        yield f"{form} with channel binding", scram(version, "carol", "pencil", gs2="y,,")
        yield f"{form} with an authzid", scram(version, "carol", "pencil", gs2="n,a=carol,")
        yield f"{form} with another authzid", scram(version, "carol", "pencil", gs2="n,a=bob,")
        yield f"{form} with a bad name", scram(version, "ca=4rol", "pencil")
        yield (
            f"{form} with an extension",
            scram(version, "carol", "pencil", extensions=",tokenauth=false"),
        )
        yield (
            f"{form} of an unknown token",
            scram(version, "carol", "pencil", extensions=",tokenauth=true"),
        )
        yield f"{form} garbage", scram(version, "", "pencil")


def _late(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.plain()
    time.sleep(REAUTH_MS / 1000 + 0.3)
    talk.metadata()


def _late_again(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.plain()
    time.sleep(REAUTH_MS / 1000 + 0.3)
    talk.handshake("PLAIN")
    talk.plain()
    talk.metadata()


def _at_once_again(talk: Talk) -> None:
    for _ in range(3):
        talk.handshake("PLAIN")
        talk.plain()
    talk.metadata()


def _old_client(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.plain(version=0)
    time.sleep(REAUTH_MS / 1000 + 0.3)
    talk.metadata()


def _versions_between(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.plain()
    talk.handshake("PLAIN")
    talk.versions()


def _of_scram(talk: Talk) -> None:
    for _ in range(2):
        talk.handshake("SCRAM-SHA-256")
        talk.scram(talk.in_headers, "carol", "pencil")
    talk.metadata()


def _again() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    """Yield reauthentications (KIP-368), for a listener with short sessions."""

    def twice(
        user: str, password: str, mechanism: str = "PLAIN", version: int = 1
    ) -> Callable[[Talk], None]:
        def hold(talk: Talk) -> None:
            talk.handshake("PLAIN")
            talk.plain()
            talk.metadata()
            time.sleep(0.2)
            if talk.handshake(mechanism, version) is None:
                return
            if version:
                talk.plain(user, password)
            else:
                talk.raw(f"\0{user}\0{password}".encode())
            if talk.said[-1] != CLOSED:
                talk.metadata()

        return hold

    yield "again", twice("alice", "secret")
    yield "again, raw", twice("alice", "secret", version=0)
    yield "again as another", twice("bob", "builder")
    yield "again as another, raw", twice("bob", "builder", version=0)
    yield "again with wrong password", twice("alice", "wrong")
    yield "again with another mechanism", twice("carol", "pencil", "SCRAM-SHA-256")
    yield "again with an unknown mechanism", twice("carol", "pencil", "GSSAPI")
    yield "the session ends", _late
    yield "again after the end", _late_again
    yield "again at once", _at_once_again
    yield "the session of an old client ends", _old_client
    yield "api versions instead of authentication", _versions_between
    yield "scram again", _of_scram


def all_conversations() -> list[Conversation]:
    """Return all conversations except the conversations with tokens."""
    listeners = {"USERS": _users, "AGAIN": _again}
    return [
        Conversation(name, listener, hold)
        for listener, make in listeners.items()
        for name, hold in make()
    ]


def hold(conversation: Conversation, bootstrap: str) -> list[Any]:
    """Run a conversation with a broker and return the recorded responses."""
    talk = Talk(bootstrap)
    try:
        conversation.hold(talk)
    finally:
        talk.close()
    return talk.said
