"""Delegation tokens in the real process: logins, restarts, expiry, what is not shown."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator_server.client import Client, read_settings
from protocol.apis.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.apis.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from protocol.errors import ErrorCode
from tests.support import Serve

PASSWORD = secrets.token_urlsafe(12)
KEY = secrets.token_urlsafe(12)
SECONDS = 30
DAY_MS = 86_400_000
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    ),
    "delegation.token.secret.key": KEY,
}


def _serve(*arguments: str, **settings: str) -> Serve:
    given = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    named = [part for pair in given.items() for part in ("--set", "=".join(pair))]
    return Serve(*(arguments or ("--ephemeral",)), "--log-level", "debug", *named, listener=None)


@contextmanager
def _client(
    broker: Serve, mechanism: str, user: str, password: str, more: str = ""
) -> Iterator[Client]:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'x required username="{user}" password="{password}"{more};',
        "default.api.timeout.ms": "5000",
    }
    client = Client(broker.bootstrap_servers, read_settings(properties))
    try:
        yield client
    finally:
        client.close()


def _alice(broker: Serve) -> Any:
    return _client(broker, "PLAIN", "alice", PASSWORD)


def _with_token(broker: Serve, token: Any, mechanism: str = "SCRAM-SHA-256") -> Any:
    password = base64.b64encode(token.hmac).decode()
    return _client(broker, mechanism, token.token_id, password, ' tokenauth="true"')


def _create(client: Client, lifetime_ms: int = -1) -> Any:
    carol = CreatableRenewers(principal_type="User", principal_name="carol")
    token = client.ask(CreateDelegationTokenRequest(renewers=[carol], max_lifetime_ms=lifetime_ms))
    assert not token.error_code, ErrorCode(token.error_code)
    return token


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_a_token(mechanism: str) -> None:
    """As the owner; it gets no further token by that, and sees none."""
    with _serve() as broker, _alice(broker) as alice:
        token = _create(alice)
        with _with_token(broker, token, mechanism) as client:
            assert client.metadata([]) is not None
            for request in (
                CreateDelegationTokenRequest(max_lifetime_ms=-1),
                DescribeDelegationTokenRequest(owners=None),
                RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1),
                ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
            ):
                error = client.ask(request).error_code
                assert error == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert broker.log_lines("connection.authenticated", mechanism, "user=alice")
        assert "Traceback" not in broker.log
