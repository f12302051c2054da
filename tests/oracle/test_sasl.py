"""An authenticating client gets the same bytes from Kafka and from our broker."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)
from protocol.json_form import to_json
from tests.faults.client import Client, GoneError
from tests.oracle.kafka_process import JAVA_OPTIONS, Kafka
from tests.oracle.sasl_conversations import (
    REAUTH_MS,
    Conversation,
    all_conversations,
    hold,
)
from tests.oracle.sasl_tokens import Signer, unsecured_conversations
from tests.oracle.token_conversations import token_conversations
from tests.support import Serve, address_of, free_port, wait_for

pytestmark = pytest.mark.nightly

LISTENERS = ("USERS", "AGAIN", "UNSECURED", "UNASKED", "SIGNED")
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="secret" user_bob="builder" user_zoë="sécret 1;2";'
)
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
DELAY_MS = 50
SECONDS = 60
SALT = b"0123456789"
SHA_256, SHA_512 = 1, 2


def _settings(keys: Path) -> dict[str, str]:
    settings = {
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
        "inter.broker.listener.name": "PLAINTEXT",
        "delegation.token.secret.key": "a key of both",
    }
    for name in ("users", "again"):
        mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = mechanisms
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = PLAIN
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = SCRAM
    for mechanism in ("plain", "scram-sha-256"):
        settings[f"listener.name.again.{mechanism}.connections.max.reauth.ms"] = str(REAUTH_MS)
    package = "org.apache.kafka.common.security.oauthbearer"
    # Without a callback handler, Kafka accepts unsigned tokens, and this broker accepts them on
    # loopback.
    unasked = "listener.name.unasked"
    settings[f"{unasked}.sasl.enabled.mechanisms"] = "OAUTHBEARER"
    settings[f"{unasked}.oauthbearer.sasl.jaas.config"] = (
        f'{OAUTH} unsecuredLoginStringClaim_sub="x";'
    )
    for name, options, handler in (
        (
            "unsecured",
            ' unsecuredLoginStringClaim_sub="x" unsecuredValidatorRequiredScope="a"',
            f"{package}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
        ),
        ("signed", "", f"{package}.OAuthBearerValidatorCallbackHandler"),
    ):
        prefix = f"listener.name.{name}.oauthbearer"
        settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = "OAUTHBEARER"
        settings[f"{prefix}.sasl.jaas.config"] = f"{OAUTH}{options};"
        settings[f"{prefix}.sasl.server.callback.handler.class"] = handler
        if name == "signed":
            settings |= {
                f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
                f"{prefix}.sasl.oauthbearer.expected.issuer": "https://issuer",
            }
    return settings


@pytest.fixture(scope="module")
def signer() -> Signer:
    """The issuer of the tokens."""
    return Signer()


@pytest.fixture(scope="module")
def keys(signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the issuer's keys."""
    path = tmp_path_factory.mktemp("keys") / "jwks.json"
    path.write_text(signer.jwks())
    return path


Addresses = dict[str, str]


def _users() -> AlterUserScramCredentialsRequest:
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    return AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=name, mechanism=SHA_256, iterations=4096, salt=SALT, salted_password=salted
            )
            for name in ("carol", "d,a=n")
        ]
    )


