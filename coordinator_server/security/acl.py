"""Access control lists (ACLs) and ACL filters.

Source: org.apache.kafka.common.acl and .resource (enum values are those of the protocol), AclEntry
for the operations of each resource type, AclControlManager and AclApis for the validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from protocol.errors import ErrorCode

WILDCARD = "*"
"""The literal resource name, or the host, that matches all."""
ANY_USER = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""


class ResourceType(IntEnum):
    """The type of resource that an ACL applies to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's resource name is matched; ANY and MATCH are only for filters (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The effect of an ACL: allow or deny."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations of each resource type: the bits of the authorized-operations fields (KIP-430)."""

E = TypeVar("E", bound=IntEnum)


def from_code(kind: type[E], code: int) -> E:
    """Return the enum member for a protocol code; UNKNOWN for an unknown code."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


class Acl(NamedTuple):
    """One access control entry with its resource pattern (AclBinding)."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def to_entry(self) -> dict[str, str]:
        """Return the form that is written to security.json, with names in place of codes."""
        return {
            "resource_type": self.resource_type.name,
            "name": self.name,
            "pattern_type": self.pattern_type.name,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.name,
            "permission": self.permission.name,
        }

    @classmethod
    def from_entry(cls, entry: Mapping[str, str]) -> Acl:
        """Return the ACL of a `to_entry` result.

        Raises KeyError or TypeError if the entry is invalid.
        """
        if not all(isinstance(text, str) for text in entry.values()):
            raise TypeError("a field is no text")
        return cls(
            ResourceType[entry["resource_type"]],
            entry["name"],
            PatternType[entry["pattern_type"]],
            entry["principal"],
            entry["host"],
            Operation[entry["operation"]],
            Permission[entry["permission"]],
        )


class AclFilter(NamedTuple):
    """A filter for ACLs; None and ANY match everything (AclBindingFilter)."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches an ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        """Return whether the name matches; MATCH finds all ACLs that apply to the name."""
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)

    def problem(self) -> str | None:
        """Return Kafka's message if the filter is invalid (INVALID_REQUEST), or None."""
        if not self.resource_type or not self.pattern_type:
            return "Unknown patternFilter."
        if not self.operation or not self.permission:
            return "Unknown entryFilter."
        return None


def cannot_be(acl: Acl) -> bool:
    """Return whether Kafka's constructors reject an ACL, which fails the whole request."""
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is Operation.ANY
        or acl.permission is Permission.ANY
    )


def creation_problem(acl: Acl) -> str | None:
    """Return Kafka's message if an ACL is invalid (INVALID_REQUEST), or None."""
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    for field, value in (
        ("resourceType", acl.resource_type),
        ("patternType", acl.pattern_type),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if not value:
            return f"Invalid {field} {value.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return None


AUTHORIZATION_FAILED: dict[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code for a denied operation, by resource type."""
