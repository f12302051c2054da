"""The delegation token APIs: allowed clients, responses, and authorization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator_server.apis.create_delegation_token import handle as create
from coordinator_server.apis.describe_delegation_token import handle as describe
from coordinator_server.apis.expire_delegation_token import handle as expire
from coordinator_server.apis.renew_delegation_token import handle as renew
from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.delegation_tokens import MOST_TOKEN_BYTES
from coordinator_server.security.principal import ANONYMOUS, Principal, user
from coordinator_server.steps import run_all
from protocol.apis.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from protocol.errors import ErrorCode
from protocol.schema import Message
from storage.errors import StorageError
from tests.harness.broker import MemoryBroker
from tests.harness.client import Client
from tests.harness.clock import START_MS

KEYED = {"delegation.token.secret.key": "a key"}
AUTHORIZED = {"authorizer.class.name": AUTHORIZER_CLASS, "super.users": "User:admin"}
PROTOCOLS = "USERS:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,PLAINTEXT:PLAINTEXT"
DAY_MS = 86_400_000
ALICE, BOB = user("alice"), user("bob")


class TokenBroker(MemoryBroker):
    """A broker with listeners of every kind."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        names = ",".join(f"{name}://127.0.0.1:{port}" for port, name in enumerate(
            ("USERS", "TLS", "BOTH", "PLAINTEXT"), 9092))  # fmt: skip
        super().__init__(listeners=names, listener_security_protocol_map=PROTOCOLS, **settings)

    def ask_as(
        self,
        request: Message,
        principal: Principal = ALICE,
        *,
        listener: str = "USERS",
        has_token: bool = False,
        version: int = 2,
    ) -> Any:
        """Return the response to a client with this principal."""
        client = Client(principal, listener_name=listener, has_token=has_token)
        return self.ask(request, version, client=client)

    def create(self, principal: Principal = ALICE, **fields: Any) -> Any:
        """Create a token; return the response."""
        fields = {"max_lifetime_ms": -1, "owner_principal_name": None, **fields}
        request = CreateDelegationTokenRequest(**fields)
        return self.ask_as(request, principal, version=3)

    def described(self, principal: Principal, *owners: Principal) -> list[str]:
        """Return the token ids that a principal sees, of some owners or of all."""
        asked = [
            DescribeDelegationTokenOwner(principal_type=one.principal_type, principal_name=one.name)
            for one in owners
        ]
        request = DescribeDelegationTokenRequest(owners=asked or None)
        answer = self.ask_as(request, principal, version=3)
        assert not answer.error_code
        return [one.token_id for one in answer.tokens]

    def allow(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
        """Add an ACL."""
        literal, allow = PatternType.LITERAL, Permission.ALLOW
        acl = Acl(kind, name, literal, principal, "*", operation, allow)
        run_all(self.security.change_acls(added=[acl]))


REQUESTS = [
    (create, CreateDelegationTokenRequest(max_lifetime_ms=-1)),
    (renew, RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)),
    (expire, ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)),
    (describe, DescribeDelegationTokenRequest(owners=None)),
]


@pytest.mark.parametrize(("handle", "request_"), REQUESTS)
@pytest.mark.parametrize(
    ("listener", "principal", "has_token", "is_allowed"),
    [
        ("PLAINTEXT", ANONYMOUS, False, False),
        ("TLS", ANONYMOUS, False, False),
        ("TLS", ALICE, False, True),
        ("USERS", ALICE, False, True),
        ("BOTH", ALICE, False, True),
        ("USERS", ANONYMOUS, False, True),
        ("USERS", ALICE, True, False),
    ],
)
def test_who_may_ask(
    handle: Any, request_: Any, listener: str, principal: Principal, has_token: bool,
    is_allowed: bool,
) -> None:  # fmt: skip
    """Only clients authenticated by name or certificate, not by a token, may use token APIs."""
    broker = TokenBroker(KEYED)
    answer = broker.ask_as(request_, principal, listener=listener, has_token=has_token)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.error_code != refused) is is_allowed
    if not is_allowed:
        names = [one.name for one in type(answer).FIELDS if "timestamp_ms" in one.name]
        assert {getattr(answer, name) for name in names} == ({-1} if handle != describe else set())


def test_a_token_is_made() -> None:
    """A created token is returned with all fields; the requester is returned since version 3."""
    broker = TokenBroker(KEYED)
    bob = CreatableRenewers(principal_type="User", principal_name="bob")
    made = broker.create(owner_principal_type="User", owner_principal_name="carol", renewers=[bob])
    assert (made.error_code, len(made.token_id), len(made.hmac)) == (0, 22, 64)
    assert made.hmac == broker.security.tokens.hmac(made.token_id)
    assert (made.principal_type, made.principal_name) == ("User", "carol")
    requester = made.token_requester_principal_type, made.token_requester_principal_name
    assert requester == ("User", "alice")
    assert made.issue_timestamp_ms == START_MS
    assert made.expiry_timestamp_ms == START_MS + DAY_MS
    assert made.max_timestamp_ms == START_MS + 7 * DAY_MS
    (shown,) = broker.ask_as(DescribeDelegationTokenRequest(owners=None), version=3).tokens
    assert (shown.token_id, shown.hmac) == (made.token_id, made.hmac)
    assert (shown.principal_name, shown.token_requester_principal_name) == ("carol", "alice")
    assert [(one.principal_type, one.principal_name) for one in shown.renewers] == [("User", "bob")]
    times = shown.issue_timestamp, shown.expiry_timestamp, shown.max_timestamp
    assert times == (START_MS, START_MS + DAY_MS, START_MS + 7 * DAY_MS)


