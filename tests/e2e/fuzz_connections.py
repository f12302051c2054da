"""Fuzzing of listeners with SASL and TLS by client conversations with damage.

A SASL conversation is a generator of frames that receives the broker's responses, so that SCRAM can
compute its proof, and damage can come late as well as early. TLS runs in memory with OpenSSL; its
outgoing records are damaged before they are sent. Except for keys and nonces, everything follows
from a seed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import struct
import time
from collections.abc import Callable, Generator
from typing import cast

from protocol.apis.api_versions import ApiVersionsRequest
from protocol.apis.metadata import MetadataRequest
from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from tests.e2e import fuzz
from tests.e2e.mutations import Mutator
from tests.faults.client import frame_of
from tests.scram import ServerFirst, final_message
from tests.secured import SASL_MECHANISMS, USER
from tests.support import frame

CONNECTIONS = 96
QUIET_SECONDS = 2.0
"""How long a conversation waits for a response, which half a frame never gets."""

_HEADER_BYTES = 6  # the correlation id and the error code of a response
_WORDS = (b"\0", b"\1", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0", b"\0\x11",
          b",", b"=", b"n,,", b"r=", b"p=", b"auth=Bearer ", b"\x80", b"a" * 300)  # fmt: skip

Script = Generator[bytes, bytes, None]


class Counts:
    """Counts of the frames or TLS flights sent, and their outcomes.

    `closed` counts connections that the broker closed, `given_up` connections without a response,
    and `sessions` successful handshakes or authentications.
    """

    def __init__(self) -> None:
        self.sent = self.closed = self.given_up = self.sessions = self.conversations = 0


class SaslScripts:
    """Generates conversations of clients that authenticate, correctly or not."""

    def __init__(self, seed: int, password: str, counts: Counts) -> None:
        self._mutator = Mutator((seed, "sasl"))
        self._random = self._mutator.random
        self._password = password
        self._counts = counts
        self._others = fuzz.Generator(seed).frames(2000)

    def script(self) -> Script:
        """Generate one conversation."""
        chance = self._random.random
        if chance() < 0.3:
            yield self._damaged(self._versions())
        if chance() < 0.03:
            yield self._random.choice(self._others)
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):  # number of authentications
            yield from self._authenticate()
            for _ in range(self._random.choice((0, 1, 1, 3))):
                yield self._damaged(frame_of(MetadataRequest(topics=[]), 4))
        if chance() < 0.1:
            yield self._versions()

    def _versions(self) -> bytes:
        request = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
        return frame_of(request, self._random.choice((0, 2, 3, 4, 5)))

    def _authenticate(self) -> Script:
        mechanism = self._random.choice(SASL_MECHANISMS)
        version = self._random.choice((0, 1, 1, 1))
        yield self._damaged(frame_of(SaslHandshakeRequest(mechanism=mechanism), version))
        if mechanism.startswith("SCRAM"):
            yield from self._scram(mechanism, version)
            return
        token = self._plain() if mechanism == "PLAIN" else self._bearer()
        answer = yield self._token(token, version)
        if mechanism == "OAUTHBEARER" and b"status" in answer:
            yield self._token(b"\1", version)
        self._counts.sessions += len(answer) >= _HEADER_BYTES

    def _scram(self, mechanism: str, version: int) -> Script:
        bare = f"n={USER},r=fuzz"
        first = yield self._token(f"n,,{bare}".encode(), version)
        server_first = ServerFirst.found_in(first)
        if server_first is None:
            yield self._token(b"c=biws,r=fuzz,p=AAAA", version)
            return
        password = self._password if self._random.random() < 0.8 else "wrong"
        algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        answer = yield self._token(final_message(algorithm, password, bare, server_first), version)
        self._counts.sessions += b"v=" in answer

    def _plain(self) -> bytes:
        password = self._password if self._random.random() < 0.7 else "wrong"
        return f"\0{USER}\0{password}".encode()

    def _bearer(self) -> bytes:
        now = int(time.time())
        claims = {"sub": USER, "iat": now - 1, "exp": now + 100}
        text = json.dumps(claims)
        if self._random.random() < 0.3:
            text = self._mutator.json(claims, 2000)
        parts = ('{"alg":"none"}', text)
        encoded = (
            base64.urlsafe_b64encode(part.encode("utf-8", "surrogatepass")).rstrip(b"=")
            for part in parts
        )
        return b"n,,\1auth=Bearer " + b".".join(encoded) + b".\1\1"

    def _token(self, token: bytes, version: int) -> bytes:
        if self._random.random() < 0.15:
            token = self._mutator.sequence((token,), _WORDS, 20_000)
        if version == 0:
            return self._damaged(frame(token))
        api_version = self._random.choice((0, 1, 2, 2))
        return self._damaged(frame_of(SaslAuthenticateRequest(auth_bytes=token), api_version))

    def _damaged(self, whole: bytes) -> bytes:
        """Return a frame, sometimes damaged."""
        chance = self._random.random()
        if chance > 0.15:
            return whole
        payload = whole[4:]
        if chance < 0.01:
            length = self._random.choice((-1, 0, 3, len(payload) + 5, 524_289, 2**31 - 1))
            return struct.pack(">i", length) + payload
        if chance < 0.02:
            return whole + self._random.choice(self._others)
        if chance < 0.03:
            return self._random.choice(self._others)
        if chance < 0.09:
            return frame(self._mutator.bits(payload))
        return frame(self._mutator.sequence((payload,), _WORDS, 524_000))


class _Conversation(asyncio.Protocol):
    """One connection; `done` is set at its end."""

    def __init__(self, counts: Counts) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self._counts = counts

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first frames."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(QUIET_SECONDS, self._give_up)
        self._transport = cast(asyncio.Transport, transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection as closed, unless this client closed it."""
        self._counts.closed += not self.done.done()
        self._finish()

    def _begin(self) -> None:
        raise NotImplementedError

    def _give_up(self) -> None:
        if not self.done.done():
            self._counts.given_up += 1
            self._end()

    def _end(self) -> None:
        self._transport.abort()
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)


class _Talk(_Conversation):
    """Sends the frames of a script."""

    def __init__(self, script: Script, counts: Counts, *, has_tls: bool) -> None:
        super().__init__(counts)
        self._script, self._has_tls = script, has_tls
        self._rest = b""
        self._has_said_all = False

    def _begin(self) -> None:
        self._say(None)

    def data_received(self, data: bytes) -> None:
        """Pass each complete response to the script, and send the script's next frame."""
        self._rest += data
        while len(self._rest) >= 4 and not self.done.done():
            end = 4 + int(struct.unpack_from(">i", self._rest)[0])
            if end > len(self._rest):
                break
            answer, self._rest = self._rest[4:end], self._rest[end:]
            self._say(answer)

    def _say(self, answer: bytes | None) -> None:
        if self._has_said_all:
            return
        try:
            said = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration:
            self._end()
            return
        self._counts.sent += 1
        self._transport.write(said)
        if not self._has_tls and 4 + int(struct.unpack_from(">i", said)[0]) > len(said):
            self._has_said_all = True
            # The frame is incomplete: close this direction, because nothing will follow.
            self._transport.write_eof()


class TlsDamage:
    """Damage the TLS records that the client sends in one step of the handshake."""

    def __init__(self, seed: int) -> None:
        self._mutator = Mutator((seed, "tls"))
        self._random = self._mutator.random

    def flight(self) -> int:
        """Return the index of the flight to damage; a handshake may have fewer flights."""
        return self._random.choice((0, 0, 0, 1, 1, 2, 3))

    def damage(self, flight: bytes) -> bytes:
        """Return a flight with changed, added, repeated, split or truncated records."""
        records = list(_records(flight))
        position = self._random.randrange(len(records))
        records[position : position + 1] = self._changed(records[position])
        if self._random.random() < 0.1:
            self._random.shuffle(records)
        return b"".join(records)

    def _changed(self, record: bytes) -> list[bytes]:
        pick = self._random
        content = record[5:]
        what = pick.randrange(10)
        if what == 0:
            return [self._stray(), record]
        if what == 1:
            return [record, self._stray()]
        if what == 2:
            return [record, record]
        if what == 3:
            size = pick.choice((1, 2, 5, 50))
            pieces = (content[start : start + size] for start in range(0, len(content), size))
            return [record[:3] + struct.pack(">H", len(one)) + one for one in pieces]
        if what == 4:
            return [record[: pick.randrange(1, len(record))]]
        if what == 5:
            length = pick.choice((0, 1, len(content) + 1, 16_384, 18_500, 65_535))
            return [record[:3] + struct.pack(">H", length) + content]
        if what == 6:
            return [self._mutator.bits(record[:5]) + content]
        if what == 7:
            changed = self._mutator.sequence((content,), _WORDS, 18_000)
            return [record[:3] + struct.pack(">H", len(changed)) + changed]
        return [record[:5] + self._mutator.bits(content)]

    def _stray(self) -> bytes:
        """Return a record that does not belong in the flight."""
        pick = self._random
        kind = pick.choice((20, 21, 22, 23, 24, 0, 255))
        content = pick.choice(
            (b"\1", b"\1\0", b"\2\x28", b"\1\x5a", b"\0\0\0\0", b"\x18\0\0\1\1",
             b"\x14\0\0\x0c" + bytes(12),
             b"\1\xff\xff\xff", b"", bytes(16_384), pick.randbytes(40))
        )  # fmt: skip
        return (
            bytes((kind, 3, pick.choice((0, 1, 3, 4)))) + struct.pack(">H", len(content)) + content
        )


