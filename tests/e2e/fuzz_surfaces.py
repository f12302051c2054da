"""Surfaces for tests/e2e/fuzz_parsers.py: all of them, and those for data that clients send."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, cast

from coordinator_server.config.config import Config
from coordinator_server.security.credentials.scram_mechanisms import SHA_256
from coordinator_server.security.sasl.mechanism import SaslRefusalError, UnreadableTokenError
from coordinator_server.security.sasl.oauthbearer import BearerTokenError, OAuthBearer
from coordinator_server.security.sasl.plain import Plain
from coordinator_server.security.sasl.scram import (
    Scram,
    ScramCredential,
    TokenLogin,
    new_credential,
)
from coordinator_server.security.sasl.unsecured_jws import UnsecuredRules, new_unsecured, validate
from tests.e2e import fuzz_settings, fuzz_stores
from tests.e2e.mutations import Mutator, Surface

MOST_TOKEN = 524_288
"""The largest frame of an unauthenticated client (sasl.server.max.receive.size)."""

_JSON_WORDS = ("[", "{", '"', "\\", ",", ":", "]", "}", "9", "NaN", "1e999", '{"a":', "\\ud800")


# --- input from clients --------------------------------------------------------------------------

_SASL_REFUSALS = (SaslRefusalError, UnreadableTokenError)
_NAMES = (
    b"alice",
    b"b",
    b"\0",
    b",",
    b"=",
    b"=2C",
    b"=3D",
    b"n=",
    b"r=",
    b"a=",
    b"m=",
    b"p=",
    b"c=biws",
    b",x=1",
    b"tokenauth=true",
    b"\x01",
    b"auth=",
    b"Bearer ",
    b"auth=Bearer ",
    b" ",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"A",
    b"/+",
    b"==",
    b"a" * 200,
)


def plain() -> Surface:
    """Tokens of PLAIN."""
    seeds = (b"\0alice\0secret", b"alice\0alice\0secret", b"\0bob\0x")
    passwords = {"alice": "secret"}
    return Surface(
        "plain",
        lambda mutator: mutator.sequence(seeds, _NAMES, MOST_TOKEN),
        lambda token: Plain(passwords).evaluate(token),
        _SASL_REFUSALS,
        3,
    )


class _Credentials:
    """The credentials of one user, and of one delegation token."""

    def __init__(self) -> None:
        self._credential = new_credential(SHA_256, "secret", 4096)

    def credential(self, _: object, name: str) -> ScramCredential | None:
        """Return the credential of alice."""
        return self._credential if name.startswith("alice") else None

    def login(self, _: object, token_id: str) -> TokenLogin | None:
        """Return the delegation token with the id alice."""
        return TokenLogin("bob", self._credential, 1) if token_id == "alice" else None


def scram_first() -> Surface:
    """The client's first message of SCRAM."""
    seeds = (
        b"n,,n=alice,r=abc",
        b"n,a=alice,m=x,n=alice,r=abc,tokenauth=true,x=y",
        b"n,,n=alice,r=abc,a=b,c=d,e=f",
        b"n,a=al=2Cice,n=al=2Cice,r=a",
    )
    credentials = _Credentials()
    return Surface(
        "scram first",
        lambda mutator: mutator.sequence(seeds, _NAMES, MOST_TOKEN),
        lambda token: Scram(SHA_256, credentials, credentials).evaluate(token),
        _SASL_REFUSALS,
        3,
    )


def scram_final() -> Surface:
    """The client's final message of SCRAM; N in an input is replaced by the server's nonce."""
    proof = base64.b64encode(bytes(32))
    seeds = (b"c=biws,r=N,p=" + proof, b"c=biws,r=N,x=y,z=a,p=" + proof, b"c=,r=N,p=")
    words = (*_NAMES, b"N", b"p=AAAA", b",p=", b"AAAA", b"AA==", proof)
    credentials = _Credentials()

    def parse(template: bytes) -> None:
        scram = Scram(SHA_256, credentials, credentials)
        nonce = scram.evaluate(b"n,,n=alice,r=abc").partition(b",")[0].removeprefix(b"r=")
        scram.evaluate(template.replace(b"N", nonce, 1))

    def make(mutator: Mutator) -> bytes:
        return mutator.sequence(seeds, words, MOST_TOKEN)

    # The proof of every input is wrong, so every input must be refused.
    return Surface("scram final", make, parse, _SASL_REFUSALS, 3)


