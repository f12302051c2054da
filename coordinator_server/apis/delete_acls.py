"""DeleteAcls: remove the ACLs that match filters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.describe_acls import acl_filter, each_match, has_unknown
from coordinator_server.events.log import LOG
from coordinator_server.security.security import log_unwritten
from coordinator_server.topics.manager import MAX_RECORDS_PER_REQUEST
from protocol.apis.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.acl import Acl
    from coordinator_server.steps import Steps
    from protocol.apis.delete_acls import DeleteAclsRequest

_TOO_MANY = f"Cannot remove more than {MAX_RECORDS_PER_REQUEST} acls in a single delete operation."


def handle(broker: Broker, call: Call, request: DeleteAclsRequest) -> Steps:
    """Respond with the removed ACLs; an ACL that matches several filters is in each result."""
    for entry in request.filters:
        if has_unknown(entry):
            call.connection.refuse("a filter has an unknown type", call.api_name, call.api_version)
            return
        yield
    authorizer = broker.security.authorizer
    if authorizer is None:
        error, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
        call.reply((yield from _failed(request, error, message)))
        return
    results: list[DeleteAclsFilterResult] = []
    matched: dict[Acl, None] = {}
    for entry in request.filters:
        wanted = acl_filter(entry)
        result = DeleteAclsFilterResult(error_message=None)
        if (problem := wanted.problem()) is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, problem
        else:
            yield from each_match(authorizer, wanted, partial(_take, result, matched))
        results.append(result)
        yield
    if len(matched) > MAX_RECORDS_PER_REQUEST:
        call.reply((yield from _failed(request, ErrorCode.INVALID_REQUEST, _TOO_MANY)))
        return
    try:
        removed = yield from broker.security.change_acls(removed=matched)
        if removed:
            LOG.emit("acls.deleted", remote=call.connection.remote, acls=removed)
    except StorageError as failure:
        log_unwritten(failure)
        call.reply((yield from _failed(request, failure.code, str(failure))))
        return
    call.reply(DeleteAclsResponse(filter_results=results))


def _failed(
    request: DeleteAclsRequest, error: ErrorCode, message: str
) -> Generator[None, None, DeleteAclsResponse]:
    """Return a response with the same error for each filter."""
    results = []
    for _ in request.filters:
        results.append(DeleteAclsFilterResult(error_code=error, error_message=message))
        yield
    return DeleteAclsResponse(filter_results=results)


def _take(result: DeleteAclsFilterResult, matched: dict[Acl, None], acl: Acl) -> None:
    """Record an ACL that matches a filter."""
    matched[acl] = None
    result.matching_acls.append(_matching(acl))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
