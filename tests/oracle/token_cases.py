"""Requests about delegation tokens to Kafka and to our broker, with comparable answers.

Tokens are named t0, t1, ... in the order of their creation. Times are relative to the request, and
compared in minutes if they are long.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coordinator_server.client import Client, ClientError
from coordinator_server.security.acl import Operation, PatternType, Permission, ResourceType
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from protocol.json_form import to_json
from protocol.schema import Message
from tests.oracle.token_brokers import KEY, Brokers
from tests.support import wait_for

TIMES = (
    "issueTimestampMs", "expiryTimestampMs", "maxTimestampMs",
    "issueTimestamp", "expiryTimestamp", "maxTimestamp",
)  # fmt: skip
NEAR_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LONG_MAX = 2**63 - 1

Pair = tuple[Any, Any]
"""Type and name of a principal; for an owner they may be null."""


class Asked:
    """The requests to one broker, and the answers that it gave."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.told: list[tuple[str, Any]] = []
        self.tokens: list[Any] = []
        self._clients: dict[Any, Client] = {}

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()

    def client(self, who: str) -> Client:
        """Return the client of a user, or of a listener."""
        if who not in self._clients:
            of_user = who.islower()
            client = self.brokers.client("USERS" if of_user else who, who if of_user else "")
            self._clients[who] = client
        return self._clients[who]

    def ask(self, client: Client, what: str, request: Message, version: int) -> Any:
        """Send a request; return the response, and record it in comparable form."""
        before_ms = time.time() * 1000
        try:
            response = client.ask(request, min_version=version, max_version=version)
        except ClientError as error:
            self.told.append((what, error.code.name))
            client.close()
            return None
        self.told.append((what, self._comparable(to_json(response, version), before_ms)))
        return response

    def create(
        self,
        who: str,
        *,
        owner: Pair = (None, None),
        renewers: tuple[Pair, ...] = (),
        lifetime_ms: int = -1,
        version: int = 3,
    ) -> Any:
        """Create a token, and wait until it is described."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner[0],
            owner_principal_name=owner[1],
            renewers=[CreatableRenewers(principal_type=a, principal_name=b) for a, b in renewers],
            max_lifetime_ms=lifetime_ms,
        )
        if version < 3:
            request.owner_principal_type = request.owner_principal_name = ""
        what = f"create {version} {who} {owner} {renewers} {lifetime_ms}"
        response = self.ask(self.client(who), what, request, version)
        if response is not None and not response.error_code:
            self.tokens.append(response)
            self._settled(lambda: response.token_id in self._all())
        return response

    def renew(self, who: str, token: Any, period_ms: int = -1, version: int = 2) -> Any:
        """Renew a token, given as token or HMAC, and wait until the new expiry is described."""
        given = token if isinstance(token, bytes) else token.hmac
        request = RenewDelegationTokenRequest(hmac=given, renew_period_ms=period_ms)
        what = f"renew {version} {who} {self._name(given)} {period_ms}"
        response = self.ask(self.client(who), what, request, version)
        self._change_settled(token, response)
        return response

    def expire(self, who: str, token: Any, period_ms: int = -1, version: int = 2) -> Any:
        """Expire a token, given as token or HMAC, and wait until the new expiry is described."""
        given = token if isinstance(token, bytes) else token.hmac
        request = ExpireDelegationTokenRequest(hmac=given, expiry_time_period_ms=period_ms)
        what = f"expire {version} {who} {self._name(given)} {period_ms}"
        response = self.ask(self.client(who), what, request, version)
        self._change_settled(token, response)
        return response

    def describe(self, who: str, owners: tuple[Pair, ...] | None = None, version: int = 3) -> Any:
        """Describe the tokens of `owners`; return the response."""
        request = _describe(owners)
        what = f"describe {version} {who} {owners}"
        return self.ask(self.client(who), what, request, version)

    def _change_settled(self, token: Any, response: Any) -> None:
        if response is not None and not response.error_code:
            token_id, ends_ms = token.token_id, response.expiry_timestamp_ms
            self._settled(lambda: self._all().get(token_id, ends_ms) == ends_ms)

    def _settled(self, condition: Callable[[], bool]) -> None:
        """Wait for the broker: Kafka's controller answers before its broker has the change."""
        wait_for(condition, "the broker knows", 10)

    def _all(self) -> dict[str, int]:
        tokens = self.client("admin").ask(_describe(None)).tokens
        return {one.token_id: one.expiry_timestamp for one in tokens}

    def _name(self, token_hmac: bytes) -> str:
        known = (f"t{number}" for number, one in enumerate(self.tokens) if one.hmac == token_hmac)
        return next(known, token_hmac.hex())

    def _comparable(self, answer: dict[str, Any], before_ms: float) -> dict[str, Any]:
        tokens = answer.get("tokens", [answer])
        for one in tokens:
            token_id = one.get("tokenId")
            if token_id:
                digest = hmac.new(KEY.encode(), token_id.encode(), hashlib.sha512).digest()
                numbers = {token.token_id: number for number, token in enumerate(self.tokens)}
                one["tokenId"] = f"t{numbers.get(token_id, len(numbers))}"
                one["hmac"] = "good" if _decoded(one["hmac"]) == digest else one["hmac"]
            for name in TIMES:
                if one.get(name, -1) > 0:
                    one[name] = Ahead(one[name] - before_ms)
        tokens.sort(key=_rank)  # Kafka lists tokens in the order of a hash table
        return answer


