"""The client side of SASL: PLAIN, SCRAM (RFC 5802), OAUTHBEARER (RFC 7628).

Source: SaslClientAuthenticator. Needs SaslHandshake 1 and SaslAuthenticate, which Kafka 1.0
introduced.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator_server.client.errors import ClientError, SaslError
from coordinator_server.client.security import SaslSettings, invalid
from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME, ScramMechanism
from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.client.connection import ClientConnection

_DEFAULT_LIFETIME_S = 3_600
_MAX_ITERATIONS = 1 << 24

Tokens = Generator[bytes, bytes, None]
"""Yields the client's messages and is sent the server's messages."""


def authenticate(connection: ClientConnection, settings: SaslSettings) -> int:
    """Authenticate and return the session lifetime in ms, or 0 without one.

    Raises SaslError for errors that a retry cannot fix, ClientError for network errors.
    """
    handshake(connection, settings.mechanism)
    return exchange_tokens(connection, settings)


def exchange_tokens(connection: ClientConnection, settings: SaslSettings) -> int:
    """Do the exchange after the handshake; returns and raises like `authenticate`."""
    tokens = _tokens(settings)
    token: bytes | None = next(tokens)
    lifetime_ms = 0
    while token is not None:
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = connection.exchange(request)
        if answer.error_code:
            raise SaslError(answer.error_code, answer.error_message)
        lifetime_ms = answer.session_lifetime_ms
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            token = None
    return lifetime_ms


def handshake(connection: ClientConnection, mechanism: str) -> list[str]:
    """Select a mechanism and return all mechanisms that the broker offers.

    Raises SaslError, with the offered mechanisms, if the broker refuses.
    """
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer: Any = connection.exchange(request, min_version=1)
    offered: list[str] = answer.mechanisms
    listed = f"enabled mechanisms are [{', '.join(offered)}]"
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        text = f"Client SASL mechanism '{mechanism}' not enabled in the server, {listed}"
        raise SaslError(answer.error_code, text, offered)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        text = f"Unexpected handshake request with client mechanism {mechanism}, {listed}"
        raise SaslError(answer.error_code, text, offered)
    if answer.error_code:
        raise SaslError(answer.error_code, None, offered)
    return offered


def _tokens(settings: SaslSettings) -> Tokens:
    if settings.mechanism == "OAUTHBEARER":
        return oauthbearer(bearer_token(settings))
    assert settings.password is not None
    if settings.mechanism == "PLAIN":
        return plain(settings.username, settings.password.value)
    return scram(
        SCRAM_BY_NAME[settings.mechanism],
        settings.username,
        settings.password.value,
        is_delegation_token=settings.is_delegation_token,
    )


def plain(username: str, password: str) -> Tokens:
    """Exchange the messages of PLAIN (RFC 4616)."""
    yield f"\0{username}\0{password}".encode()


def scram(
    mechanism: ScramMechanism,
    username: str,
    password: str,
    *,
    is_delegation_token: bool = False,
    nonce: str | None = None,
) -> Tokens:
    """Exchange the messages of SCRAM. Raises SaslError unless the server proves its identity."""
    nonce = nonce or os.urandom(18).hex()
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}" + (",tokenauth=true" if is_delegation_token else "")
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(server_first)
    try:
        salt, iterations = a2b_base64(fields["s"]), int(fields["i"])
        whole_nonce = fields["r"]
    except (KeyError, ValueError):
        raise _broken("a first message that is none of SCRAM") from None
    if not whole_nonce.startswith(nonce) or whole_nonce == nonce:
        raise _broken("a nonce that is not the client's")
    if not 0 < iterations <= _MAX_ITERATIONS:
        raise _broken(f"{iterations} iterations")
    without_proof = f"c=biws,r={whole_nonce}"
    salted = mechanism.salted_password(password, salt, iterations)
    signed = f"{first},{server_first},{without_proof}".encode()
    client_key = mechanism.hmac(salted, b"Client Key")
    stored_key = mechanism.hash(client_key)
    signature = mechanism.hmac(stored_key, signed)
    proof = bytes(left ^ other for left, other in zip(client_key, signature, strict=True))
    text = b2a_base64(proof, newline=False).decode()
    server_final = _fields((yield f"{without_proof},p={text}".encode()).decode(errors="replace"))
    if "e" in server_final:
        raise SaslError(ErrorCode.SASL_AUTHENTICATION_FAILED, server_final["e"])
    server_key = mechanism.hmac(salted, b"Server Key")
    expected = b2a_base64(mechanism.hmac(server_key, signed), newline=False)
    if not hmac.compare_digest(expected, server_final.get("v", "").encode()):
        raise _broken("no proof that it knows the password")


def oauthbearer(token: str) -> Tokens:
    """Exchange the messages of OAUTHBEARER.

    The server sends its error for an invalid token before the authentication fails.
    """
    answer = yield f"n,,\1auth=Bearer {token}\1\1".encode()
    if answer:
        yield b"\1"
        raise SaslError(ErrorCode.SASL_AUTHENTICATION_FAILED, answer.decode(errors="replace"))


def bearer_token(settings: SaslSettings) -> str:
    """Return the token from the settings or from their file, or create an unsecured one.

    Raises ClientError.
    """
    if settings.token is not None:
        return settings.token.value
    if settings.token_file is not None:
        try:
            return Path(settings.token_file).read_text().strip()
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "no text"
            raise invalid(
                f"sasl.oauthbearer.token.endpoint.url: {settings.token_file}: {reason}"
            ) from None
    now_s = int(time.time())
    claims = {"iat": now_s, "exp": now_s + _DEFAULT_LIFETIME_S, **dict(settings.unsecured_claims)}
    return f"{_base64url({'alg': 'none'})}.{_base64url(claims)}."


def _base64url(value: object) -> str:
    text = b2a_base64(json.dumps(value).encode(), newline=False).decode()
    return text.rstrip("=").translate(str.maketrans("+/", "-_"))


def _fields(message: str) -> dict[str, str]:
    """Return the attributes of a SCRAM message, by letter."""
    return dict(re.findall("(?:^|,)([a-z])=([^,]*)", message))


def _broken(what: str) -> ClientError:
    return SaslError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"Authentication failed: the server sent {what}"
    )
