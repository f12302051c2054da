"""Validates signed tokens: JWTs, verified by PyJWT with the keys of their issuer.

Source: Kafka's BrokerJwtValidator and its use of jose4j: tokens must be signed and have `exp` and
`iat`, `nbf` must hold, and audience and issuer must be the expected ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator_server.config.config import ConfigError
from coordinator_server.security.sasl.oauthbearer import MOST_SECONDS, Bearer, BearerTokenError

if TYPE_CHECKING:
    from coordinator_server.config.config import Config
    from coordinator_server.security.sasl.jwks import Jwks

EXTRA = "coordinator-server[oauthbearer]"
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Allowed algorithms by key type, so that a public key is never used as an HMAC secret."""

_LONGEST_KEY_ID = 1000
_TIMES = ("exp", "iat", "nbf")


class JwtValidator:
    """Validates tokens by the settings of a listener. Raises ConfigError."""

    def __init__(self, config: Config, new_jwks: Callable[..., Jwks], prefix: str) -> None:
        try:
            import jwt
        except ImportError:
            raise ConfigError(
                f"{prefix}sasl.enabled.mechanisms: OAUTHBEARER needs PyJWT: install {EXTRA}"
            ) from None
        self._jwt: Any = jwt
        self._jwks = new_jwks(
            config.text("sasl.oauthbearer.jwks.endpoint.url"),
            config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url",
        )
        self._audience = list(config.items("sasl.oauthbearer.expected.audience")) or None
        self._issuer = config.optional_text("sasl.oauthbearer.expected.issuer")
        for claim, is_expected, allowed in (
            ("audience", self._audience, "sasl.oauthbearer.allow.unverified.audience"),
            ("issuer", self._issuer, "sasl.oauthbearer.allow.unverified.issuer"),
        ):
            if not is_expected and not config.boolean(allowed):
                raise ConfigError(
                    f"{prefix}sasl.oauthbearer.expected.{claim}: required with signed tokens; set "
                    f"{allowed}=true to take tokens of any {claim}"
                )
        self._scope_claim = config.text("sasl.oauthbearer.scope.claim.name")
        self._sub_claim = config.text("sasl.oauthbearer.sub.claim.name")
        self._skew_s = config.integer("sasl.oauthbearer.clock.skew.seconds")

    def validate(self, token: str) -> Bearer:
        """Return the user and expiry time of a token. Raises BearerTokenError."""
        claims = self._claims(token)
        for name in _TIMES:
            value = claims.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BearerTokenError(f"{name} is no number")
            if not -MOST_SECONDS <= value <= MOST_SECONDS:  # this comparison also refuses NaN
                raise BearerTokenError(f"{name} is no time")
        if claims["exp"] < 0 or claims["iat"] < 0:
            raise BearerTokenError("a negative time")
        if int(claims["exp"]) < max(int(claims["iat"]), int(claims.get("nbf", 0))):
            raise BearerTokenError("it expires before it begins")
        user = claims.get(self._sub_claim)
        if not isinstance(user, str) or not user.strip():
            raise BearerTokenError(f"the claim {self._sub_claim} names no user")
        self._check_scope(claims.get(self._scope_claim))
        return Bearer(user.strip(), int(claims["exp"] * 1000))

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims after checking signature, times, audience and issuer."""
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
            if "crit" in header:
                raise BearerTokenError("the token has critical extensions")
            key, algorithms = self._key(header)
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={
                    "require": ["exp", "iat"],
                    "verify_aud": self._audience is not None,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # The error text may quote the token.
            raise BearerTokenError(type(error).__name__) from None
        return claims

    def _key(self, header: dict[str, Any]) -> tuple[Any, list[str]]:
        """Return the key that the token header names, and the allowed algorithms.

        Raises BearerTokenError if there is no such key.
        """
        key_id, algorithm = header.get("kid"), header.get("alg")
        for key in self._jwks.current():
            if key_id is not None and key.key_id != key_id:
                continue
            allowed = _ALGORITHMS.get(key.key_type or "", ())
            named = key._jwk_data.get("alg")
            if algorithm in allowed and named in (None, algorithm) and _is_to_sign(key):
                return key, [str(algorithm)]
        if isinstance(key_id, str) and len(key_id) <= _LONGEST_KEY_ID:
            self._jwks.misses(key_id)
        raise BearerTokenError("there is no such key")

    def _check_scope(self, scope: Any) -> None:
        items = [scope] if isinstance(scope, str) else scope
        if not isinstance(items, list):
            return
        if not all(isinstance(item, str) and item.strip() for item in items):
            raise BearerTokenError("a scope is empty")
        if len(set(items)) != len(items):
            raise BearerTokenError("a scope is there twice")


def _is_to_sign(key: Any) -> bool:
    return key.public_key_use in (None, "sig")