def _decoded(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text)


class Ahead(float):
    """Milliseconds since the request.

    Values of the two brokers are equal if they are close, because their processing times differ.
    """

    __hash__ = None  # type: ignore[assignment]  # unhashable, because equality is approximate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ahead) and abs(float(self) - float(other)) < NEAR_MS

    def __ne__(self, other: object) -> bool:
        return not self == other


def _rank(token: dict[str, Any]) -> str:
    """Return a sort key that is equal for both brokers, with periods in hours."""
    return str(
        {
            name: round(value / HOUR_MS) if isinstance(value, Ahead) else value
            for name, value in token.items()
        }
    )


def _describe(owners: tuple[Pair, ...] | None) -> DescribeDelegationTokenRequest:
    if owners is None:
        return DescribeDelegationTokenRequest(owners=None)
    return DescribeDelegationTokenRequest(
        owners=[DescribeDelegationTokenOwner(principal_type=a, principal_name=b) for a, b in owners]
    )


@contextmanager
def asked(brokers: Brokers) -> Iterator[Asked]:
    """Yield an `Asked` for one broker, and close its clients at the end."""
    one = Asked(brokers)
    try:
        yield one
    finally:
        one.close()


def allow(one: Asked, principal: str, operation: Operation, kind: ResourceType, name: str,
          pattern: PatternType = PatternType.LITERAL,
          permission: Permission = Permission.ALLOW) -> None:  # fmt: skip
    """Add an ACL, and wait until the broker applies it."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=permission,
            )
        ]
    )
    one.ask(one.client("admin"), f"allow {principal} {operation.name} {kind.name}", request, 3)
    time.sleep(0.3)


USER, TOKEN = ResourceType.USER, ResourceType.DELEGATION_TOKEN


def not_allowed(one: Asked) -> None:
    """Send requests on listeners that do not authenticate clients, at all versions."""
    for listener in ("PLAINTEXT", "TLS"):
        for version in (1, 2, 3):
            one.create(listener, version=version)
            one.describe(listener, version=version)
        one.create(listener, owner=("User", "bob"), renewers=(("Group", "x"),))
        for version in (1, 2):
            one.renew(listener, b"x", version=version)
            one.expire(listener, b"x", version=version)


def created(one: Asked) -> None:
    """Create tokens with valid and invalid lifetimes, renewers and owners."""
    for version in (1, 2, 3):
        one.create("alice", version=version)
        one.create("alice", version=version, renewers=(("Group", "x"),))
    one.create("MUTUAL")
    for lifetime_ms in (0, -5, 3_600_000, 2 * DAY_MS, 30 * DAY_MS, LONG_MAX):
        one.create("alice", lifetime_ms=lifetime_ms)
    bob, carol = ("User", "bob"), ("User", "carol")
    one.create("alice", renewers=(bob, carol, bob))
    one.create("alice", renewers=(("User", ""), ("User", "a:b"), ("User", "zoë")))
    one.create("alice", renewers=(bob, ("user", "x")))
    one.create("alice", renewers=(("", "x"),))
    for owner in (
        bob, ("User", "alice"), ("User", ""), ("Group", ""), (None, "bob"), (None, ""),
        ("Group", "alice"), ("User", None), ("", "bob"),
    ):  # fmt: skip
        one.create("alice", owner=owner)
        one.create("admin", owner=owner)
    one.create("alice", owner=bob, renewers=(("Group", "x"),))
    one.create("admin", owner=("A:B", "c"), renewers=(carol,))
    one.create("admin", owner=("User", "d:e"))


def authorized(one: Asked) -> None:
    """Send token requests that ACLs on users and tokens allow or deny."""
    alices = one.create("alice", renewers=(("User", "bob"),))
    bobs = one.create("admin", owner=("User", "bob"))
    everybody = (None, (), (("User", "alice"),), (("User", "alice"), ("User", "alice")),
                 (("User", "bob"),), (("User", "admin"), ("User", "nobody")),
                 (("Group", "alice"),), (("", ""),))  # fmt: skip
    for who in ("alice", "bob", "carol", "admin"):
        for owners in everybody:
            one.describe(who, owners)
    allow(one, "User:carol", Operation.DESCRIBE, TOKEN, alices.token_id)
    allow(one, "User:dave", Operation.DESCRIBE_TOKENS, USER, "User:bob")
    allow(one, "User:erin", Operation.DESCRIBE, TOKEN, "*")
    for who in ("carol", "dave", "erin"):
        for owners in everybody:
            one.describe(who, owners)
    for who in ("carol", "dave"):
        one.create(who, owner=("User", "bob"))
        one.renew(who, alices)
        one.renew(who, bobs)
    allow(one, "User:dave", Operation.CREATE_TOKENS, USER, "User:bob")
    allow(one, "User:carol", Operation.CREATE_TOKENS, USER, "User:b", PatternType.PREFIXED)
    for who in ("carol", "dave", "erin"):
        for owner in (("User", "bob"), ("User", "bill"), ("User", "alice"), (None, None)):
            one.create(who, owner=owner)
        one.describe(who)
    allow(one, "User:dave", Operation.ALL, USER, "User:bob", permission=Permission.DENY)
    one.create("dave", owner=("User", "bob"))
    one.describe("dave")


def changed(one: Asked) -> None:
    """Renew and expire tokens as different users, with different periods, and expired tokens."""
    token = one.create("alice", renewers=(("User", "bob"),), lifetime_ms=2 * DAY_MS)
    others = one.create("admin", owner=("User", "bob"))
    for version in (1, 2):
        for who in ("alice", "bob", "carol", "admin"):
            one.renew(who, token, version=version)
            one.renew(who, others, version=version)
            one.expire(who, token, 3_600_000, version=version)
        one.renew("alice", b"", version=version)
        one.renew("alice", b"x" * 64, version=version)
        one.expire("alice", b"", version=version)
        one.expire("alice", b"x" * 64, -1, version=version)
    for period_ms in (-1, -7, 0, 3_600_000, DAY_MS - 3_600_000, 5 * DAY_MS, LONG_MAX):
        one.renew("bob", token, period_ms)
    for period_ms in (3_600_000, DAY_MS, 5 * DAY_MS, LONG_MAX):
        one.expire("bob", token, period_ms)
    one.describe("alice")
    one.expire("alice", token, 0)
    time.sleep(0.05)
    for who in ("alice", "carol"):
        one.renew(who, token)
        for period_ms in (0, 1000, LONG_MAX):
            one.expire(who, token, period_ms)
    one.describe("alice")
    one.expire("carol", token, -1)
    one.expire("bob", token, -2)
    for change in (one.renew, one.expire):
        change("alice", token)
    one.describe("alice")
    one.expire("alice", others, -1)
    one.expire("bob", others, -1)


def logged_in(one: Asked) -> None:
    """Log in with a token, and send token requests, which such a client may not make."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        token = one.create("admin", owner=("User", "bob"), renewers=(("User", "alice"),))
        client = one.brokers.client_with(token, mechanism)
        one.told.append((mechanism, client.metadata([]).error_code))
        for version in (1, 2, 3):
            one.ask(client, "create", CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
            one.ask(client, "describe", _describe(None), version)
        for hmac_given in (token.hmac, b"x"):
            renew = RenewDelegationTokenRequest(hmac=hmac_given, renew_period_ms=-1)
            expire = ExpireDelegationTokenRequest(hmac=hmac_given, expiry_time_period_ms=-1)
            one.ask(client, "renew", renew, 2)
            one.ask(client, "expire", expire, 2)
        client.close()
        one.expire("bob", token)
        gone = one.brokers.client_with(token, mechanism)
        one.ask(gone, "with a token that is gone", _describe(None), 3)


def disabled(one: Asked) -> None:
    """Send requests to a broker without a secret key."""
    for version in (1, 2, 3):
        one.create("alice", version=version)
        one.describe("alice", version=version)
        one.describe("alice", (), version=version)
        one.create("PLAINTEXT", version=version)
    one.create("alice", owner=("User", "bob"))
    one.create("alice", renewers=(("Group", "x"),))
    for version in (1, 2):
        one.renew("alice", b"x", version=version)
        one.expire("alice", b"x", version=version)


def unauthorized(one: Asked) -> None:
    """Send requests to a broker without an authorizer, which removes expired tokens quickly."""
    short = one.create("alice", lifetime_ms=3000)
    one.create("alice", owner=("User", "bob"))
    one.describe("carol")
    wait_for(lambda: short.token_id not in one._all(), "it is gone", 30)
    one.describe("alice")
    one.renew("alice", short)


SCENARIOS = (not_allowed, created, authorized, changed, logged_in)
