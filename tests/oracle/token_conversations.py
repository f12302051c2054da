"""Conversations of clients that authenticate with a delegation token; see sasl_conversations."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from protocol.apis.create_delegation_token import CreateDelegationTokenRequest
from protocol.apis.describe_delegation_token import DescribeDelegationTokenRequest
from tests.oracle.sasl_conversations import CLOSED, REAUTH_MS, Conversation, Talk
from tests.support import wait_for

TOKEN = ",tokenauth=true"
SHORT_MS = 2_000
LONG_MS = 3_600_000


class Login(NamedTuple):
    """Name and password for a token."""

    name: str
    password: str


def _token(talk: Talk, owner: str = "alice", lifetime_ms: int = LONG_MS) -> Login:
    """Create a token, and wait until the broker knows it."""
    maker = Talk(talk.bootstrap)
    try:
        maker.handshake("PLAIN")
        maker.plain()
        made = maker.ask(
            CreateDelegationTokenRequest(
                owner_principal_type="User",
                owner_principal_name=owner,
                max_lifetime_ms=lifetime_ms,
            ),
            3,
        )
        assert not made.error_code

        def is_known() -> bool:
            tokens = maker.ask(DescribeDelegationTokenRequest(owners=None), 3).tokens
            return made.token_id in [one.token_id for one in tokens]

        wait_for(is_known, "the broker knows the token")
    finally:
        maker.close()
    return Login(made.token_id, base64.b64encode(made.hmac).decode())


def _log_in(
    talk: Talk, login: Login, mechanism: str = "SCRAM-SHA-256", version: int = 1, **changes: Any
) -> None:
    """Log in with SCRAM; `changes` are mistakes."""
    if talk.handshake(mechanism, version) is None:
        return
    changes = {"extensions": TOKEN, **changes}
    if mechanism == "SCRAM-SHA-512":
        changes["hash_name"] = "sha512"
    say = talk.in_headers if version else talk.raw
    talk.scram(say, login.name, login.password, **changes)


def _ask(talk: Talk) -> None:
    """Request metadata and tokens, and record whether the client may make these requests."""
    if talk.said[-1] != CLOSED:
        talk.metadata()
    if talk.said[-1] != CLOSED:
        talk.ask(DescribeDelegationTokenRequest(owners=[]), 3)


def _users() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    def one(
        owner: str = "alice", change: Callable[[Login], dict[str, Any]] | None = None, **fields: Any
    ) -> Callable[[Talk], None]:
        def hold(talk: Talk) -> None:
            token = _token(talk, owner)
            changes = {} if change is None else change(token)
            _log_in(talk, token._replace(**changes.pop("login", {})), **fields, **changes)
            _ask(talk)

        return hold

    for version in (0, 1):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            form = f"{mechanism} {version}"
            fields: dict[str, Any] = {"mechanism": mechanism, "version": version}
            yield f"{form}", one(**fields)
            yield f"{form} of another", one("somebody", **fields)
            yield (
                f"{form} with a wrong HMAC",
                one(change=lambda token: {"login": {"password": token.password[::-1]}}, **fields),
            )
            yield f"{form} unknown", one(change=lambda token: {"login": {"name": "x"}}, **fields)
            yield f"{form} unannounced", one(extensions="", **fields)
            yield f"{form} after its end", _late(**fields)
    for name, extensions in {
        "upper case": ",tokenauth=TRUE",
        "no": ",tokenauth=no",
        "twice": ",tokenauth=false,tokenauth=true",
        "twice, no": ",tokenauth=true,tokenauth=false",
        "spaces": ",tokenauth= true",
        "another name": ",TokenAuth=true",
    }.items():
        yield f"extension: {name}", one(change=_counting(extensions), extensions=extensions)
    yield (
        "as its id",
        one(change=lambda token: {"gs2": f"n,a={token.name},", "channel": _channel(token.name)}),
    )
    yield "as its owner", one(gs2="n,a=alice,", channel=_channel("alice"))
    yield "as its owner, whose name is its id", one(gs2="n,a=,", channel="biws")
    yield "another nonce", one(nonce="cnonceX")
    yield "a short proof", one(proof_bytes=30)


def _counting(extensions: str) -> Callable[[Login], dict[str, Any]]:
    """Return changes that sign the last value of a repeated extension: only that value counts."""
    pairs = dict(pair.split("=", 1) for pair in extensions.split(",") if pair)
    signed = "".join(f",{name}={value}" for name, value in pairs.items())
    return lambda token: {"signed_extensions": signed}


def _channel(name: str) -> str:
    return base64.b64encode(f"n,a={name},".encode()).decode()


def _late(**fields: Any) -> Callable[[Talk], None]:
    """Return a conversation with an expired token that has not been removed."""

    def hold(talk: Talk) -> None:
        token = _token(talk, lifetime_ms=SHORT_MS)
        time.sleep(SHORT_MS / 1000)
        _log_in(talk, token, **fields)
        _ask(talk)

    return hold


def _again() -> Iterator[tuple[str, Callable[[Talk], object]]]:
    """Yield conversations with several logins (KIP-368) on a listener with short sessions."""

    def two(
        first: Callable[[Talk], object], second: Callable[[Talk], object], pause_s: float = 0.2
    ) -> Callable[[Talk], None]:
        def hold(talk: Talk) -> None:
            first(talk)
            _ask(talk)
            time.sleep(pause_s)
            second(talk)
            _ask(talk)

        return hold

    def with_token(owner: str) -> Callable[[Talk], object]:
        return lambda talk: _log_in(talk, _token(talk, owner))

    def with_password(talk: Talk) -> None:
        _log_in(talk, Login("carol", "pencil"), extensions="")

    def with_plain(talk: Talk) -> None:
        if talk.handshake("PLAIN") is not None:
            talk.plain()

    def short(talk: Talk) -> None:
        _log_in(talk, _token(talk, lifetime_ms=SHORT_MS))

    yield "again with another token", two(with_token("alice"), with_token("alice"))
    yield "again with a token of another", two(with_token("alice"), with_token("bob"))
    yield "a password, then a token", two(with_password, with_token("carol"))
    yield "a token, then a password", two(with_token("carol"), with_password)
    yield "a token, then another mechanism", two(with_token("alice"), with_plain)
    yield "its end", two(short, Talk.metadata, SHORT_MS / 1000)
    yield "again after its end", two(short, with_token("alice"), SHORT_MS / 1000)
    yield "the end of the session", two(with_token("alice"), Talk.metadata, 2.8)

    def same(talk: Talk) -> None:
        token = _token(talk)
        for _ in range(3):
            _log_in(talk, token)
            _ask(talk)
            time.sleep(1.1)

    yield "again with the same", same


def token_conversations(listener: str) -> list[Conversation]:
    """Return the conversations on a listener, USERS or AGAIN."""
    make = {"USERS": _users, "AGAIN": _again}[listener]
    return [Conversation(f"token: {name}", listener, partial(_hold, hold)) for name, hold in make()]


def _hold(hold: Callable[[Talk], object], talk: Talk) -> None:
    """Run a conversation; record session lifetimes, which vary by some ms, as short or long."""
    hold(talk)
    for said in talk.said:
        if said[0] == "SaslAuthenticate" and said[1].get("session_lifetime_ms"):
            lifetime_ms = said[1]["session_lifetime_ms"]
            if lifetime_ms != REAUTH_MS:
                said[1]["session_lifetime_ms"] = "short" if lifetime_ms < REAUTH_MS else "long"
