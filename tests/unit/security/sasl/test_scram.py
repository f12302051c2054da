"""SCRAM: the example of RFC 7677, and refused clients."""

from __future__ import annotations

import base64
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_server.security.credentials.scram_mechanisms import (
    SHA_256,
    SHA_512,
    ScramMechanism,
)
from coordinator_server.security.sasl import scram
from coordinator_server.security.sasl.mechanism import (
    SaslAuthenticationError,
    SaslRefusalError,
    UnreadableTokenError,
)
from coordinator_server.security.sasl.scram import (
    Scram,
    ScramCredential,
    TokenLogin,
    credential_of,
    new_credential,
    read_final,
    read_first,
)
from tests.oracle.sasl_conversations import scram_final

CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
EXPIRES_AT_MS = 1_700_000_000_000


class Credentials:
    """The credentials of "user"; the password is "pencil"."""

    def __init__(self, mechanism: ScramMechanism = SHA_256) -> None:
        self._known = _credential(mechanism)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._known if user in ("user", "a,b=c") else None


class Tokens:
    """The only delegation token, of alice; its password is "pencil" as well."""

    def login(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return the login of a token."""
        if token_id != "token-id":
            return None
        return TokenLogin("alice", _credential(mechanism), EXPIRES_AT_MS)


def _credential(mechanism: ScramMechanism) -> ScramCredential:
    import hashlib

    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, b"pencil", SALT, 4096)
    return credential_of(mechanism, SALT, salted, 4096)


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message equals the message in the example of RFC 7677."""
    monkeypatch.setattr(scram, "random_text", lambda: SERVER_NONCE)
    server = Scram(SHA_256, Credentials(), Tokens())
    first = server.evaluate(f"n,,n=user,r={CLIENT_NONCE}".encode())
    nonce = CLIENT_NONCE + SERVER_NONCE
    assert first.decode() == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = server.evaluate(f"c=biws,r={nonce},p={proof}".encode())
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.is_complete
    assert (server.user, server.expires_at_ms) == ("user", None)


def test_signs_in_a_name() -> None:
    """A comma and an equals sign in a name are written =2C and =3D."""
    server = Scram(SHA_256, Credentials(), Tokens())
    first = server.evaluate(b"n,,n=a=2Cb=3Dc,r=x").decode()
    server.evaluate(scram_final("n=a=2Cb=3Dc,r=x", first, "pencil").encode())
    assert server.user == "a,b=c"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("value", ["true", "TRUE", "false,tokenauth=true"])
def test_a_delegation_token(mechanism: ScramMechanism, value: str) -> None:
    """A token's id is the user name; the client gets the identity of the token's owner.

    The session ends with the token's lifetime.
    """
    server = Scram(mechanism, Credentials(), Tokens())
    first = server.evaluate(f"n,a=token-id,n=token-id,r=x,tokenauth={value}".encode()).decode()
    # If tokenauth occurs twice, the last value counts.
    counts = f"n=token-id,r=x,tokenauth={value.split('=')[-1]}"
    channel = base64.b64encode(b"n,a=token-id,").decode()
    final = scram_final(counts, first, "pencil", channel=channel, hash_name=mechanism.hash_name)
    server.evaluate(final.encode())
    assert server.is_complete
    assert (server.user, server.has_token) == ("alice", True)
    assert server.expires_at_ms == EXPIRES_AT_MS


@pytest.mark.parametrize("first", [b"n,,n=token-id,r=x", b"n,,n=token-id,r=x,tokenauth=no"])
def test_a_token_has_to_be_announced(first: bytes) -> None:
    """A login with a delegation token needs `tokenauth`; the token id alone is not a user name."""
    server = Scram(SHA_256, Credentials(), Tokens())
    with pytest.raises(SaslRefusalError, match="Invalid user credentials"):
        server.evaluate(first)
    assert not server.has_token


def test_a_user_has_no_token() -> None:
    """A SCRAM client may state explicitly that it uses no delegation token."""
    server = Scram(SHA_256, Credentials(), Tokens())
    server.evaluate(b"n,,n=user,r=x,tokenauth=false")
    assert (server.user, server.has_token) == ("user", False)


def test_the_authorization_id_of_a_token_is_its_id() -> None:
    """The authorization id of a token is its id, not the owner, as in Kafka."""
    server = Scram(SHA_256, Credentials(), Tokens())
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        server.evaluate(b"n,a=alice,n=token-id,r=x,tokenauth=true")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=nobody,r=x",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us=4r,r=x",
        b"n,,n=user,r=x,tokenauth=true",
        b"n,,n=user,r=x,",
        b"n,,n=us\xffer,r=x",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    """An invalid first message gets no reason, and no message may follow."""
    server = Scram(SHA_256, Credentials(), Tokens())
    with pytest.raises(SaslRefusalError) as caught:
        server.evaluate(first)
    assert not isinstance(caught.value, SaslAuthenticationError)
    with pytest.raises(SaslAuthenticationError):
        server.evaluate(b"n,,n=user,r=x")


def test_another_authorization_id() -> None:
    """Another authorization id is refused with a reason."""
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        Scram(SHA_256, Credentials(), Tokens()).evaluate(b"n,a=bob,n=user,r=x")


@pytest.mark.parametrize(
    ("password", "changes", "error"),
    [
        ("wrong", {}, SaslRefusalError),
        ("pencil", {"nonce": "x"}, SaslRefusalError),
        ("pencil", {"proof_bytes": 0}, UnreadableTokenError),
        ("pencil", {"proof_bytes": 31}, UnreadableTokenError),
    ],
)
def test_final_messages_that_are_refused(
    password: str, changes: dict[str, object], error: type[Exception]
) -> None:
    """A wrong password, another nonce and a proof of another length are refused."""
    server = Scram(SHA_256, Credentials(), Tokens())
    first = server.evaluate(b"n,,n=user,r=x").decode()
    with pytest.raises(error):
        server.evaluate(scram_final("n=user,r=x", first, password, **changes).encode())
    assert not server.is_complete


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_new_credentials(mechanism: ScramMechanism) -> None:
    """New credentials have their own salt and are not printed."""
    one, other = (new_credential(mechanism, "pencil", 4096) for _ in range(2))
    assert one.salt != other.salt
    assert one.stored_key != other.stored_key
    assert repr(one) == "ScramCredential()"


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_message_is_refused(first: bytes, final: bytes) -> None:
    """Random messages never complete a login, and raise only the authenticator's errors."""
    server = Scram(SHA_256, Credentials(), Tokens())
    for message in (b"n,,n=user,r=x", first, final):
        try:
            server.evaluate(message)
        except (SaslRefusalError, UnreadableTokenError):
            break
    assert not server.is_complete


@pytest.mark.parametrize("repeated", ["a", "=2C", "=3D"])
def test_long_messages_take_little_memory(repeated: str) -> None:
    """Long messages of an unauthenticated client need little memory."""
    count = 500_000 // len(repeated)
    message = f"n,,n={repeated * count},r=a".encode()
    tracemalloc.start()
    with pytest.raises(SaslRefusalError):
        Scram(SHA_256, Credentials(), Tokens()).evaluate(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * len(message)


def test_extensions_of_both_messages() -> None:
    """Both messages may have any number of extensions, including an extension named p."""
    for extensions in ("", ",a=b", ",a=b,c=d,p=e", ",a=b=c"):
        assert read_first(f"n,,n=a,r=b{extensions}").extensions == extensions
        final = read_final(f"c=biws,r=b{extensions},p=AAAA")
        assert (final.nonce, final.proof) == ("b", bytes(3))


@pytest.mark.parametrize(
    "wrong",
    [
        "c=biws,r=b,p=AAAA,",
        "c=biws,r=b,a=b",
        "c=biws,r=b,p=AAAA,a=b",
        "c=biws,p=AAAA",
        "c=biws,r=b,,p=AAAA",
        "c=biws,r=b,a,p=AAAA",
        "c=biws,r=b,p=AAA",
        "c=biws,r=b,p=AA==AA==",
        "c=biws,r=b,p=A===",
        "c=biw,r=b,p=AAAA",
        "c=biws,r=b\n,p=AAAA",
        "c=biws,r=b,p=AAAA\n",
    ],
)
def test_final_messages_of_another_form(wrong: str) -> None:
    """Malformed final messages are refused: commas, missing proofs, invalid base64."""
    with pytest.raises(SaslRefusalError, match="final message format"):
        read_final(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "n,,n=a,r=b,",
        "n,,n=a,r=b,a",
        "n,,n=a=,r=b",
        "n,,n=a=2c,r=b",
        "n,,n==3=2CD,r=b",
        "n,,n=,r=b",
        "n,a=,n=a,r=b",
        "n,a==,n=a,r=b",
        "n,,m=,n=a,r=b",
        "n,,n=\u00e4,r=b",
        "n,,n=a,r=b c",
        "n,,n=a,r=b\n",
        "y,,n=a,r=b",
    ],
)
def test_first_messages_of_another_form(wrong: str) -> None:
    """Malformed first messages are refused: invalid characters, missing parts."""
    with pytest.raises(SaslRefusalError, match="first message format"):
        read_first(wrong)
