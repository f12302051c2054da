"""The SASL step of `doctor`: which mechanisms a broker offers, and why it refuses a client."""

from __future__ import annotations

import json
import time
from binascii import a2b_base64
from typing import TYPE_CHECKING

from coordinator_server.client import Address, ClientConnection, ClientError, SaslError
from coordinator_server.client.sasl import (
    bearer_token,
    exchange_tokens,
    handshake,
)
from coordinator_server.client.security import SaslSettings
from coordinator_server.tools.doctor_step import Step, StepFailedError
from protocol.errors import ErrorCode
from protocol.registry import SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from coordinator_server.client import ClientSettings

_NO_MECHANISM = "-"
_PLAIN_PROTOCOL = {"SASL_PLAINTEXT": "PLAINTEXT", "SASL_SSL": "SSL"}


def authenticate(
    step: Step, connection: ClientConnection, settings: SaslSettings, protocol: str
) -> None:
    """Authenticate and describe the result in the step. Raises StepFailedError."""
    if not {SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY} <= connection.api_versions.keys():
        raise _no_sasl(protocol)
    try:
        offered = handshake(connection, settings.mechanism)
    except SaslError as error:
        raise _refused_mechanism(error, settings.mechanism, protocol) from error
    except ClientError as error:
        raise StepFailedError(f"no answer to SaslHandshake: {error}") from error
    step.details.append(f"the broker offers {', '.join(offered)}")
    try:
        lifetime_ms = exchange_tokens(connection, settings)
    except SaslError as error:
        raise _refused_user(error, settings) from error
    except ClientError as error:
        if error.code == ErrorCode.INVALID_CONFIG:
            raise StepFailedError(str(error)) from error
        raise StepFailedError(
            f"the connection broke while authenticating: {error}",
            ["broker: its log has the reason"],
        ) from error
    who = f" as {settings.username}" if settings.username else ""
    step.found = f"{settings.mechanism}{who}"
    if lifetime_ms:
        step.details.append(
            f"the session lasts {lifetime_ms / 1000:.0f} s, then the client authenticates again"
        )


def offered_mechanisms(
    address: Address,
    settings: ClientSettings,
    open_socket: Callable[[], socket.socket],
) -> list[str]:
    """Return the mechanisms of a listener that requires SASL; empty if not required or unknown."""
    try:
        connection = ClientConnection(address, settings, open_socket())
    except (OSError, StepFailedError):
        return []
    try:
        connection.negotiate()
        handshake(connection, _NO_MECHANISM)
    except SaslError as error:
        if error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return list(error.mechanisms)
    except ClientError:
        pass
    finally:
        connection.close()
    return []


def wants_sasl(mechanisms: list[str], protocol: str) -> StepFailedError:
    """Return the error that explains why a listener closes a connection without SASL."""
    secured = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    return StepFailedError(
        f"this listener wants SASL ({', '.join(mechanisms)}), and security.protocol is {protocol}",
        [
            f"client: security.protocol={secured}, sasl.mechanism (one of these) and"
            " sasl.jaas.config (librdkafka: sasl.username, sasl.password)",
            "client: or the port of a listener without SASL",
        ],
    )


def _no_sasl(protocol: str) -> StepFailedError:
    return StepFailedError(
        f"this listener takes no SASL, and security.protocol is {protocol}",
        [
            f"client: security.protocol={_PLAIN_PROTOCOL[protocol]}, or the port of a listener with"
            " SASL",
            "broker: listener.security.protocol.map, if this listener is meant to have SASL",
        ],
    )


def _refused_mechanism(error: SaslError, mechanism: str, protocol: str) -> StepFailedError:
    if error.code == ErrorCode.ILLEGAL_SASL_STATE:
        return _no_sasl(protocol)
    if error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(error.mechanisms) or "none"
        return StepFailedError(
            f"the broker does not offer {mechanism}, only {offered}",
            [
                f"client: sasl.mechanism={error.mechanisms[0] if error.mechanisms else '...'}"
                " (librdkafka: sasl.mechanisms)",
                f"broker: sasl.enabled.mechanisms, {mechanism} added",
            ],
        )
    return StepFailedError(f"the broker refuses SASL: {error}")


def _refused_user(error: SaslError, settings: SaslSettings) -> StepFailedError:
    """Return the error with the broker's message and the place where users are configured."""
    mechanism, user = settings.mechanism, settings.username
    if mechanism == "OAUTHBEARER":
        return StepFailedError(
            f"the broker refuses the token: {error}{_expiry(settings)}",
            [
                "client: a token that is valid now, of the issuer, audience and scope that the"
                " broker expects",
                "broker: sasl.oauthbearer.expected.audience, .expected.issuer, .jwks.endpoint.url",
            ],
        )
    at_broker = f"user_{user} in the PlainLoginModule of the listener's plain.sasl.jaas.config"
    if mechanism != "PLAIN":
        at_broker = (
            f"a user of SCRAM has a password for each mechanism: kafka-configs --alter"
            f" --entity-type users --entity-name {user} --add-config '{mechanism}=[password=...]'"
        )
    return StepFailedError(
        f"the broker refuses user {user}: {error}",
        [
            "client: username and password in sasl.jaas.config (librdkafka: sasl.username,"
            " sasl.password)",
            f"broker: {at_broker}",
        ],
    )


def _expiry(settings: SaslSettings) -> str:
    """Return a note on when the token expired; empty if valid or without a readable expiry."""
    try:
        claims = bearer_token(settings).split(".")[1]
        padded = claims.translate(str.maketrans("-_", "+/")) + "=" * (-len(claims) % 4)
        end_s = float(json.loads(a2b_base64(padded))["exp"])
    except (ClientError, ValueError, LookupError, TypeError):
        return ""
    if end_s >= time.time():
        return ""
    return f" (it expired {time.time() - end_s:.0f} s ago)"
