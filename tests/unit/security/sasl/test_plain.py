"""PLAIN: names, passwords, and Kafka's error messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_server.security.sasl.mechanism import SaslAuthenticationError
from coordinator_server.security.sasl.plain import Plain

PASSWORDS = {"alice": "secret", "zoë": "pässword"}


@pytest.mark.parametrize(
    "token", [b"\0alice\0secret", b"alice\0alice\0secret", "\0zoë\0pässword".encode()]
)
def test_a_user_with_the_right_password(token: bytes) -> None:
    """The right password gets an empty response and authenticates the user."""
    plain = Plain(PASSWORDS)
    assert plain.evaluate(token) == b""
    assert plain.is_complete
    assert plain.user == token.decode().split("\0")[1]


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0al\xffice\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_who_is_refused(token: bytes, told: str) -> None:
    """Each invalid login gets the error message that Kafka sends."""
    plain = Plain(PASSWORDS)
    with pytest.raises(SaslAuthenticationError) as caught:
        plain.evaluate(token)
    assert caught.value.message == told
    assert not plain.is_complete


@given(st.binary(max_size=100))
def test_any_token_is_refused(token: bytes) -> None:
    """A login with a wrong password and random extra bytes gets PLAIN's single error."""
    with pytest.raises(SaslAuthenticationError):
        Plain(PASSWORDS).evaluate(b"\0alice\0wrong" + token)
