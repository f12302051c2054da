"""OAUTHBEARER: messages, signed and unsigned tokens, keys from a file and a URL."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import threading
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.request import FTPHandler, HTTPHandler, HTTPSHandler, Request
from urllib.response import addinfourl

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.config.config import Config, ConfigError, Listener
from coordinator_server.security.sasl import jwks as jwks_module
from coordinator_server.security.sasl import oauthbearer
from coordinator_server.security.sasl.jwks import Jwks, parse_keys
from coordinator_server.security.sasl.jwt_validator import JwtValidator
from coordinator_server.security.sasl.mechanism import (
    SaslAuthenticationError,
    SaslRefusalError,
    UnreadableTokenError,
)
from coordinator_server.security.sasl.oauthbearer import (
    Bearer,
    BearerTokenError,
    OAuthBearer,
    new_oauthbearer,
)
from coordinator_server.security.sasl.unsecured_jws import UnsecuredRules, new_unsecured, validate
from coordinator_server.security.security import Security
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState
from tests.harness.clock import ManualClock

KEY = rsa.generate_private_key(65537, 2048)
# In the past; for tests with the real clock, `_timely` shifts the claims.
NOW = int(time.time()) - 900
ENDLESS = b'{"sub": "a", "exp": 1e999}'
GOOD: dict[str, Any] = {"sub": "alice", "iat": NOW, "exp": NOW + 600, "aud": "kafka"}


def _message(token: str, gs2: str = "n,,") -> bytes:
    return f"{gs2}\x01auth=Bearer {token}\x01\x01".encode()


def _base64(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _unsigned(claims: object, header: object = None, signature: str = "") -> str:
    parts = (json.dumps(part).encode() for part in (header or {"alg": "none"}, claims))
    return ".".join((*map(_base64, parts), signature))


def _keys() -> dict[str, Any]:
    public = RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": "one", "use": "sig"}]}


def _timely(claims: dict[str, Any]) -> dict[str, Any]:
    """Return the claims with their times shifted from NOW to the present."""
    passed_s = int(time.time()) - NOW
    return {
        name: one + passed_s if isinstance(one, int) and abs(one - NOW) < 1000 else one
        for name, one in claims.items()
    }


def _signed(changes: dict[str, Any] | None = None, **header: Any) -> str:
    claims = {key: one for key, one in {**GOOD, **(changes or {})}.items() if one is not None}
    claims = _timely(claims)
    return jwt.encode(claims, KEY, "RS256", headers={"kid": "one", **header})


def _bearer(token: str) -> Bearer:
    if token == "good":
        return Bearer("alice", 5000)
    raise BearerTokenError("it is bad", "insufficient_scope", "[a]")


def test_a_good_token() -> None:
    """The user and expiry time are those of the token."""
    server = OAuthBearer(_bearer)
    assert server.evaluate(_message("good", "n,a=alice,")) == b""
    assert (server.is_complete, server.user, server.expires_at_ms) == (True, "alice", 5000)


def test_a_bad_token_is_refused_in_two_steps() -> None:
    """A refused token gets the reason as a challenge, and again as the error after %x01."""
    server = OAuthBearer(_bearer)
    told = '{"status":"insufficient_scope", "scope":"[a]"}'
    assert server.evaluate(_message("bad")) == told.encode()
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(b"\x01")
    assert (caught.value.message, caught.value.reason) == (told, "it is bad")


@pytest.mark.parametrize(
    "message", [b"", b"\x01", b"n,,\x01\x01", _message("good")[:-1], _message("a b")]
)
def test_messages_that_are_refused(message: bytes) -> None:
    """A malformed message is refused without a reason."""
    with pytest.raises(SaslRefusalError):
        OAuthBearer(_bearer).evaluate(message)


def test_another_authorization_id() -> None:
    """Another authorization id is refused with a reason."""
    with pytest.raises(SaslAuthenticationError, match="another authorization id"):
        OAuthBearer(_bearer).evaluate(_message("good", "n,a=bob,"))


def test_a_name_that_is_no_text() -> None:
    """A name with half of a surrogate pair, which JSON allows, is refused."""
    server = OAuthBearer(lambda _: Bearer("\ud800", 5000))
    assert server.evaluate(_message("good", "n,a=bob,")) == b'{"status":"invalid_token"}'


def test_unsigned_tokens() -> None:
    """Name, times and scope are those of the unsigned token."""
    rules = UnsecuredRules(required_scope=("a",))
    token = _unsigned({**GOOD, "scope": ["a", "b"]})
    assert validate(rules, token, NOW * 1000) == Bearer("alice", GOOD["exp"] * 1000)
    with pytest.raises(BearerTokenError) as caught:
        validate(rules, _unsigned({**GOOD, "scope": "b"}), NOW * 1000)
    assert (caught.value.status, caught.value.scope) == ("insufficient_scope", "[a]")


@pytest.mark.parametrize(
    "token",
    [
        "a..b",
        "a.b",
        "[.b.",
        _unsigned(GOOD, {"alg": "RS256"}),
        _unsigned(GOOD, None, "sig"),
        _unsigned({"sub": "alice"}),
        _unsigned({**GOOD, "sub": " "}),
        _unsigned({**GOOD, "exp": "5"}),
        _unsigned({**GOOD, "exp": 10**400}),
        _unsigned({**GOOD, "exp": 1e306}),
        _unsigned({"sub": "a"}).replace(_base64(b'{"sub": "a"}'), _base64(ENDLESS)),
        _unsigned({**GOOD, "exp": NOW - 1, "iat": NOW - 2}),
        _unsigned({**GOOD, "iat": NOW + 100}),
        _unsigned({**GOOD, "iat": GOOD["exp"]}),
        _unsigned({**GOOD, "scope": 5}),
        f"{_base64(b'[' * 100_000)}.e30.",
    ],
    # Tokens contain the time, so their lengths are the test ids, which must be equal in all
    # processes.
    ids=len,
)
def test_unsigned_tokens_that_are_refused(token: str) -> None:
    """Each invalid unsigned token raises BearerTokenError."""
    with pytest.raises(BearerTokenError):
        validate(UnsecuredRules(), token, NOW * 1000)


def test_an_unsigned_token_without_algorithm() -> None:
    """An unsigned token without an algorithm closes the connection, as in Kafka."""
    with pytest.raises(UnreadableTokenError):
        validate(UnsecuredRules(), _unsigned(GOOD, {"typ": "JWT"}))


def test_options_of_unsigned_tokens() -> None:
    """Unsigned tokens have the options of Kafka's login module."""
    options = {
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorAllowableClockSkewMs": "9000",
    }
    token = _unsigned(_timely({"name": "bob", "exp": NOW - 1}))
    assert new_unsecured(options, "")(token).user == "bob"
    for name, value in (("AllowableClockSkewMs", "-1"), ("RequiredScope", 'a"b')):
        with pytest.raises(ConfigError, match=name):
            new_unsecured({f"unsecuredValidator{name}": value}, "")


@given(st.text("ab.e0=-_~/+", max_size=50))
def test_any_token_is_refused(token: str) -> None:
    """A random token is refused with one of the mechanism's errors."""
    with pytest.raises((BearerTokenError, UnreadableTokenError)):
        validate(UnsecuredRules(), token)


class _Keys:
    def __init__(self) -> None:
        self.missed: list[str] = []

    def current(self) -> list[Any]:
        return parse_keys(json.dumps(_keys()).encode())

    def misses(self, key_id: str) -> None:
        self.missed.append(key_id)


def _validator(keys: Any = None, **changes: str) -> JwtValidator:
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": "http://localhost/",
        "sasl.oauthbearer.expected.audience": "kafka,other",
        "sasl.oauthbearer.expected.issuer": "me",
    } | {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in changes.items()}
    return JwtValidator(Config(overrides=settings), cast(Any, lambda *_: keys or _Keys()), "")


def test_signed_tokens() -> None:
    """A token with valid signature, times, audience and issuer is accepted."""
    good = {"iss": "me", "aud": ["x", "other"], "sub": " alice "}
    token = _signed(good)
    expires_s = jwt.decode(token, options={"verify_signature": False})["exp"]
    assert _validator().validate(token) == Bearer("alice", expires_s * 1000)
    assert (
        _validator().validate(_signed({**good, "iat": NOW - 20, "exp": NOW - 10})).user == "alice"
    )