def _part(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


_TOKEN_WORDS = (
    ".",
    "..",
    "=",
    "-",
    "_",
    "e30",
    "bnVsbA",
    "W10",
    "A",
    "9" * 40,
    _part("[" * 500),
    _part('{"alg":"none"}'),
    _part('{"a":' * 300),
    "\u00e9",
    "/",
    "+",
    " ",
)


def _claims() -> dict[str, Any]:
    now = int(time.time())
    return {
        "sub": "alice",
        "iat": now - 5,
        "exp": now + 100_000,
        "nbf": now - 5,
        "scope": ["a", "b"],
        "aud": "kafka",
        "iss": "me",
        "jti": "1",
    }


def _unsigned_token(mutator: Mutator) -> str:
    """Return an unsigned token with a changed claim, header or character."""
    pick = mutator.random
    header = json.dumps({"alg": "none", "typ": "JWT"})
    claims = json.dumps(_claims())
    where = pick.random()
    most = MOST_TOKEN * 3 // 4
    if where < 0.6:
        claims = mutator.json(_claims(), most)
    elif where < 0.75:
        header = mutator.json({"alg": "none", "typ": "JWT"}, most)
    elif where < 0.8:
        claims = mutator.sequence((claims,), _JSON_WORDS, most)
    token = f"{_part(header)}.{_part(claims)}."
    return token if where < 0.8 else mutator.sequence((token,), _TOKEN_WORDS, MOST_TOKEN)


def unsecured() -> Surface:
    """Unsigned tokens."""
    rules = UnsecuredRules(required_scope=("a",))
    return Surface(
        "unsecured token",
        _unsigned_token,
        lambda token: validate(rules, token),
        (BearerTokenError, UnreadableTokenError),
        3,
    )


def oauthbearer() -> Surface:
    """OAUTHBEARER messages with unsigned tokens."""
    check = new_unsecured({}, "")
    token = f"{_part(json.dumps({'alg': 'none'}))}.{_part(json.dumps(_claims()))}.".encode()
    seeds = (
        b"n,,\x01auth=Bearer " + token + b"\x01\x01",
        b"n,a=alice,\x01auth=Bearer " + token + b"\x01traceId=1\x01host=b\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01",
        b"\x01",
    )

    def parse(message: bytes) -> None:
        server = OAuthBearer(check)
        if server.evaluate(message):
            server.evaluate(b"\x01")

    return Surface(
        "oauthbearer message",
        lambda mutator: mutator.sequence(seeds, _NAMES, MOST_TOKEN),
        parse,
        _SASL_REFUSALS,
        3,
    )


class _Keys:
    """A fixed key set for a token validator, in place of one that is fetched."""

    def __init__(self, keys: list[Any]) -> None:
        self._keys = keys

    def current(self) -> list[Any]:
        """Return all keys."""
        return self._keys

    def misses(self, key_id: str) -> None:
        """Do not fetch an unknown key."""


def _key_set() -> tuple[Any, dict[str, Any]]:
    """Return a private Ed25519 key, and a key set with it and with all other kinds of keys."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    private = ed25519.Ed25519PrivateKey.generate()
    okp = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True)
    rsa_key = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048).public_key(), as_dict=True)
    ec_key = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
    keys = [
        {**okp, "kid": "o", "alg": "EdDSA", "use": "sig"},
        {**rsa_key, "kid": "r", "use": "sig"},
        {**ec_key, "kid": "e", "alg": "ES256"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s"},
    ]
    return private, {"keys": keys}


def jwt_tokens() -> Surface:
    """Signed tokens, most of them with a valid signature of invalid claims."""
    from jwt import api_jws

    from coordinator_server.security.sasl.jwks import parse_keys
    from coordinator_server.security.sasl.jwt_validator import JwtValidator

    private, key_set = _key_set()
    keys = _Keys(parse_keys(json.dumps(key_set).encode()))
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": "http://localhost/",
        "sasl.oauthbearer.expected.audience": "kafka,other",
        "sasl.oauthbearer.expected.issuer": "me",
    }
    validator = JwtValidator(Config(overrides=settings), cast(Any, lambda *_: keys), "")

    def signed(claims: str, header: dict[str, Any]) -> str:
        payload = claims.encode("utf-8", "surrogatepass")
        return api_jws.encode(payload, private, "EdDSA", headers=header)

    def make(mutator: Mutator) -> str:
        where = mutator.random.random()
        if where < 0.6:
            return signed(mutator.json(_claims(), MOST_TOKEN // 2), {"kid": "o"})
        token = signed(json.dumps(_claims()), {"kid": "o"})
        if where < 0.8:
            header = {"kid": "o", "alg": "EdDSA", "typ": "JWT"}
            text = mutator.json(header, MOST_TOKEN // 2)
            return ".".join((_part(text), *token.split(".")[1:]))
        return mutator.sequence((token,), _TOKEN_WORDS, MOST_TOKEN)

    return Surface("signed token", make, validator.validate, (BearerTokenError,), 2)


def jwks() -> Surface:
    """Key sets."""
    from coordinator_server.security.sasl.jwks import MOST_BYTES, parse_keys

    _, key_set = _key_set()

    def make(mutator: Mutator) -> bytes:
        text = mutator.json(key_set, MOST_BYTES + 9)
        return text.encode("utf-8", "surrogatepass")

    return Surface("jwks", make, parse_keys, (ValueError,), 1)


SURFACES: dict[str, Callable[[], Surface]] = {
    one.__name__: one
    for one in (
        plain,
        scram_first,
        scram_final,
        unsecured,
        oauthbearer,
        jwt_tokens,
        jwks,
        fuzz_settings.jaas,
        fuzz_settings.client_jaas,
        fuzz_settings.scram_users,
        fuzz_settings.super_users,
        fuzz_settings.security_state,
        fuzz_settings.security_changes,
        fuzz_settings.acl_requests,
        fuzz_stores.mapping_rules,
        fuzz_stores.subjects,
        fuzz_stores.names,
        fuzz_stores.certificates,
        fuzz_stores.pem_keys,
        fuzz_stores.pem_certificates,
        fuzz_stores.client_pem,
        fuzz_stores.jks_stores,
        fuzz_stores.pkcs12_stores,
    )
}
"""Functions that create the surfaces, by their names."""
