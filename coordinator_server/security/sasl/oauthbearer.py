"""OAUTHBEARER: authentication with a token in place of a password (RFC 7628).

Source: Kafka's OAuthBearerSaslServer, OAuthBearerClientInitialResponse. A refused token is answered
with a JSON error; the client responds with %x01 and is then refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.config.hosts import in_container, is_loopback
from coordinator_server.security.sasl.mechanism import (
    SaslAuthenticationError,
    SaslRefusalError,
    UnreadableTokenError,
    are_items,
    is_sasl_name,
    text_of,
)

if TYPE_CHECKING:
    from coordinator_server.config.config import Config, Listener
    from coordinator_server.security.credentials.jaas import LoginModule
    from coordinator_server.security.sasl.mechanism import NewMechanism
    from coordinator_server.security.security import Security

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
VALIDATED = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
UNSECURED = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
UNSECURED_OPTIONS = "unsecuredValidator"
"""Prefix of the login module options that request unsigned tokens."""

_KEPT_WAITING = b"\x01"
_INITIAL = re.compile(r"n,(?:a=(?P<authzid>[^,]+))?,\x01(?P<pairs>.*)\x01", re.DOTALL)
_PAIR = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01")
_AUTH = re.compile(r"(?P<scheme>[a-zA-Z_0-9]+)[ ]+(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


MOST_SECONDS = (2**63 - 1) // 1000
"""Limit of times in a token: in ms they must fit an int64 session lifetime."""


class Bearer(NamedTuple):
    """The user and expiry time of a valid token."""

    user: str
    expires_at_ms: int


class BearerTokenError(Exception):
    """A token was refused: `status` is for the client, the message for the log.

    The message never contains parts of the token.
    """

    def __init__(
        self, reason: str, status: str = "invalid_token", scope: str | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


Validate = Callable[[str], Bearer]
"""Validates a token. Raises BearerTokenError or UnreadableTokenError."""


class OAuthBearer:
    """The exchange with one client."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._error: BearerTokenError | None = None
        self._told = ""
        self.user = ""
        self.is_complete = self.has_token = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Validate a token. Raises SaslRefusalError."""
        if self._error is not None and token == _KEPT_WAITING:
            raise SaslAuthenticationError(self._told, str(self._error))
        self._error = None
        authorization_id, value = _parse(text_of(token))
        try:
            bearer = self._validate(value)
            if not _is_text(bearer.user):
                raise BearerTokenError("the name of the user is no text")
        except BearerTokenError as error:
            self._error = error
            scope = "" if error.scope is None else f', "scope":"{error.scope}"'
            self._told = f'{{"status":"{error.status}"{scope}}}'
            return self._told.encode()
        if authorization_id and authorization_id != bearer.user:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({bearer.user})",
                "another authorization id than the token's",
            )
        self.user, self.expires_at_ms = bearer
        self.is_complete = True
        return b""


def _is_text(name: str) -> bool:
    """Return whether a name can be encoded: JSON may contain half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse(message: str) -> tuple[str, str]:
    """Return authorization id and token of a client's first message. Raises SaslRefusalError."""
    match = _INITIAL.fullmatch(message)
    if match is None or not are_items(_PAIR, match["pairs"]):
        raise SaslRefusalError("Invalid OAUTHBEARER client first message")
    authorization_id = match["authzid"] or ""
    if authorization_id and not is_sasl_name(authorization_id):
        raise SaslRefusalError("Invalid OAUTHBEARER client first message")
    # Extensions are ignored after checking their format.
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise SaslRefusalError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise SaslRefusalError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise UnreadableTokenError("Invalid scheme in OAUTHBEARER client first message")
    return authorization_id, auth["token"]


def new_oauthbearer(
    config: Config, module: LoginModule | None, security: Security, listener: Listener
) -> NewMechanism:
    """Return the mechanism by the settings of a listener. Raises ConfigError.

    Kafka accepts unsigned tokens by default. Here a setting must request them if other machines can
    connect; on loopback and in a container they are accepted with a warning.
    """
    prefix = f"listener.name.{listener.name.lower()}.oauthbearer."
    handler = config.optional_text("sasl.server.callback.handler.class")
    options = {} if module is None else module.options
    if handler not in (None, VALIDATED, UNSECURED):
        raise ConfigError(
            f"{prefix}sasl.server.callback.handler.class: {handler} is not served, only "
            f"{VALIDATED} and {UNSECURED}"
        )
    asks_for_unsecured = any(name.startswith(UNSECURED_OPTIONS) for name in options)
    has_keys = config.optional_text("sasl.oauthbearer.jwks.endpoint.url") is not None
    if handler is None and not asks_for_unsecured and not has_keys:
        if not (is_loopback(listener.host) or in_container()):
            raise ConfigError(
                f"{prefix}sasl.oauthbearer.jwks.endpoint.url: OAUTHBEARER needs the keys that "
                f"tokens are signed with: {listener} is neither a loopback address nor in a "
                "container, so tokens without a signature are taken only with "
                f"{prefix}sasl.server.callback.handler.class={UNSECURED}"
            )
        security.unsecured_listeners[listener.name] = None
        asks_for_unsecured = True
    if handler == UNSECURED or (handler is None and asks_for_unsecured):
        from coordinator_server.security.sasl.unsecured_jws import new_unsecured

        return partial(OAuthBearer, new_unsecured(options, prefix))
    if not has_keys:
        raise ConfigError(
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url: {VALIDATED} needs the keys that tokens "
            "are signed with"
        )
    from coordinator_server.security.sasl.jwt_validator import JwtValidator

    return partial(OAuthBearer, JwtValidator(config, security.jwks, prefix).validate)
