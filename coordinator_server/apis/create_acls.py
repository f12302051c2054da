"""CreateAcls: add ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    cannot_be,
    creation_problem,
    from_code,
)
from coordinator_server.security.security import log_unwritten
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from protocol.apis.create_acls import AclCreationResult, CreateAclsResponse
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.create_acls import AclCreation, CreateAclsRequest

_TOO_MANY = "Unable to perform excessively large batch operation."


def handle(broker: Broker, call: Call, request: CreateAclsRequest) -> Steps:
    """Add the valid ACLs; an ACL that already exists counts as success."""
    for creation in request.creations:
        if not (
            creation.resource_type
            and creation.resource_pattern_type
            and creation.operation
            and creation.permission_type
        ):
            # Kafka treats a request with the code UNKNOWN as malformed.
            call.connection.refuse("an ACL of an unknown type", call.api_name, call.api_version)
            return
        yield
    if broker.security.authorizer is None:
        error = ErrorCode.SECURITY_DISABLED
        yield from _refuse(call, request, error, "No Authorizer is configured.")
        return
    valid: dict[Acl, None] = {}
    results = []
    for creation in request.creations:
        acl = acl_of(creation)
        if cannot_be(acl):
            yield from _refuse(call, request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            return
        problem = creation_problem(acl)
        if problem is None:
            if acl not in broker.security.authorizer:
                valid[acl] = None
            results.append(AclCreationResult())
        else:
            results.append(
                AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
            )
        yield
    if len(valid) > MAX_RECORDS_PER_REQUEST:
        yield from _refuse_valid(results, ErrorCode.UNKNOWN_SERVER_ERROR, _TOO_MANY)
    elif valid:
        try:
            added = yield from broker.security.change_acls(added=valid)
        except StorageError as failure:
            log_unwritten(failure)
            yield from _refuse_valid(results, failure.code, str(failure))
        else:
            LOG.emit("acls.created", remote=call.connection.remote, acls=added)
    call.reply(CreateAclsResponse(results=results))


def acl_of(creation: AclCreation) -> Acl:
    """Return the ACL that a creation entry describes."""
    return Acl(
        from_code(ResourceType, creation.resource_type),
        creation.resource_name,
        from_code(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        from_code(Operation, creation.operation),
        from_code(Permission, creation.permission_type),
    )


def _refuse(call: Call, request: CreateAclsRequest, error: ErrorCode, message: str | None) -> Steps:
    """Send the same error for each ACL."""
    results = []
    for _ in request.creations:
        results.append(AclCreationResult(error_code=error, error_message=message))
        yield
    call.reply(CreateAclsResponse(results=results))


def _refuse_valid(results: list[AclCreationResult], error: ErrorCode, message: str) -> Steps:
    for result in results:
        if not result.error_code:
            result.error_code, result.error_message = error, message
        yield
