"""Unsigned tokens, which anyone can create for any user. For tests only.

Source: Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws and
OAuthBearerValidationUtils.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from functools import partial
from math import floor
from typing import Any, NamedTuple

from coordinator_server.config.config import ConfigError
from coordinator_server.security.sasl.mechanism import UnreadableTokenError
from coordinator_server.security.sasl.oauthbearer import (
    MOST_SECONDS,
    UNSECURED_OPTIONS,
    Bearer,
    BearerTokenError,
    Validate,
)

_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")
_SCOPE_ITEM = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class UnsecuredRules(NamedTuple):
    """The requirements for tokens, from the options of the login module."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


def new_unsecured(options: Mapping[str, str], prefix: str) -> Validate:
    """Return a validator by the options of a login module. Raises ConfigError."""

    def option(name: str) -> str:
        return options.get(UNSECURED_OPTIONS + name, "").strip()

    def refuse(name: str, reason: str) -> ConfigError:
        option_name = UNSECURED_OPTIONS + name
        return ConfigError(f"{prefix}sasl.jaas.config: {option_name}: {reason}")

    skew = option("AllowableClockSkewMs") or "0"
    if not (skew.isascii() and skew.isdigit()):
        raise refuse("AllowableClockSkewMs", "it is no number of milliseconds")
    scope = tuple(option("RequiredScope").split())
    if not all(map(_SCOPE_ITEM.fullmatch, scope)):
        raise refuse("RequiredScope", "it is no list of scopes")
    rules = UnsecuredRules(
        option("PrincipalClaimName") or "sub", option("ScopeClaimName") or "scope", scope, int(skew)
    )
    return partial(validate, rules)


def validate(rules: UnsecuredRules, token: str, now_ms: int | None = None) -> Bearer:
    """Return the user and expiry time of a token. Raises BearerTokenError, UnreadableTokenError."""
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    if ".." in token:
        raise BearerTokenError("malformed token")
    parts = token.rstrip(".").split(".") + ([""] if token.endswith(".") else [])
    if len(parts) != 3:
        raise BearerTokenError("the token has not three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    algorithm = header.get("alg")
    if algorithm is None:
        raise UnreadableTokenError("the token names no algorithm")
    if algorithm != "none" or parts[2]:
        raise BearerTokenError("the token is signed, and unsigned ones are expected")
    scope = _scope(claims.get(rules.scope_claim))
    expires_s = _number(claims, "exp")
    if expires_s is None:
        raise BearerTokenError("the token has no expiration time")
    user = claims.get(rules.principal_claim)
    if not isinstance(user, str) or not user.strip():
        raise BearerTokenError("the token names no user")
    issued_s = _number(claims, "iat")
    if issued_s is not None and 1000 * issued_s > now_ms + rules.clock_skew_ms:
        raise BearerTokenError("the token is issued in the future")
    if now_ms - rules.clock_skew_ms >= 1000 * expires_s:
        raise BearerTokenError("the token has expired")
    if issued_s is not None and expires_s <= issued_s:
        raise BearerTokenError("the token expires before it is issued")
    if not scope.issuperset(rules.required_scope):
        required = f"[{', '.join(rules.required_scope)}]"
        raise BearerTokenError("the scope is not sufficient", "insufficient_scope", required)
    return Bearer(user, floor(expires_s * 1000 + 0.5))


def _object(part: str) -> Mapping[str, Any]:
    """Decode a part of the token, with values converted as in Kafka."""
    if not _URL_SAFE.fullmatch(part):
        raise BearerTokenError("malformed base64")
    try:
        decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        parsed = json.loads(decoded, parse_constant=_no_constant) if decoded.strip() else None
    except (ValueError, binascii.Error, RecursionError):
        raise BearerTokenError("malformed JSON") from None
    if not isinstance(parsed, dict):
        return {}
    return {name: _converted(value) for name, value in parsed.items()}


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _converted(value: Any) -> Any:
    if isinstance(value, list):
        return [str(_text(item)) for item in value]
    return value if _is_number(value) else _text(value)


def _text(value: Any) -> str:
    """Convert like Jackson's JsonNode.asText."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if isinstance(value, dict | list) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if not _is_number(value):
        raise BearerTokenError("a time in the token is no number")
    if not -MOST_SECONDS <= value <= MOST_SECONDS:
        raise BearerTokenError("a time in the token is no time")
    return float(value)


def _scope(value: Any) -> set[str]:
    if value is None:
        return set()
    if isinstance(value, str):
        return {value.strip()} if value.strip() else set()
    if isinstance(value, list):
        return {item.strip() for item in value if item.strip()}
    raise BearerTokenError("the scope in the token is neither a text nor a list")
