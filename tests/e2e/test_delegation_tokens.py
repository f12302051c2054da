"""Delegation tokens in the real process: logins, restarts, expiry and hidden secrets."""

from __future__ import annotations

import base64
import json
import secrets
import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.client import Client, ClientError, read_settings
from protocol.apis.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from protocol.errors import ErrorCode
from tests.support import Serve, wait_for

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
    """A client with a token acts as its owner, but its requests about tokens are refused."""
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


def _refused(broker: Serve, token: Any) -> None:
    with _with_token(broker, token) as client, pytest.raises(ClientError) as caught:
        client.metadata([])
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def _described(client: Client) -> dict[str, int]:
    """Return the expiry time of each token by id."""
    answer = client.ask(DescribeDelegationTokenRequest(owners=None))
    assert not answer.error_code
    return {one.token_id: one.expiry_timestamp for one in answer.tokens}


def test_tokens_outlive_the_process(tmp_path: Path) -> None:
    """Each change of a token is on disk before the response, and thus survives kill -9."""
    arguments = ("--data-dir", str(tmp_path / "data"))
    with _serve(*arguments) as broker, _alice(broker) as alice:
        kept, ended = _create(alice), _create(alice)
        renewed = alice.ask(
            RenewDelegationTokenRequest(hmac=kept.hmac, renew_period_ms=DAY_MS // 2)
        )
        alice.ask(ExpireDelegationTokenRequest(hmac=ended.hmac, expiry_time_period_ms=-1))
        broker.signal(signal.SIGKILL)
        broker.wait()
    text = "".join(one.read_text() for one in (tmp_path / "data").glob("security.*"))
    assert kept.token_id in text
    for secret in (KEY, base64.b64encode(kept.hmac).decode(), kept.hmac.hex()):
        assert secret not in text
    with _serve(*arguments) as broker, _alice(broker) as alice:
        assert _described(alice) == {kept.token_id: renewed.expiry_timestamp_ms}
        with _with_token(broker, kept) as client:
            client.metadata([])
        _refused(broker, ended)
        assert broker.stop() == 0
    with _serve(*arguments, delegation_token_secret_key="another") as broker:
        _refused(broker, kept)


def test_who_is_refused() -> None:
    """A wrong HMAC, an unknown token, PLAIN, and a login without tokenauth are refused."""
    with _serve() as broker, _alice(broker) as alice:
        token = _create(alice)
        good = base64.b64encode(token.hmac).decode()
        wrong = base64.b64encode(token.hmac[::-1]).decode()
        for mechanism, name, password, more in (
            ("SCRAM-SHA-256", token.token_id, wrong, " tokenauth=true"),
            ("SCRAM-SHA-256", "AAAAAAAAAAAAAAAAAAAAAA", good, " tokenauth=true"),
            ("SCRAM-SHA-512", token.token_id, good, ""),
            ("PLAIN", token.token_id, good, " tokenauth=true"),
        ):
            with (
                _client(broker, mechanism, name, password, more) as client,
                pytest.raises(ClientError),
            ):
                client.metadata([])
        for secret in (good, wrong, KEY):
            assert secret not in broker.log
        assert broker.log_lines("authentication.failed", "user=alice", "Invalid client credentials")


def test_a_session_ends_with_its_token() -> None:
    """After the end of its token a client is not served; a renewed token allows another login."""
    with _serve(delegation_token_expiry_check_interval_ms="100") as broker, _alice(broker) as alice:
        token = _create(alice, 1500)
        with _with_token(broker, token) as client:
            client.metadata([])
            wait_for(lambda: token.token_id not in _described(alice), "it has gone", SECONDS)
            with pytest.raises(ClientError):
                client.metadata([])
        _refused(broker, token)
        assert broker.log_lines("tokens.expired", "tokens=1")


def test_a_session_that_is_prolonged() -> None:
    """Our client reauthenticates (KIP-368) as long as its token is renewed."""
    with _serve(delegation_token_expiry_time_ms="1500") as broker, _alice(broker) as alice:
        token = _create(alice)
        renew = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
        with _with_token(broker, token) as client:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert not alice.ask(renew).error_code
                client.metadata([])
                time.sleep(0.2)
        logins = broker.log_lines("connection.authenticated", "SCRAM-SHA-256", "user=alice")
        assert len(logins) > 1


def _control(broker: Serve, path: str) -> Any:
    line = next(line for line in broker.log.splitlines() if "control.listening" in line)
    address = line.partition("address=")[2].split()[0]
    request = urllib.request.Request(f"http://{address}{path}", method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)


def test_the_clock_turns_tokens_too() -> None:
    """A token expires when the clock advances far enough, and a reset removes all tokens."""
    with (
        _serve("--ephemeral", "--http", "127.0.0.1:0") as broker,
        _alice(broker) as alice,
    ):
        token = _create(alice)
        _control(broker, "/clock/advance?seconds=80000")
        with _with_token(broker, token) as client:
            client.metadata([])
        late = _create(alice)
        assert late.issue_timestamp_ms - token.issue_timestamp_ms >= 80_000_000
        _control(broker, "/clock/advance?seconds=10001")
        assert list(_described(alice)) == [late.token_id]
        _refused(broker, token)
        _control(broker, "/reset")
    with _serve("--ephemeral", "--http", "127.0.0.1:0") as broker:
        with _alice(broker) as alice:
            token = _create(alice)
        _control(broker, "/reset")
        with _alice(broker) as alice:
            assert _described(alice) == {}
        _refused(broker, token)


def test_the_key_is_not_shown() -> None:
    """The secret key appears neither in DescribeConfigs nor in the log, even if a start fails."""
    with _serve() as broker, _alice(broker) as alice:
        resource = DescribeConfigsResource(resource_type=4, resource_name="1")
        (answer,) = alice.ask(DescribeConfigsRequest(resources=[resource])).results
        (key,) = [one for one in answer.configs if one.name == "delegation.token.secret.key"]
        assert (key.value, key.is_sensitive) == (None, True)
        assert KEY not in broker.log
    for name in ("max.lifetime.ms", "expiry.time.ms", "expiry.check.interval.ms"):
        broker = _serve(**{f"delegation_token_{name.replace('.', '_')}": "0"})
        assert broker.run() == 2
        assert f"delegation.token.{name}" in broker.log
        assert KEY not in broker.log


def test_large_requests_hold_up_nobody() -> None:
    """Requests with very many renewers or owners do not block other clients."""
    with _serve() as broker, _alice(broker) as alice, _alice(broker) as other:
        _create(alice)
        renewers = [CreatableRenewers(principal_type="User", principal_name="x")] * 200_000
        owners = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=f"{number}")
            for number in range(200_000)
        ]
        slowest = 0.0
        with ThreadPoolExecutor(1) as pool:
            for request, expected in (
                (
                    CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1),
                    ErrorCode.POLICY_VIOLATION,
                ),
                (DescribeDelegationTokenRequest(owners=owners), ErrorCode.NONE),
            ):
                future = pool.submit(alice.ask, request)
                while not future.done():
                    start = time.monotonic()
                    other.metadata([])
                    slowest = max(slowest, time.monotonic() - start)
                assert future.result().error_code == expected
        assert slowest < 1
