"""The client side of each SASL mechanism, and the server responses that it refuses."""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.client import ClientError, SaslError
from coordinator_server.client.sasl import (
    Tokens,
    authenticate,
    bearer_token,
    oauthbearer,
    plain,
    scram,
)
from coordinator_server.client.security import SaslSettings, Secret
from coordinator_server.security.credentials.scram_mechanisms import SHA_256, SHA_512
from protocol.apis.sasl_authenticate import SaslAuthenticateResponse
from protocol.apis.sasl_handshake import SaslHandshakeResponse
from protocol.errors import ErrorCode

# The nonces are those of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
WHOLE_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={WHOLE_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={WHOLE_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def converse(tokens: Tokens, answers: Sequence[str]) -> list[str]:
    """Return the client's messages for these server messages."""
    said = [next(tokens).decode()]
    for answer in answers:
        try:
            said.append(tokens.send(answer.encode()).decode())
        except StopIteration:
            break
    return said


def test_scram_is_that_of_the_rfc() -> None:
    """SCRAM-SHA-256 gives the messages of the example in RFC 7677."""
    tokens = scram(SHA_256, "user", "pencil", nonce=NONCE)
    said = converse(tokens, [SERVER_FIRST, SERVER_FINAL])
    assert said == [f"n,,n=user,r={NONCE}", CLIENT_FINAL]


def test_names_are_escaped_and_tokens_are_marked() -> None:
    """SCRAM escapes `=` and `,` in names, and marks delegation tokens with Kafka's extension."""
    tokens = scram(SHA_512, "a=b,c", "x", nonce="n", is_delegation_token=True)
    assert next(tokens) == b"n,,n=a=3Db=2Cc,r=n,tokenauth=true"
    assert converse(plain("a", "b"), [""]) == ["\0a\0b"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (["nonsense"], "a first message that is none of SCRAM"),
        ([SERVER_FIRST.replace("4096", "x")], "a first message that is none of SCRAM"),
        ([SERVER_FIRST.replace(NONCE, "other")], "a nonce that is not the client's"),
        ([f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"], "a nonce that is not the client's"),
        ([SERVER_FIRST.replace("4096", "999999999")], "999999999 iterations"),
        ([SERVER_FIRST, "v=AAAA"], "no proof that it knows the password"),
        ([SERVER_FIRST, ""], "no proof that it knows the password"),
        ([SERVER_FIRST, "e=invalid-proof"], "invalid-proof"),
    ],
)
def test_a_server_that_does_not_know_the_password(answers: list[str], reason: str) -> None:
    """The client refuses a server that does not know the password."""
    with pytest.raises(SaslError, match=reason) as raised:
        converse(scram(SHA_256, "user", "pencil", nonce=NONCE), answers)
    assert raised.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_tokens_of_oauth(tmp_path: Path) -> None:
    """The server's verdict on an OAuth token is returned, and each source of tokens is read.

    The sources are a setting, a file, and unsecured claims.
    """
    assert converse(oauthbearer("t"), [""]) == ["n,,\1auth=Bearer t\1\1"]
    with pytest.raises(SaslError, match="invalid_token"):
        converse(oauthbearer("t"), ['{"status":"invalid_token"}', ""])
    assert bearer_token(SaslSettings("OAUTHBEARER", token=Secret("t"))) == "t"
    (tmp_path / "token").write_text("t\n")
    assert bearer_token(SaslSettings("OAUTHBEARER", token_file=str(tmp_path / "token"))) == "t"
    with pytest.raises(ClientError, match="No such file"):
        bearer_token(SaslSettings("OAUTHBEARER", token_file=str(tmp_path / "none")))
    token = bearer_token(SaslSettings("OAUTHBEARER", unsecured_claims=(("sub", "a"),)))
    claims = token.split(".")[1]
    decoded = json.loads(a2b_base64(claims + "=" * (-len(claims) % 4)))
    assert decoded["sub"] == "a"
    assert decoded["exp"] - decoded["iat"] == 3_600


class Answers:
    """A connection that returns the given responses."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[Any] = []

    def exchange(self, request: Any, *, min_version: int = 0) -> Any:
        """Return the next response."""
        self.requests.append(request)
        return self._answers.pop(0)


def _authenticate(connection: Answers) -> int:
    settings = SaslSettings("PLAIN", "a", Secret("b"))
    return authenticate(connection, settings)  # type: ignore[arg-type]  # a fake connection


def test_the_conversation_with_a_broker() -> None:
    """The client negotiates the mechanism, sends its tokens and takes the session lifetime."""
    done = SaslAuthenticateResponse(error_message=None, auth_bytes=b"", session_lifetime_ms=5)
    connection = Answers(SaslHandshakeResponse(mechanisms=["PLAIN"]), done)
    assert _authenticate(connection) == 5
    assert [type(request).__name__ for request in connection.requests] == [
        "SaslHandshakeRequest",
        "SaslAuthenticateRequest",
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (33, "Client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are [X]"),
        (
            34,
            "Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are [X]",
        ),
        (41, "This is not the correct controller for this cluster."),
    ],
)
def test_a_mechanism_that_is_refused(code: int, words: str) -> None:
    """A refused mechanism raises an error with Kafka's text and the offered mechanisms."""
    with pytest.raises(SaslError) as raised:
        _authenticate(Answers(SaslHandshakeResponse(error_code=code, mechanisms=["X"])))
    assert str(raised.value) == words
    assert raised.value.mechanisms == ("X",)


def test_a_user_that_is_refused() -> None:
    """A refused user raises an error with the broker's text."""
    refused = SaslAuthenticateResponse(error_code=58, error_message="no", auth_bytes=b"")
    with pytest.raises(SaslError, match=r"^no$"):
        _authenticate(Answers(SaslHandshakeResponse(mechanisms=[]), refused))
