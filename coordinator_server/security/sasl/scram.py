"""The server side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

Source: Kafka's ScramSaslServer, ScramMessages and ScramFormatter. Channel binding is not supported.
The server stores no password or equivalent: a `ScramCredential` can only verify proofs. An unknown
user is refused at the first message, as in Kafka.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from typing import NamedTuple, Protocol

from coordinator_server.security.credentials.scram_mechanisms import ScramMechanism
from coordinator_server.security.sasl.mechanism import (
    SaslAuthenticationError,
    SaslRefusalError,
    UnreadableTokenError,
    are_items,
    is_sasl_name,
    text_of,
)


class ScramCredential(NamedTuple):
    """The data that verifies a user's proof."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential()"


class TokenLogin(NamedTuple):
    """The credential of a delegation token, its owner and its expiry time."""

    owner: str
    credential: ScramCredential
    expires_at_ms: int


class Credentials(Protocol):
    """Looks up the credentials of users."""

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user, or None."""


class Tokens(Protocol):
    """Looks up delegation tokens."""

    def login(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return the login data of a token, or None."""


def new_credential(mechanism: ScramMechanism, password: str, iterations: int) -> ScramCredential:
    """Return a credential for a password; takes milliseconds."""
    salt = random_text().encode()
    salted = mechanism.salted_password(password, salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return a credential for a password that is already salted and hashed."""
    stored_key = mechanism.hash(mechanism.hmac(salted_password, b"Client Key"))
    server_key = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, stored_key, server_key, iterations)


def random_text() -> str:
    """Return a random text of 130 bits for nonces and salts, in base 36 as in Kafka."""
    number, digits = secrets.randbits(130), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


# No pattern repeats a group, and values contain no comma, so parsing is unambiguous.
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"[a-zA-Z0-9/+]*={0,2}"
_EXTENSION = re.compile(rf",[A-Za-z]+={_VALUE}")
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>[^,]+))?,(?:m={_VALUE},)?"
    rf"n=(?P<name>[^,]+),r=(?P<nonce>{_PRINTABLE})(?P<extensions>,.*)?",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>,.*)?"
    rf",p=(?P<proof>{_BASE64})",
    re.DOTALL,
)


class ClientFirst(NamedTuple):
    """The parts of a client's first message; each of `extensions` begins with a comma."""

    authorization_id: str
    name: str
    nonce: str
    extensions: str


class ClientFinal(NamedTuple):
    """The parts of a client's final message."""

    channel: bytes
    nonce: str
    proof: bytes


def read_first(message: str) -> ClientFirst:
    """Parse a client's first message. Raises SaslRefusalError."""
    match = _CLIENT_FIRST.fullmatch(message)
    if match is not None:
        first = ClientFirst(*match.groups(""))
        names = (first.name, first.authorization_id or first.name)
        if all(map(is_sasl_name, names)) and are_items(_EXTENSION, first.extensions):
            return first
    raise SaslRefusalError("Invalid SCRAM client first message format")


def read_final(message: str) -> ClientFinal:
    """Parse a client's final message. Raises SaslRefusalError."""
    match = _CLIENT_FINAL.fullmatch(message)
    if match is not None:
        channel, nonce, extensions, proof = match.groups("")
        is_whole = len(channel) % 4 == len(proof) % 4 == 0
        if is_whole and are_items(_EXTENSION, extensions):
            return ClientFinal(base64.b64decode(channel), nonce, base64.b64decode(proof))
    raise SaslRefusalError("Invalid SCRAM client final message format")


def user_name(sasl_name: str) -> str:
    """Decode a SASL name: "=2C" is a comma, "=3D" an equals sign."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


class Scram:
    """The exchange with one client, with a password or a delegation token (KIP-48).

    With a token, the client's name is the token id, and `user` becomes the token's owner.
    """

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, tokens: Tokens) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._tokens = tokens
        self._credential: ScramCredential | None = None
        self._nonce = self._first_messages = ""
        self.user = ""
        self.is_complete = self.has_token = False
        self.expires_at_ms: int | None = None
        self._has_ended = False

    def evaluate(self, token: bytes) -> bytes:
        """Process the client's first or final message. Raises SaslRefusalError."""
        if self._has_ended:
            raise SaslAuthenticationError("Unexpected challenge in Sasl server state FAILED")
        message = text_of(token)
        self._has_ended = True  # every invalid message ends the exchange
        if self._credential is None:
            answer = self._first(message)
            self._has_ended = False
        else:
            answer = self._final(message, self._credential)
            self.is_complete = True
        return answer.encode()

    def _first(self, message: str) -> str:
        first = read_first(message)
        name = user_name(first.name)
        extensions = _extensions(first.extensions)
        self.has_token = extensions.get("tokenauth", "").lower() == "true"
        credential = self._of_token(name) if self.has_token else self._of_user(name)
        if first.authorization_id and first.authorization_id != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._credential = credential
        self._nonce = first.nonce + random_text()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        listed = "".join(f",{name}={value}" for name, value in extensions.items())
        self._first_messages = f"n={first.name},r={first.nonce}{listed},{answer}"
        return answer

    def _of_user(self, name: str) -> ScramCredential:
        self.user = name
        credential = self._credentials.credential(self._mechanism, name)
        if credential is None:
            raise SaslRefusalError("Authentication failed: Invalid user credentials")
        return credential

    def _of_token(self, token_id: str) -> ScramCredential:
        login = self._tokens.login(self._mechanism, token_id)
        if login is None:
            raise SaslRefusalError("Token Authentication failed: Invalid tokenId")
        self.user, credential, self.expires_at_ms = login
        return credential

    def _final(self, message: str, credential: ScramCredential) -> str:
        final = read_final(message)
        if not hmac.compare_digest(final.nonce, self._nonce):
            raise SaslRefusalError("Invalid client nonce in the final client message.")
        mechanism = self._mechanism
        # Encode the channel binding again, as Kafka does, to drop unused bits of its base64 text.
        channel = base64.b64encode(final.channel).decode()
        signed = f"{self._first_messages},c={channel},r={self._nonce}".encode()
        signature = mechanism.hmac(credential.stored_key, signed)
        if len(final.proof) != len(signature):
            raise UnreadableTokenError("a proof of another length")
        client_key = bytes(left ^ other for left, other in zip(signature, final.proof, strict=True))
        if not hmac.compare_digest(mechanism.hash(client_key), credential.stored_key):
            raise SaslRefusalError("Invalid client credentials")
        server_signature = mechanism.hmac(credential.server_key, signed)
        return f"v={base64.b64encode(server_signature).decode()}"


def _extensions(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {name: value for name, _, value in pairs}
