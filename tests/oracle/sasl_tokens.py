"""Conversations with OAUTHBEARER tokens, signed and unsigned."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.oracle.sasl_conversations import CLOSED, Conversation, Talk


def bearer(token: str, gs2: str = "n,,", more: str = "") -> bytes:
    """Return the client's first message of OAUTHBEARER."""
    return f"{gs2}\x01auth=Bearer {token}\x01{more}\x01".encode()


def jws(header: object, claims: object, signature: str = "") -> str:
    """Return a token made from these parts."""
    parts = (json.dumps(part) if not isinstance(part, str) else part for part in (header, claims))
    encoded = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return ".".join((*encoded, signature))


def _say(*tokens: bytes) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.handshake("OAUTHBEARER")
        for token in tokens:
            if talk.said[-1] != CLOSED:
                response = talk.token(token)
                if response is not None:
                    response = talk.said.pop()
                    fields = response[1]
                    # Compare session lifetimes in minutes, because the exact values depend on the
                    # clock.
                    fields["session_lifetime_ms"] //= 60_000
                    talk.said.append(response)
        if talk.said[-1] != CLOSED:
            talk.metadata()

    return hold


def unsecured_conversations() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    """Yield conversations with valid and invalid unsigned tokens."""
    now = int(time.time())
    none = {"alg": "none"}
    good = {"sub": "alice", "exp": now + 3600, "iat": now, "scope": ["a", "b"]}

    yield "token", _say(bearer(jws(none, good)))
    for name, claims in {
        "no sub": {"exp": now + 3600},
        "a number as sub": {**good, "sub": 5},
        "a blank sub": {**good, "sub": " "},
        "no exp": {"sub": "alice"},
        "a text as exp": {**good, "exp": "5"},
        "null as exp": {**good, "exp": None},
        "a fraction as exp": {**good, "exp": now + 3600.5},
        "expired": {**good, "iat": now - 7200, "exp": now - 3600},
        "issued in the future": {**good, "iat": now + 1000},
        "a text as iat": {**good, "iat": "now"},
        "expires before it is issued": {**good, "iat": now - 10, "exp": now - 20},
        "no scope": {"sub": "alice", "exp": now + 3600},
        "another scope": {**good, "scope": ["b"]},
        "a text as scope": {**good, "scope": "a"},
        "two scopes in a text": {**good, "scope": "a b"},
        "a number as scope": {**good, "scope": 5},
        "no object": "[]",
        "no json": "{",
        "a list": "[1,2]",
        "a text": '"a"',
    }.items():
        yield f"token with {name}", _say(bearer(jws(none, claims)), b"\x01")
    for name, text in {
        "an algorithm": jws({"alg": "HS256"}, good),
        "a signature": jws(none, good, "c2ln"),
        "no algorithm": jws({}, good),
        "no header": jws("", good),
        "two parts": jws(none, good).rstrip("."),
        "four parts": jws(none, good) + "x.y",
        "two points": "a..b",
        "points only": "...",
        "a point": ".",
        "a word": "abc",
        "no base64": "a~b.c~d.",
        "one letter": "a.b.",
    }.items():
        yield f"token with {name}", _say(bearer(text), b"\x01")
    yield from _messages(jws(none, good))


def _messages(token: str) -> Iterator[tuple[str, Callable[[Talk], object]]]:
    """Yield valid and invalid messages with a valid token."""
    for name, message in {
        "nothing": b"",
        "control a": b"\x01",
        "garbage": b"abc",
        "no auth": b"n,,\x01host=x\x01\x01",
        "another scheme": bearer(token).replace(b"Bearer", b"Basic"),
        "scheme in lower case": bearer(token).replace(b"Bearer", b"bearer"),
        "two blanks": bearer(token).replace(b"Bearer ", b"Bearer  "),
        "no scheme": bearer(token).replace(b"Bearer ", b""),
        "auth twice": bearer(token, more="auth=Bearer x\x01"),
        "an extension": bearer(token, more="traceId=123\x01"),
        "a bad extension": bearer(token, more="trace-id=123\x01"),
        "an authzid": bearer(token, "n,a=alice,"),
        "another authzid": bearer(token, "n,a=bob,"),
        "channel binding": bearer(token, "y,,"),
        "p": bearer(token, "p=tls-unique,,"),
        "no end": bearer(token)[:-1],
        "too much": bearer(token) + b"\x01",
    }.items():
        yield f"message with {name}", _say(message)
    yield "a good token after a bad one", _say(bearer("a.b.c"), bearer(token))
    yield "a bad token after a bad one", _say(bearer("a.b.c"), bearer("a.b.c"), b"\x01")
    yield "another word after a bad token", _say(bearer("a.b.c"), b"\x02")