@pytest.fixture(scope="module")
def theirs(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Start a Kafka and return its listeners by name."""
    options = (*JAVA_OPTIONS, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}")
    settings = {name: _escaped(value) for name, value in _settings(keys).items()}
    listeners = dict.fromkeys(LISTENERS, "SASL_PLAINTEXT")
    kafka = Kafka(tmp_path_factory.mktemp("theirs"), settings, options, listeners)
    try:
        kafka.start()
        addresses = {name: f"{host}:{port}" for name, (host, port) in kafka.addresses.items()}
        addresses["PLAINTEXT"] = kafka.bootstrap_servers
        _ask(addresses["PLAINTEXT"], _users())
        yield addresses
    finally:
        kafka.end()


def _escaped(value: str) -> str:
    """Return a value escaped for a properties file."""
    return value.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


@pytest.fixture(scope="module")
def ours(keys: Path) -> Iterator[Addresses]:
    """The listeners of our broker, by name."""
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", *LISTENERS)}
    protocols = dict.fromkeys(LISTENERS, "SASL_PLAINTEXT") | {"PLAINTEXT": "PLAINTEXT"}
    settings = _settings(keys) | {
        "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
    }
    arguments = ["--ephemeral"]
    for name, value in settings.items():
        arguments += ["--set", f"{name}={value}"]
    with Serve(*arguments, listener=None) as broker:
        _ask(addresses["PLAINTEXT"], _users())
        yield addresses
        assert "secret" not in broker.log
        assert "Traceback" not in broker.log


def _ask(bootstrap: str, request: Any) -> Any:
    """Return the response to a request, even from a broker that has just started to listen."""

    def answer() -> Any:
        with suppress(GoneError):
            return Client(address_of(bootstrap)).ask(request, 0)

    return wait_for(answer, "an answer", SECONDS)


def _differences(
    conversations: list[Conversation], theirs: Addresses, ours: Addresses
) -> list[str]:
    differences = []
    told: list[tuple[str, Any, Any]] = []
    for one in conversations:
        expected = hold(one, theirs[one.listener])
        actual = hold(one, ours[one.listener])
        told.append((one.name, expected, actual))
        if expected != actual:
            differences.append(f"{one.listener}: {one.name}\n  {expected}\n  {actual}")
    if directory := os.environ.get("SASL_TOLD"):
        Path(directory, f"{conversations[0].listener}.txt").write_text(
            "\n".join(f"{name}: {expected}" for name, expected, _ in told)
        )
    return differences


@pytest.mark.parametrize("listener", ["USERS", "AGAIN"])
def test_a_client_is_told_the_same(listener: str, theirs: Addresses, ours: Addresses) -> None:
    """The responses, and the end of the connection, are equal for users and sessions."""
    conversations = [one for one in all_conversations() if one.listener == listener]
    differences = _differences(conversations, theirs, ours)
    assert not differences, "\n".join(differences)


@pytest.mark.real_time
@pytest.mark.parametrize("listener", ["USERS", "AGAIN"])
def test_delegation_tokens(listener: str, theirs: Addresses, ours: Addresses) -> None:
    """Logins with valid, wrong and expired delegation tokens get the same responses."""
    differences = _differences(token_conversations(listener), theirs, ours)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("listener", ["UNSECURED", "UNASKED"])
def test_unsecured_tokens(listener: str, theirs: Addresses, ours: Addresses) -> None:
    """Unsigned tokens, and their messages, get the same responses."""
    conversations = [Conversation(name, listener, talk) for name, talk in unsecured_conversations()]
    differences = _differences(conversations, theirs, ours)
    assert not differences, "\n".join(differences)


def test_signed_tokens(signer: Signer, theirs: Addresses, ours: Addresses) -> None:
    """Invalid signed tokens get the same errors."""
    differences = _differences(signer.conversations(), theirs, ours)
    assert not differences, "\n".join(differences)


def test_users_are_changed_and_described_alike(theirs: Addresses, ours: Addresses) -> None:
    """Both SCRAM credential APIs return the same codes and messages, and the same final state."""

    def put(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> Any:
        return ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=b"salt",
            salted_password=secrets.token_bytes(32),
        )

    def drop(name: str, mechanism: int = SHA_256) -> Any:
        return ScramCredentialDeletion(name=name, mechanism=mechanism)

    changes = [
        ([], []),
        ([], [put("u1"), put("u2", SHA_512, 16384)]),
        ([], [put("u1", SHA_512)]),
        ([], [put("u3"), put("u3")]),
        ([], [put("u3"), put("u3"), put("u3")]),
        ([], [put("u3"), put("u3", SHA_512), put("u4")]),
        ([drop("u1")], [put("u1")]),
        ([drop("u1"), drop("u1")], []),
        ([drop("u1"), drop("u1"), drop("u1")], [put("u1")]),
        ([drop("u1", SHA_512)], [put("u5")]),
        ([drop("u1", SHA_512), drop("u9"), drop(""), drop("u1", 3)], []),
        ([], [put(""), put("u6", 0), put("u6", 5), put("u7", iterations=4095)]),
        ([], [put("u7", iterations=16385), put("u8", iterations=0), put("u8", iterations=-1)]),
        ([drop("u2", SHA_512)], []),
    ]  # fmt: skip
    questions = [None, [], ["u1"], ["u2", "u4"], ["u9"], ["u1", "u1"], ["u1", "u9", "u1", ""]]
    for deletions, upsertions in changes:
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        assert _told(ours, request) == _told(theirs, request), to_json(request, 0)
        for users in questions:
            names = None if users is None else [ScramUserName(name=name) for name in users]
            question = DescribeUserScramCredentialsRequest(users=names)
            # Kafka's broker answers from its copy of the metadata log, which may be older than the
            # last change.
            with suppress(AssertionError):
                wait_for(partial(_is_alike, theirs, ours, question), "the same", 5)
            assert _told(ours, question) == _told(theirs, question)


def _is_alike(theirs: Addresses, ours: Addresses, question: Any) -> bool:
    return bool(_told(ours, question) == _told(theirs, question))


def _told(addresses: Addresses, request: Any) -> Any:
    response = to_json(_ask(addresses["PLAINTEXT"], request), 0)
    for result in response["results"]:
        # Kafka keeps the credentials in a HashMap, without an order.
        result.get("credentialInfos", []).sort(key=json.dumps)
    response["results"].sort(key=json.dumps)
    return response
