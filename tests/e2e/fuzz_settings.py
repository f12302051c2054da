"""Surfaces for tests/e2e/fuzz_parsers.py: parsers of settings, security state and ACLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_server.client.errors import ClientError
from coordinator_server.client.security import read_security
from coordinator_server.config.authorizer_settings import split_super_users
from coordinator_server.config.config import Config, ConfigError
from coordinator_server.security.authorizer import load_authorizer
from coordinator_server.security.credentials.jaas import JaasError, parse_jaas
from coordinator_server.security.credentials.scram_mechanisms import SHA_256
from coordinator_server.security.delegation_tokens import DelegationTokens
from coordinator_server.security.principal import user
from coordinator_server.security.quotas.client_quotas import ClientQuotas
from coordinator_server.security.sasl.users import ScramUsers, parse_users
from protocol.apis.create_acls import AclCreation, CreateAclsRequest
from protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import CHANGES_FILE, SECURITY_FILE, SecurityState
from tests.e2e.mutations import Mutator, Surface
from tests.harness.clock import ManualClock

MOST_SETTING = 65_536
"""Longer than any realistic setting."""
MOST_FILE = 262_144

_MODULES = "org.apache.kafka.common.security."


# --- settings ------------------------------------------------------------------------------------

_JAAS_WORDS = (
    " ",
    ";",
    "=",
    '"',
    "'",
    "\\",
    "\\777",
    "\n",
    "/*",
    "*/",
    "//",
    "/",
    "-",
    ".",
    "5",
    "required",
    "username",
    '="',
    '";',
    "\u00e9",
    "\xa0",
    "$",
    '\\"',
    "user_a=",
)
_JAAS_SEEDS = (
    f'{_MODULES}plain.PlainLoginModule required username="a" password="b" user_alice="x\\"y";',
    f"{_MODULES}scram.ScramLoginModule required username='a' password='b c' tokenauth=true;",
    f'{_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a"'
    ' unsecuredLoginNumberClaim_exp="5" unsecuredLoginListClaim_scope=",a,b";',
)


def jaas() -> Surface:
    """JAAS texts of the broker."""
    return Surface(
        "jaas",
        lambda mutator: mutator.sequence(_JAAS_SEEDS, _JAAS_WORDS, MOST_SETTING),
        parse_jaas,
        (JaasError,),
        2,
    )


def client_jaas() -> Surface:
    """JAAS texts of clients, and the settings read from them for each mechanism."""

    def parse(text: str) -> None:
        mechanism = "OAUTHBEARER" if "unsecuredLogin" in text else "PLAIN"
        read_security(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": text,
            }
        )

    return Surface(
        "jaas of a client",
        lambda mutator: mutator.sequence(_JAAS_SEEDS, _JAAS_WORDS, MOST_SETTING),
        parse,
        (ClientError,),
        2,
    )


def scram_users() -> Surface:
    """The setting scram.users."""
    seeds = (
        "SCRAM-SHA-256=[name=alice,password=a]",
        "SCRAM-SHA-512=[name=b,iterations=8192,password=x]y]; SCRAM-SHA-256=[name=c,password=d];",
    )
    words = (
        "]",
        "]]",
        ";",
        "[name=",
        ",",
        "=",
        " ",
        "\n",
        "iterations=",
        "9",
        "password=",
        "SCRAM-SHA-256=[",
        "SCRAM-SHA-1=[",
        "\u00e9",
    )
    return Surface(
        "scram.users",
        lambda mutator: mutator.sequence(seeds, words, MOST_SETTING),
        parse_users,
        (ConfigError,),
        2,
    )


def super_users() -> Surface:
    """The setting super.users in a complete configuration."""
    words = (";", ":", "User:", "User:a", " ", "", "\u00e9", ",", "Group:b")

    def parse(text: str) -> None:
        split_super_users(Config(overrides={"super.users": text}).text("super.users"))

    return Surface(
        "super.users",
        lambda mutator: mutator.sequence(("User:a;User:b", "User:CN=a,O=b"), words, MOST_SETTING),
        parse,
        (ConfigError,),
        0.2,
    )


# --- security state ------------------------------------------------------------------------------

_ENTRY = {
    "resource_type": "TOPIC",
    "name": "t",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
_KEPT = {
    "version": 1,
    "acls": [_ENTRY, {**_ENTRY, "pattern_type": "PREFIXED", "permission": "DENY", "name": "a"}],
    "scram_users": [
        {
            "user": "a",
            "mechanism": "SCRAM-SHA-256",
            "salt": "c2FsdA==",
            "stored_key": "YQ==",
            "server_key": "Yg==",
            "iterations": 4096,
        },
    ],
    "delegation_tokens": [
        {
            "token_id": "t",
            "owner": "User:a",
            "requester": "User:b",
            "renewers": ["User:c"],
            "issued_at_ms": 1,
            "expires_at_ms": 2,
            "max_at_ms": 3,
        },
    ],
    "quotas": [
        {"entity": {"user": "a", "client-id": None}, "quotas": {"producer_byte_rate": 5.0}},
        {
            "entity": {"ip": "localhost"},
            "quotas": {"connection_creation_rate": 5.0},
            "address": "127.0.0.1",
        },
    ],
}


def security_state() -> Surface:
    """security.json, and the users, tokens, quotas and ACLs read from it."""
    return _state_file(SECURITY_FILE, lambda mutator: mutator.json(_KEPT, MOST_FILE))


def security_changes() -> Surface:
    """security.changes, and the users, tokens, quotas and ACLs read from it."""
    changes = [
        {"section": name, "replaces": False, "drop": entries[:1], "put": entries}
        for name, entries in _KEPT.items()
        if isinstance(entries, list)
    ]

    def make(mutator: Mutator) -> str:
        lines = [mutator.json(change, MOST_FILE // len(changes)) for change in changes]
        return "\n".join([*lines, ""])

    return _state_file(CHANGES_FILE, make)


def _state_file(name: str, make: Callable[[Mutator], str]) -> Surface:
    config = Config(overrides={"delegation.token.secret.key": "key"})
    disk = MemoryDisk()
    disk.mkdir("/d")
    path = f"/d/{name}"

    def parse(text: str) -> None:
        if disk.exists(path):
            disk.unlink(path)
        file = disk.open(path, create=True)
        file.append([text.encode("utf-8", "surrogatepass")])
        file.close()
        state = SecurityState(disk, "/d")
        users = ScramUsers(state)
        tokens = DelegationTokens(config, state, ManualClock(), ManualClock())
        quotas = ClientQuotas(state)
        authorizer = load_authorizer(config, state.section("acls"))
        users.credential(SHA_256, "a")
        tokens.remove_expired()
        quotas.limits("producer_byte_rate")
        quotas.of_addresses()
        for acl in authorizer.acls:
            for name in (acl.name, f"{acl.name}x", "*"):
                authorizer.allows(user("a"), "1.2.3.4", acl.operation, acl.resource_type, name)

    return Surface(name, make, parse, (StorageError,), 1.5)


def _acl_requests() -> tuple[CreateAclsRequest, DeleteAclsRequest]:
    """Return valid requests."""
    create = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal="User:a",
                host="*",
                operation=3,
                permission_type=3,
            )
            for kind, name, pattern in ((2, "t", 3), (3, "gro", 4), (4, "kafka-cluster", 3))
        ]
    )
    delete = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=kind,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=None,
                host_filter="*",
                operation=1,
                permission_type=1,
            )
            for kind, name, pattern in ((1, None, 1), (2, "topic", 2), (3, "g", 4))
        ]
    )
    return create, delete


def acl_requests() -> Surface:
    """CreateAcls, DescribeAcls and DeleteAcls with numbers, names and filters of every kind."""
    from coordinator_server.apis.create_acls import acl_of
    from coordinator_server.apis.describe_acls import acl_filter
    from coordinator_server.security.acl import cannot_be, creation_problem
    from coordinator_server.security.authorizer import Authorizer
    from protocol.codec import decoder, encoder
    from protocol.errors import ProtocolError

    create, delete = _acl_requests()
    seeds = [
        ((type(one), version), encoder(type(one), version)(one))
        for one in (create, delete)
        for version in (1, 2, 3)
    ]
    words = (
        b"\0",
        b"\1",
        b"\2",
        b"\3",
        b"\xff",
        b"\0\1",
        b"\xff\xff",
        b"User:a",
        b"*",
        b"t",
        b"\x80",
    )
    authorizer = Authorizer()

    def make(mutator: Mutator) -> tuple[type, int, bytes]:
        (kind, version), body = mutator.random.choice(seeds)
        if mutator.random.random() < 0.6:
            body = mutator.bits(body)
        else:
            body = mutator.sequence((body,), words, MOST_SETTING)
        return kind, version, body

    def parse(value: tuple[Any, int, bytes]) -> None:
        kind, version, body = value
        request, _ = decoder(kind, version)(body, 0)
        if kind is CreateAclsRequest:
            acls = [acl_of(one) for one in request.creations]
            good = [acl for acl in acls if not cannot_be(acl) and creation_problem(acl) is None]
            authorizer.change(added=good)
            for acl in good:
                authorizer.operations(user("a"), "/1.2.3.4", acl.resource_type, acl.name)
                authorizer.allows_by_resource_type(user("a"), "*", acl.operation, acl.resource_type)
        else:
            for one in map(acl_filter, request.filters):
                if one.problem() is None:
                    found = [acl for acl in authorizer.acls if one.matches(acl)]
                    authorizer.change(removed=found)
        if len(authorizer) > 100:
            authorizer.clear()

    return Surface("acl requests", make, parse, (ProtocolError,), 2)