class Signer:
    """A token issuer: an RSA key, an EC key, and the file with their public keys."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self._rsa = rsa.generate_private_key(65537, 2048)
        self._stranger = rsa.generate_private_key(65537, 2048)
        self._ec = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> str:
        from jwt.algorithms import ECAlgorithm, RSAAlgorithm

        rsa = RSAAlgorithm.to_jwk(self._rsa.public_key(), as_dict=True)
        ec = ECAlgorithm.to_jwk(self._ec.public_key(), as_dict=True)
        keys = [{**rsa, "kid": "r", "use": "sig"}, {**ec, "kid": "e", "alg": "ES256"}]
        return json.dumps({"keys": keys})

    def conversations(self) -> list[Conversation]:
        import jwt

        now = int(time.time())
        good: dict[str, Any] = {
            "sub": "alice", "exp": now + 3600, "iat": now, "aud": "kafka", "iss": "https://issuer",
        }  # fmt: skip

        def signed(
            claims: dict[str, Any], key: Any = None, algorithm: str = "RS256", **header: Any
        ) -> str:
            header = {"kid": "r", **header}
            if header["kid"] is None:
                del header["kid"]
            return jwt.encode(claims, key or self._rsa, algorithm, headers=header)

        public = self._public_pem()
        texts: dict[str, str] = {
            "rs256": signed(good),
            "ps512": signed(good, algorithm="PS512"),
            "es256": signed(good, self._ec, "ES256", kid="e"),
            "es256 by the other key": signed(good, self._ec, "ES256"),
            "another key": signed(good, self._stranger),
            "an unknown key": signed(good, kid="x"),
            "no key id": signed(good, kid=None),
            "a secret": jwt.encode(good, "s" * 64, "HS256", headers={"kid": "r"}),
            "no signature": jws({"alg": "none", "kid": "r"}, good),
            "alg none and a signature": jws({"alg": "none", "kid": "r"}, good, "c2ln"),
            "the public key as secret": _hmac_token({"alg": "HS256", "kid": "r"}, good, public),
            "a changed signature": signed(good)[:-8] + "AAAAAAAA",
            "changed claims": _changed(signed(good)),
            "crit": signed(good, crit=["exp"]),
            "two parts": ".".join(signed(good).split(".")[:2]),
            "a word": "abc",
            "points": "a.b.c",
        }
        altered: dict[str, dict[str, Any]] = {
            "another audience": {"aud": "other"},
            "more audiences": {"aud": ["other", "kafka"]},
            "no audience": {"aud": None},
            "another issuer": {"iss": "https://other"},
            "no issuer": {"iss": None},
            "no exp": {"exp": None},
            "no iat": {"iat": None},
            "no sub": {"sub": None},
            "a blank sub": {"sub": "  "},
            "a sub with blanks": {"sub": " alice "},
            "expired": {"exp": now - 100},
            "just expired": {"exp": now - 10},
            "just expired, and issued before": {"exp": now - 10, "iat": now - 20},
            "expired for long": {"exp": now - 100, "iat": now - 200},
            "an exp before nbf": {"exp": now + 10, "nbf": now + 20},
            "not yet": {"nbf": now + 100},
            "nearly": {"nbf": now + 10},
            "issued in the future": {"iat": now + 1000},
            "a scope": {"scope": "a b"},
            "scopes": {"scope": ["a", "b"]},
            "a scope twice": {"scope": ["a", "a"]},
            "an empty scope": {"scope": ["a", ""]},
            "a number as scope": {"scope": 5},
            "a fraction as exp": {"exp": now + 3600.5},
        }
        for name, changes in altered.items():
            claims = {**good, **changes}
            texts[name] = signed({key: one for key, one in claims.items() if one is not None})
        return [
            Conversation(f"signed with {name}", "SIGNED", _say_token(bearer(text)))
            for name, text in texts.items()
        ]

    def _public_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _hmac_token(header: object, claims: object, key: bytes) -> str:
    head = jws(header, claims)
    signature = hmac.digest(key, head.rstrip(".").encode(), "sha256")
    return head + base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _changed(token: str) -> str:
    header, claims, signature = token.split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return jws("", {**decoded, "sub": "bob"}).replace(".", f"{header}.", 1)[0:] + signature


def _say_token(*tokens: bytes) -> Callable[[Talk], None]:
    """Return a function that sends a token and %x01; lifetimes are recorded in minutes."""

    def hold(talk: Talk) -> None:
        talk.handshake("OAUTHBEARER")
        for token in (*tokens, b"\x01"):
            if talk.said[-1] == CLOSED:
                return
            response = talk.token(token)
            if response is not None:
                fields = talk.said[-1][1]
                fields["session_lifetime_ms"] //= 60_000
                if not fields["auth_bytes"]:
                    break
        if talk.said[-1] != CLOSED:
            talk.metadata()

    return hold
