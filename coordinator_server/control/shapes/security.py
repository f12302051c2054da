"""Quotas, ACLs and logins."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict


class Quota(TypedDict):
    """The quotas of an entity. A null name means the default; a missing type means any name."""

    entity: Annotated[dict[str, str | None], "names by type: user, client-id, ip"]
    quotas: Annotated[dict[str, float], "values by quota, such as producer_byte_rate"]


class Quotas(TypedDict):
    """All quotas."""

    quotas: Annotated[list[Quota], "the quotas"]


class QuotaChange(TypedDict):
    """A change of the quotas of one entity."""

    entity: Annotated[dict[str, str | None], "names by type: user, client-id, ip"]
    set: NotRequired[Annotated[dict[str, float], "new values by quota"]]
    unset: NotRequired[Annotated[list[str], "quotas to remove"]]


class Acl(TypedDict):
    """An access control entry."""

    principal: Annotated[str, "principal, such as User:alice"]
    host: NotRequired[Annotated[str, "address of the client, * (default) for any"]]
    operation: Annotated[str, "operation, such as READ"]
    permission: NotRequired[Annotated[str, "ALLOW (default) or DENY"]]
    resource_type: Annotated[str, "TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER"]
    resource_name: Annotated[str, "name of the resource; kafka-cluster for the cluster"]
    pattern_type: NotRequired[Annotated[str, "LITERAL (default) or PREFIXED"]]


class Acls(TypedDict):
    """A list of ACLs."""

    acls: Annotated[list[Acl], "the ACLs"]


class AclFilter(TypedDict):
    """Selects ACLs; a missing field matches any value."""

    principal: NotRequired[Annotated[str, "principal"]]
    host: NotRequired[Annotated[str, "address"]]
    operation: NotRequired[Annotated[str, "operation"]]
    permission: NotRequired[Annotated[str, "ALLOW or DENY"]]
    resource_type: NotRequired[Annotated[str, "resource type"]]
    resource_name: NotRequired[Annotated[str, "name of the resource"]]
    pattern_type: NotRequired[Annotated[str, "LITERAL, PREFIXED, MATCH or ANY"]]


class Permissions(TypedDict):
    """The operations that the requesting user may do. Without an authorizer, all are allowed."""

    user: Annotated[str | None, "the user, null without a login"]
    creates_topics: Annotated[bool, "whether the user may create topics of at least one name"]
    cluster: Annotated[list[str], "operations on the cluster"]
    topic: Annotated[list[str] | None, "operations on the topic, null without the parameter"]
    group: Annotated[list[str] | None, "operations on the group, null without the parameter"]
    transactional_id: Annotated[
        list[str] | None, "operations on the transactional id, null without the parameter"
    ]


class Login(TypedDict):
    """The name and password of a SCRAM or PLAIN user of the broker."""

    user: Annotated[str, "name"]
    password: Annotated[str, "password"]


class Session(TypedDict):
    """A login session. Send its token with each request as `Authorization: Bearer TOKEN`."""

    user: Annotated[str, "name"]
    token: Annotated[str, "session token"]
    expires_at_ms: Annotated[int, "when the session ends, by the machine's clock"]