@pytest.mark.parametrize("claim", ["audience", "issuer"])
def test_what_is_not_expected_has_to_be_allowed(claim: str) -> None:
    """Without an expected audience or issuer the broker starts only if any is allowed."""
    with pytest.raises(ConfigError, match=f"allow.unverified.{claim}=true"):
        _validator(**{f"expected_{claim}": ""})
    validator = _validator(**{f"expected_{claim}": "", f"allow_unverified_{claim}": "true"})
    name = claim[:3]
    expected = {"aud": "kafka", "iss": "me"}
    assert validator.validate(_signed({**expected, name: "x"})).user == "alice"
    assert validator.validate(_signed({**expected, name: None})).user == "alice"
    with pytest.raises(BearerTokenError):
        validator.validate(_signed({**dict.fromkeys(expected, "x"), name: None}))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": None}, {"iss": "x"}, {"aud": None}, {"aud": "x"}, {"exp": None}, {"iat": None},
        {"exp": NOW - 31, "iat": NOW - 60},
        {"exp": NOW - 1}, {"nbf": NOW + 60}, {"sub": None}, {"sub": ""}, {"sub": 5},
        {"scope": ["a", "a"]}, {"scope": [""]}, {"exp": "9999999999"}, {"iat": -1},
        {"iat": math.inf}, {"iat": math.nan}, {"nbf": math.inf}, {"exp": 1e300}, {"exp": 10**400},
    ],
)  # fmt: skip
def test_signed_tokens_that_are_refused(changes: dict[str, Any]) -> None:
    """A missing or wrong claim is refused; the reason never quotes the token."""
    with pytest.raises(BearerTokenError) as caught:
        _validator().validate(_signed({"iss": "me", **changes}))
    assert "alice" not in str(caught.value)


def test_signatures_that_are_refused() -> None:
    """A wrong key, an unsuitable algorithm and a missing signature are refused."""
    keys = _Keys()
    for token in (
        _signed({"iss": "me"}, kid="two"),
        _signed({"iss": "me"})[:-6] + "AAAAAA",
        _signed({"iss": "me"}, crit=["x"]),
        jwt.encode({**GOOD, "iss": "me"}, "s" * 64, "HS256", headers={"kid": "one"}),
        _unsigned({**GOOD, "iss": "me"}, {"alg": "none", "kid": "one"}),
        "a.b.c",
        "",
    ):
        with pytest.raises(BearerTokenError):
            _validator(keys).validate(token)
    assert keys.missed == ["two", "one", "one"]


@given(st.text(max_size=80))
def test_any_signed_token_is_refused(token: str) -> None:
    """A random signed token is refused with the mechanism's single error."""
    with pytest.raises(BearerTokenError):
        _validator().validate(token)


def test_keys_of_a_file(tmp_path: Path) -> None:
    """A key file is read again when it changes; without the file the start fails."""
    path = tmp_path / "keys"
    with pytest.raises(ConfigError, match=r"url: file:"):
        Jwks(path.as_uri(), 1000, 1, 1, "url")
    path.write_text(json.dumps(_keys()))
    keys = Jwks(path.as_uri(), 1000, 1, 1, "url")
    assert [one.key_id for one in keys.current()] == ["one"]
    path.write_text("{")
    assert len(keys.current()) == 1
    path.write_text(json.dumps({"keys": _keys()["keys"] * 2}))
    assert len(keys.current()) == 2
    keys.misses("x")


@pytest.mark.parametrize("url", ["ftp://host/x", "http:///x", "x"])
def test_urls_that_are_refused(url: str) -> None:
    """Only file and HTTP URLs are accepted."""
    with pytest.raises(ConfigError, match="is no file"):
        Jwks(url, 1000, 1, 1, "url")


class ToldJwks(Jwks):
    """Keys that signal the end of a fetch."""

    _count = 0
    _waiting: tuple[int, asyncio.Future[None]] | None = None

    async def fetched(self, count: int) -> None:
        """Wait until this number of fetches has ended."""
        if self._count < count:
            self._waiting = count, asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self._waiting[1], 30)

    def _fetched(self, keys: list[Any] | None, problem: str) -> None:
        super()._fetched(keys, problem)
        self._count += 1
        if self._waiting is not None and self._count == self._waiting[0]:
            self._waiting[1].set_result(None)


async def test_a_stopped_security_fetches_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop no fetch begins: not by a timer, an unknown key, or the end of a late fetch."""
    monkeypatch.setattr(jwks_module, "Jwks", ToldJwks)
    monkeypatch.setattr(jwks_module, "fetch", lambda _: json.dumps(_keys()).encode())
    state = SecurityState(MemoryDisk(), "data")
    security = Security(Config(), state, SystemClock(), SystemClock())
    for url in ("http://a/", "http://b/"):
        keys = cast(ToldJwks, security.jwks(url, 3_600_000, 1, 1, "url"))
        await keys.fetched(1)
    security.stop()
    for keys in cast(dict[object, ToldJwks], security._jwks).values():
        keys.misses("unknown")
        assert not keys._is_fetching
        keys._fetched(None, "late")
        assert keys._timer is not None
        assert keys._timer.cancelled()


async def test_keys_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of a URL are fetched by a thread, and again after failures and for missing keys."""
    answers = [b"{", json.dumps(_keys()).encode(), b" " * 100, json.dumps(_keys()).encode()]
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(jwks_module, "MOST_BYTES", 10_000)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        keys = ToldJwks(f"http://127.0.0.1:{server.server_port}/jwks", 3_600_000, 1, 1, "url")
        assert keys.current() == []
        await keys.fetched(2)
        assert len(keys.current()) == 1
        keys.misses("two")
        keys.misses("two")
        await keys.fetched(4)
        assert len(asked) == 4
        assert len(keys.current()) == 1
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "bad",
    [
        {"kty": "oct"}, {"kty": "RSA"}, {"kty": []}, {"kty": "EC", "crv": "P-256", "x": 5, "y": 5},
        {"kty": "OKP", "crv": "Ed25519", "x": []}, {"kty": "RSA", "n": "", "e": "AQAB"}, {}, 5,
        {"kty": "RSA", "alg": []}, {"kty": "OKP", "alg": "none"},
    ],
)  # fmt: skip
def test_a_key_that_is_none(bad: object) -> None:
    """An invalid key is skipped; a set of only invalid keys is refused."""
    assert len(parse_keys(json.dumps({"keys": [bad, *_keys()["keys"]]}).encode())) == 1
    with pytest.raises(ValueError, match="without a key"):
        parse_keys(json.dumps({"keys": [bad]}).encode())


