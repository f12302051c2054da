"""Random sets of ACLs, and requests to check."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.authorizer import Authorizer
from coordinator_server.security.principal import Principal

TYPES = [one for one in ResourceType if one > ResourceType.ANY]
OPERATIONS = [one for one in Operation if one > Operation.ANY]
PRINCIPALS = ("User:alice", "User:bob", "User:ANONYMOUS", "Group:alice")
HOSTS = ("127.0.0.1", "10.0.0.7")
NAMES = ("a", "ab", "abc", "b", "ba", "*", "*a", "hardcode", "", "é")


class Question(NamedTuple):
    """A principal at a host, and an operation on a resource; None is any resource of the type."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str | None


class World(NamedTuple):
    """An authorizer's settings and ACLs, and requests to check."""

    super_users: str
    allows_everyone_without_acl: bool
    acls: list[Acl]
    questions: list[Question]

    def answers(self) -> str:
        """Return our decisions, as 0 and 1."""
        authorizer = Authorizer(
            filter(None, self.super_users.split(";")),
            allows_everyone_without_acl=self.allows_everyone_without_acl,
            acls=self.acls,
        )
        return "".join(str(int(_answer(authorizer, question))) for question in self.questions)


def _answer(authorizer: Authorizer, question: Question) -> bool:
    principal = Principal(*question.principal.split(":"))
    host, operation, resource_type, name = question[1:]
    if name is None:
        return authorizer.allows_by_resource_type(principal, host, operation, resource_type)
    return authorizer.allows(principal, host, operation, resource_type, name)


def worlds(seed: int, count: int) -> Iterator[World]:
    """Yield random worlds with few names and principals, so that ACLs overlap."""
    random = Random(seed)
    for _ in range(count):
        types = random.sample(TYPES, random.randint(1, 3))
        operations = random.sample(OPERATIONS, random.randint(2, 6))
        asked = [one for one in operations if one is not Operation.ALL] or OPERATIONS[1:]
        acls = [_acl(random, types, operations) for _ in range(random.randint(0, 14))]
        questions = [
            Question(
                random.choice(PRINCIPALS),
                random.choice(HOSTS),
                random.choice(asked),
                random.choice(types),
                None if random.random() < 0.2 else random.choice(NAMES),
            )
            for _ in range(30)
        ]
        super_users = random.choice(("", "", "User:bob", "Group:alice;User:ANONYMOUS"))
        yield World(super_users, random.random() < 0.3, list(dict.fromkeys(acls)), questions)


def _acl(random: Random, types: list[ResourceType], operations: list[Operation]) -> Acl:
    return Acl(
        random.choice(types),
        random.choice([name for name in NAMES if name]),
        random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice((*PRINCIPALS, "User:*")),
        random.choice(("*", *HOSTS)),
        random.choice((Operation.ALL, *operations)),
        random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )
