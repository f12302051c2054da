"""Control requests about quotas, ACLs and logins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.errors import ControlError, refuse_both
from coordinator_server.control.local import ask, check
from coordinator_server.security.acl import (
    SUPPORTED_OPERATIONS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    creation_problem,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

    from coordinator_server.control.request import ControlRequest


async def login(request: ControlRequest) -> dict[str, Any]:
    """POST /login: begin a session. Raises ControlError."""
    body, state = await request.shaped(), request.state
    assert state is not None
    if not state.options.requires_login:
        raise ControlError(400, "this server has no logins, see --http-login")
    return await state.logins.begin(body["user"], body["password"], request.client_host)


async def permissions(request: ControlRequest) -> dict[str, Any]:
    """GET /permissions: list the operations that the user may do on the cluster and resources."""
    names = {**request.values, "cluster": "kafka-cluster"}
    allowed: dict[str, list[str] | None] = {}
    for kind in ("cluster", "topic", "group", "transactional_id"):
        resource_type, name = ResourceType[kind.upper()], names[kind]
        allowed[kind] = None
        if name is not None:
            allowed[kind] = [
                operation.name
                for operation in sorted(SUPPORTED_OPERATIONS[resource_type])
                if request.allows(operation.name, resource_type.name, name)
            ]
    user, authorizer = request.user, request.cluster.security.authorizer
    return {
        "user": None if user is None else user.name,
        "creates_topics": user is None
        or authorizer is None
        or authorizer.allows_by_resource_type(
            user, request.client_host, Operation.CREATE, ResourceType.TOPIC
        ),
        **allowed,
    }


# --- quotas ---------------------------------------------------------------------------------------


async def quotas(request: ControlRequest) -> dict[str, Any]:
    """GET /quotas: list all quotas. Raises ControlError."""
    from protocol.apis.describe_client_quotas import DescribeClientQuotasRequest

    message = DescribeClientQuotasRequest(components=[], strict=False)
    response = await ask(request, "DescribeClientQuotas", message)
    check(response.error_code, response.error_message, "quotas")
    return {
        "quotas": [
            {
                "entity": {part.entity_type: part.entity_name for part in entry.entity},
                "quotas": {part.key: part.value for part in entry.values},
            }
            for entry in response.entries or ()
        ]
    }


async def alter_quotas(request: ControlRequest) -> dict[str, Any]:
    """PATCH /quotas: change the quotas of an entity. Raises ControlError."""
    from protocol.apis.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlteredQuotaEntity,
        AlterQuotaEntry,
        QuotaOperation,
    )

    body = await request.shaped()
    refuse_both(body.get("set", {}), body.get("unset", []))
    operations = [
        QuotaOperation(key=name, value=float(value), remove=False)
        for name, value in body.get("set", {}).items()
    ]
    operations += [
        QuotaOperation(key=name, value=0.0, remove=True) for name in body.get("unset", [])
    ]
    if not operations:
        raise ControlError(400, "set and unset are empty: there is nothing to change")
    entity = [
        AlteredQuotaEntity(entity_type=kind, entity_name=name)
        for kind, name in body["entity"].items()
    ]
    message = AlterClientQuotasRequest(entries=[AlterQuotaEntry(entity=entity, ops=operations)])
    (result,) = (await ask(request, "AlterClientQuotas", message)).entries
    check(result.error_code, result.error_message, "quotas")
    return await quotas(request)


# --- ACLs -----------------------------------------------------------------------------------------


async def acls(request: ControlRequest) -> dict[str, Any]:
    """GET /acls: list all ACLs. Raises ControlError."""
    from protocol.apis.describe_acls import DescribeAclsRequest

    response = await ask(request, "DescribeAcls", DescribeAclsRequest(**_filter({})))
    check(response.error_code, response.error_message, "ACLs")
    return {
        "acls": [
            _acl(acl, resource.resource_type, resource.resource_name, resource.pattern_type)
            for resource in response.resources
            for acl in resource.acls
        ]
    }


def _acl(entry: Any, resource_type: int, name: str, pattern_type: int) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": Operation(entry.operation).name,
        "permission": Permission(entry.permission_type).name,
        "resource_type": ResourceType(resource_type).name,
        "resource_name": name,
        "pattern_type": PatternType(pattern_type).name,
    }


async def create_acls(request: ControlRequest) -> dict[str, Any]:
    """POST /acls: create ACLs, and return them.

    No ACL is created if one of them is invalid. Raises ControlError.
    """
    from coordinator_server.apis.create_acls import acl_of
    from protocol.apis.create_acls import AclCreation, CreateAclsRequest

    wanted = (await request.shaped())["acls"]
    creations = [
        AclCreation(
            resource_type=_member(ResourceType, acl, "resource_type", ""),
            resource_name=acl["resource_name"],
            resource_pattern_type=_member(PatternType, acl, "pattern_type", "LITERAL"),
            principal=acl["principal"],
            host=acl.get("host", "*"),
            operation=_member(Operation, acl, "operation", ""),
            permission_type=_member(Permission, acl, "permission", "ALLOW"),
        )
        for acl in wanted
    ]
    for number, creation in enumerate(creations):
        problem = creation_problem(acl_of(creation))
        if problem is not None:
            raise ControlError(400, f"acls[{number}]: {problem}")
    response = await ask(request, "CreateAcls", CreateAclsRequest(creations=creations))
    for result in response.results:
        check(result.error_code, result.error_message, "ACLs")
    return {"acls": wanted}


async def delete_acls(request: ControlRequest) -> dict[str, Any]:
    """POST /acls/delete: delete the ACLs that match a filter. Raises ControlError."""
    from protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    selected = DeleteAclsFilter(**_filter(await request.shaped()))
    response = await ask(request, "DeleteAcls", DeleteAclsRequest(filters=[selected]))
    (result,) = response.filter_results
    check(result.error_code, result.error_message, "ACLs")
    return {
        "acls": [
            _acl(acl, acl.resource_type, acl.resource_name, acl.pattern_type)
            for acl in result.matching_acls
        ]
    }


def _filter(body: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a filter in Kafka's requests. Raises ControlError."""
    return {
        "resource_type_filter": _member(ResourceType, body, "resource_type", "ANY"),
        "resource_name_filter": body.get("resource_name"),
        "pattern_type_filter": _member(PatternType, body, "pattern_type", "ANY"),
        "principal_filter": body.get("principal"),
        "host_filter": body.get("host"),
        "operation": _member(Operation, body, "operation", "ANY"),
        "permission_type": _member(Permission, body, "permission", "ANY"),
    }


def _member(kind: type[IntEnum], body: Mapping[str, str], field: str, default: str) -> int:
    """Return the number of a name in a body. Raises ControlError for an unknown name."""
    name = body.get(field, default)
    if name not in kind.__members__ or name == "UNKNOWN":
        known = ", ".join(name for name in kind.__members__ if name != "UNKNOWN")
        raise ControlError(400, f"{field} is {name[:100]!r}, not one of {known}")
    return kind[name].value