def test_after_a_bug_keys_are_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bug in the thread the event loop is notified, and keys are fetched again."""

    class Quiet(Jwks):
        def _begin_fetch(self) -> None:
            pass

    class Loop:
        told: list[tuple[object, ...]] = []

        def call_soon_threadsafe(self, *call: object) -> None:
            self.told.append(call)

    keys = Quiet("http://localhost/", 1000, 1, 1, "url")
    monkeypatch.setattr(jwks_module, "fetch", {}.__getitem__)
    with pytest.raises(KeyError):
        keys._fetch(cast(Any, Loop()))
    assert Loop.told == [(keys._fetched, None, "a bug")]


@pytest.mark.parametrize("target", ["http://other/keys", "ftp://other/keys"])
def test_a_redirect_that_leaves_https(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """A redirect away from HTTPS is not followed."""
    asked: list[str] = []

    def answer(_: object, request: Request) -> addinfourl:
        asked.append(request.full_url)
        headers = Message()
        headers["Location"] = target if len(asked) > 1 else "https://next/keys"
        found = addinfourl(io.BytesIO(), headers, request.full_url, 302)
        cast(Any, found).msg = "Found"
        return found

    for handler in (HTTPSHandler, HTTPHandler, FTPHandler):
        monkeypatch.setattr(handler, f"{handler.__name__[:-7].lower()}_open", answer)
    with pytest.raises(OSError, match="leaves https"):
        jwks_module.fetch("https://issuer/keys")
    assert asked == ["https://issuer/keys", "https://next/keys"]


def test_too_much_is_no_key_set() -> None:
    """Key sets are limited in size and depth."""
    for contents in (b" " * (jwks_module.MOST_BYTES + 1), b"[" * 100_000, b"[]", b'{"keys":[5]}'):
        with pytest.raises(ValueError):
            parse_keys(contents)


@pytest.mark.parametrize(
    ("host", "is_in_container", "is_taken"),
    [
        ("127.0.0.1", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("", False, False),
        ("0.0.0.0", False, False),
        ("192.0.2.1", False, False),
        ("", True, True),
        ("192.0.2.1", True, True),
    ],
)
def test_unsigned_tokens_without_being_asked_for(
    host: str, is_in_container: bool, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keys unsigned tokens are accepted only on loopback and in containers."""
    monkeypatch.setattr(oauthbearer, "in_container", lambda: is_in_container)
    state = SecurityState(MemoryDisk(), "/d")
    security = Security(Config(), state, ManualClock(), ManualClock())
    listener = Listener("OUT", host, 9092)
    if is_taken:
        mechanism = new_oauthbearer(Config(), None, security, listener)()
        claims = {"sub": "alice", "iat": int(time.time()), "exp": int(time.time()) + 60}
        assert mechanism.evaluate(_message(_unsigned(claims))) == b""
        assert mechanism.user == "alice"
        assert list(security.unsecured_listeners) == ["OUT"]
        return
    with pytest.raises(ConfigError) as caught:
        new_oauthbearer(Config(), None, security, listener)
    said = str(caught.value)
    assert said.startswith("listener.name.out.oauthbearer.sasl.oauthbearer.jwks.endpoint.url: ")
    assert f"{listener} is neither a loopback address nor in a container" in said
    # An explicit setting allows unsecured tokens on any address, without a warning.
    asking = Config(overrides={"sasl.server.callback.handler.class": oauthbearer.UNSECURED})
    new_oauthbearer(asking, None, security, listener)
    assert not security.unsecured_listeners
