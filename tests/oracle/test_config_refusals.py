"""Kafka and our broker refuse config and quota changes with the same errors in the same order.

Kafka's broker checks the form of a change before its controller checks the client's permission, so
a client without permission still gets the error for a null value or a duplicate key.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from protocol.apis import alter_configs as whole
from protocol.apis import incremental_alter_configs as single
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from tests.faults.client import Client
from tests.oracle.both import Addresses, ours, theirs
from tests.oracle.quota_cases import Names, Operations, Request, alter, describe
from tests.support import wait_for

pytestmark = pytest.mark.nightly

LISTENERS = {"USERS": "SASL_PLAINTEXT"}
SETTINGS = {
    "authorizer.class.name": AUTHORIZER_CLASS,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    ),
}
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
Configs = list[tuple[str, str | None]]

GOOD: Configs = [("retention.ms", "1000")]
NULL: Configs = [("retention.ms", None)]
TWICE: Configs = [("retention.ms", "1"), ("retention.ms", "2")]
GROUP_TIMEOUT: Configs = [("consumer.session.timeout.ms", "50000")]
NODE_ID: Configs = [("node.id", "2")]
CASES: list[tuple[int, str, Configs]] = [
    *((TOPIC, name, one) for name in ("t", "none", "") for one in (GOOD, NULL, TWICE)),
    (TOPIC, "t", []),
    (TOPIC, "t", [("a", None), ("b", "1"), ("c", None)]),
    (TOPIC, "t", [("nonsense", "1")]),
    *((GROUP, name, GROUP_TIMEOUT) for name in ("g", "")),
    (GROUP, "g", [("consumer.session.timeout.ms", None)]),
    (GROUP, "g", [("consumer.session.timeout.ms", "1"), ("consumer.session.timeout.ms", "2")]),
    *((BROKER, name, []) for name in ("1", "7", "x", "")),
    *((BROKER, name, NODE_ID) for name in ("1", "7", "x", "")),
    (BROKER, "1", [("node.id", None)]),
    (LOGGER, "1", [("no.such.Logger", "DEBUG")]),
    (LOGGER, "7", [("no.such.Logger", "DEBUG")]),
    (LOGGER, "1", [("no.such.Logger", None)]),
    (99, "t", GOOD),
    (99, "t", NULL),
]
MOST = 10_000


def _clients(addresses: Addresses) -> Iterator[tuple[str, Client]]:
    """Yield alice, who has no permission, and a client with every permission."""
    client = Client(addresses["USERS"])
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert not client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2).error_code
    yield "alice", client
    yield "anonymous", Client(addresses["PLAINTEXT"])


def _requests(kind: int, name: str, configs: Configs) -> Iterator[Any]:
    """Yield requests of both config APIs that only validate the change."""
    of_whole = whole.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[whole.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    yield whole.AlterConfigsRequest(resources=[of_whole], validate_only=True)
    for operation in (0, 1, 2):
        of_single = single.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                single.AlterableConfig(name=key, value=value, config_operation=operation)
                for key, value in configs
            ],
        )
        yield single.IncrementalAlterConfigsRequest(resources=[of_single], validate_only=True)


def _config_answers(addresses: Addresses) -> dict[str, Any]:
    """Return error code and message for each request of each client."""
    answers = {}
    for who, client in _clients(addresses):
        if who == "anonymous":
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic]), 7)
        for kind, name, configs in CASES:
            for number, request in enumerate(_requests(kind, name, configs)):
                (answer,) = client.ask(request, 1).responses
                key = f"{who} {number} {kind} {name!r} {configs}"
                answers[key] = (answer.error_code, answer.error_message)
        client.close()
    return answers


def _quota_answers(addresses: Addresses) -> list[Any]:
    """Return the answers to the maximum number of quota changes in a request, and to one more."""
    *_, (_, client) = _clients(addresses)
    users: list[Names] = [[("user", f"u{number}")] for number in range(MOST + 1)]
    keys = ("producer_byte_rate", "consumer_byte_rate")
    requests: list[Request] = []
    for validate_only in (True, False):
        for count in (MOST + 1, MOST):
            single_value: Operations = [(keys[0], 1.0)]
            changes = [(one, single_value) for one in users[:count]]
            requests.append(alter(*changes, validate_only=validate_only).request)
    # Kafka's limit counts all values, also unchanged ones. With two values each, half as many
    # entities reach the limit.
    for count in (MOST // 2, MOST // 2 + 1):
        both_values: Operations = [(key, 1.0) for key in keys]
        changes = [(one, both_values) for one in users[:count]]
        requests.append(alter(*changes).request)
    answers: list[Any] = []
    for request in requests:
        answer = client.ask(request, 1)
        found = sorted({(one.error_code, str(one.error_message)) for one in answer.entries})
        answers.append((len(answer.entries), found))
    removed: list[tuple[Names, Operations]] = [
        (one, [(key, None) for key in keys]) for one in users[: MOST // 2]
    ]
    client.ask(alter(*removed).request, 1)
    wait_for(
        lambda: len(client.ask(describe().request, 1).entries) == MOST // 2, "the others are left"
    )
    client.close()
    return answers


def test_refusals(tmp_path: Path) -> None:
    """All answers are the same, for clients with every permission and with no permission."""
    with theirs(tmp_path, SETTINGS, LISTENERS) as addresses:
        expected = _config_answers(addresses), _quota_answers(addresses)
    with ours(SETTINGS, LISTENERS) as (addresses, _):
        configs, quotas = _config_answers(addresses), _quota_answers(addresses)
    different = {
        key: (expected[0][key], answer)
        for key, answer in configs.items()
        if answer != expected[0][key]
    }
    assert different == {}
    assert quotas == expected[1]