def test_what_is_no_owner_or_renewer() -> None:
    """A renewer must be a user; an owner without a type fails the request, as in Kafka."""
    broker = TokenBroker(KEYED)
    group = CreatableRenewers(principal_type="Group", principal_name="x")
    refused = broker.create(renewers=[group])
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refused.max_timestamp_ms == -1
    refused = broker.create(owner_principal_name="bob", owner_principal_type=None)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert refused.principal_name == "ANONYMOUS"
    assert broker.described(ALICE) == []


@pytest.mark.parametrize("length", [1, 100])
def test_very_many_renewers(length: int) -> None:
    """CreateDelegationToken with very many renewers is refused, even with short names."""
    broker = TokenBroker(KEYED)
    one = CreatableRenewers(principal_type="User", principal_name="x" * length)
    answer = broker.create(renewers=[one] * (MOST_TOKEN_BYTES // length))
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert answer.max_timestamp_ms in (-1, 0)


def test_a_token_is_renewed_and_ended() -> None:
    """Renew and expire return the new expiry time of the token."""
    broker = TokenBroker(KEYED)
    made = broker.create()
    request = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=5000)
    answer = broker.ask_as(request)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, START_MS + 5000)
    answer = broker.ask_as(request, BOB)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert answer.expiry_timestamp_ms == 0
    end = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    answer = broker.ask_as(end)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, START_MS)
    assert broker.described(ALICE) == []


@pytest.mark.parametrize(("handle", "request_"), REQUESTS)
def test_without_a_key(handle: Any, request_: Any) -> None:
    """Without a secret key every token request gets DELEGATION_TOKEN_AUTH_DISABLED."""
    answer = TokenBroker({}).ask_as(request_)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions(version: int) -> None:
    """In versions 1 and 2 of CreateDelegationToken the requester becomes the owner."""
    broker = TokenBroker(KEYED)
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    assert broker.ask_as(request, version=version).principal_name == "alice"


def test_whose_tokens_may_be_made() -> None:
    """Users may create tokens for themselves; for other users they need CREATE_TOKENS."""
    broker = TokenBroker({**KEYED, **AUTHORIZED})
    bobs: Any = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert not broker.create(owner_principal_type="User", owner_principal_name="alice").error_code
    refused = broker.create(**bobs)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.max_timestamp_ms) == ("bob", -1)
    assert not broker.create(user("admin"), **bobs).error_code
    broker.allow("User:alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    assert not broker.create(**bobs).error_code
    others: Any = {"owner_principal_type": "Group", "owner_principal_name": "bob"}
    assert broker.create(**others).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_whose_tokens_are_seen() -> None:
    """Users see tokens that they own, requested or may renew.

    Other tokens need DESCRIBE on the token, or DESCRIBE_TOKENS on the owner.
    """
    broker = TokenBroker({**KEYED, **AUTHORIZED})
    bob = CreatableRenewers(principal_type="User", principal_name="bob")
    alices = broker.create(renewers=[bob]).token_id
    carols = broker.create(
        user("admin"), owner_principal_type="User", owner_principal_name="carol"
    ).token_id
    assert broker.described(ALICE) == [alices]
    assert broker.described(BOB) == [alices]
    assert broker.described(user("carol")) == [carols]
    assert broker.described(user("admin")) == [alices, carols]
    assert broker.described(user("admin"), BOB) == [alices]
    assert broker.described(user("admin"), ALICE, ALICE, user("carol")) == [alices, carols]
    assert broker.described(user("admin"), Principal("Group", "alice")) == []
    assert broker.described(user("dave")) == []
    broker.allow("User:dave", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, alices)
    assert broker.described(user("dave")) == [alices]
    assert broker.described(user("dave"), user("carol")) == []
    broker.allow("User:dave", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
    assert broker.described(user("dave")) == [alices, carols]
    nobodys = broker.ask_as(DescribeDelegationTokenRequest(owners=[]), user("admin"))
    assert (nobodys.error_code, nobodys.tokens) == (0, [])


def test_a_disk_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write error is returned to the client, and the tokens stay unchanged."""
    broker = TokenBroker(KEYED)
    made = broker.create()

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(broker.security.state, "change", fails)
    assert broker.create().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    request = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=5000)
    answer = broker.ask_as(request)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert broker.described(ALICE) == [made.token_id]