def _records(flight: bytes) -> Generator[bytes, None, None]:
    position = 0
    while position < len(flight):
        end = position + 5 + int(struct.unpack_from(">H", flight, position + 3)[0])
        yield flight[position:end]
        position = end


class _TlsTalk(_Conversation):
    """A TLS handshake and one request, with damage in one of the client's flights."""

    def __init__(self, context: ssl.SSLContext, damage: TlsDamage, counts: Counts) -> None:
        super().__init__(counts)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._damage = damage
        self._left = damage.flight()
        self._is_established = False

    def data_received(self, data: bytes) -> None:
        """Continue with the bytes from the broker."""
        self._incoming.write(data)
        self._begin()

    def _begin(self) -> None:
        try:
            if not self._is_established:
                self._tls.do_handshake()
                self._is_established = True
                self._counts.sessions += 1
                self._tls.write(frame_of(ApiVersionsRequest(), 0))
            is_over = bool(self._tls.read(65_536))
        except ssl.SSLWantReadError:
            is_over = False
        except ssl.SSLError:  # the broker sent an alert or answered damaged records
            is_over = True
        self._flush()
        if is_over:
            self._end()

    def _flush(self) -> None:
        flight = self._outgoing.read()
        if not flight or self._left < 0:
            return  # the client must send nothing after the damaged flight
        self._counts.sent += 1
        if not self._left:
            flight = self._damage.damage(flight)
        self._transport.write(flight)
        if not self._left:
            # Close this direction, because the broker may wait for the rest of a record.
            self._transport.write_eof()
        self._left -= 1


New = Callable[[], _Talk | _TlsTalk]


async def _converse(
    address: tuple[str, int], new: New, counts: Counts, inputs: int, context: ssl.SSLContext | None
) -> None:
    loop = asyncio.get_running_loop()

    async def keep_on() -> None:
        while counts.sent < inputs:
            counts.conversations += 1
            _, talk = await loop.create_connection(
                new, *address, ssl=context, server_hostname="127.0.0.1" if context else None
            )
            await talk.done

    await asyncio.gather(*(keep_on() for _ in range(CONNECTIONS)))


async def fuzz_sasl(
    address: tuple[str, int],
    password: str,
    inputs: int,
    seed: int,
    context: ssl.SSLContext | None = None,
) -> Counts:
    """Send `inputs` frames in SASL conversations; with `context` they go over TLS."""
    counts = Counts()
    scripts = SaslScripts(seed, password, counts)

    def new() -> _Talk:
        return _Talk(scripts.script(), counts, has_tls=context is not None)

    await _converse(address, new, counts, inputs, context)
    return counts


async def fuzz_tls(
    address: tuple[str, int], contexts: list[ssl.SSLContext], inputs: int, seed: int
) -> Counts:
    """Send `inputs` flights of TLS records in handshakes with a listener."""
    counts = Counts()
    damage = TlsDamage(seed)
    pick = random.Random(seed)

    def new() -> _TlsTalk:
        return _TlsTalk(pick.choice(contexts), damage, counts)

    await _converse(address, new, counts, inputs, None)
    return counts
