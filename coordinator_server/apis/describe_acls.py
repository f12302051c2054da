"""DescribeAcls: list the ACLs that match a filter, by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.security.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    from_code,
)
from protocol.apis.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.acl import Acl
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.steps import Steps
    from protocol.apis.delete_acls import DeleteAclsFilter
    from protocol.apis.describe_acls import DescribeAclsRequest

_STEP_ACLS = 2000


def handle(broker: Broker, call: Call, request: DescribeAclsRequest) -> Steps:
    """Respond with the ACLs, or SECURITY_DISABLED without an authorizer."""
    if has_unknown(request):
        call.connection.refuse("the filter has an unknown type", call.api_name, call.api_version)
        return
    authorizer = broker.security.authorizer
    if authorizer is None:
        call.reply(
            DescribeAclsResponse(
                error_code=ErrorCode.SECURITY_DISABLED,
                error_message="No Authorizer is configured on the broker",
            )
        )
        return
    wanted = acl_filter(request)
    by_pattern: dict[tuple[int, str, int], DescribeAclsResource] = {}

    def describe(acl: Acl) -> None:
        key = acl.resource_type, acl.name, acl.pattern_type
        resource = by_pattern.get(key)
        if resource is None:
            resource = by_pattern[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )

    yield from each_match(authorizer, wanted, describe)
    call.reply(DescribeAclsResponse(resources=list(by_pattern.values())))


def each_match(authorizer: Authorizer, wanted: AclFilter, take: Callable[[Acl], None]) -> Steps:
    """Call `take` with each ACL that matches a filter, oldest first, in steps."""
    for number, acl in enumerate(authorizer.acls, start=1):
        if wanted.matches(acl):
            take(acl)
        if not number % _STEP_ACLS:
            yield


def has_unknown(request: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    """Return whether a filter contains code UNKNOWN, which Kafka treats as a malformed request."""
    return not (
        request.resource_type_filter
        and request.pattern_type_filter
        and request.operation
        and request.permission_type
    )


def acl_filter(request: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        from_code(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        from_code(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        from_code(Operation, request.operation),
        from_code(Permission, request.permission_type),
    )
