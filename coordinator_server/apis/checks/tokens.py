"""The rows of delegation tokens: who may create and see tokens.

The token itself lists who may renew and expire it; the authorizer is not involved.
"""

from __future__ import annotations

from coordinator_server.apis.checks.check import AccessCheck, Row
from coordinator_server.security.acl import Operation, ResourceType

ROWS = {
    "CreateDelegationToken": Row(
        checks=(
            AccessCheck(
                Operation.CREATE_TOKENS, ResourceType.USER, "the owner, if that is another"
            ),
        ),
        in_handler=True,
    ),
    "RenewDelegationToken": Row(),
    "ExpireDelegationToken": Row(),
    "DescribeDelegationToken": Row(
        checks=(
            AccessCheck(
                Operation.DESCRIBE,
                ResourceType.DELEGATION_TOKEN,
                "each token of others",
                "DESCRIBE_TOKENS is asked",
            ),
            AccessCheck(Operation.DESCRIBE_TOKENS, ResourceType.USER, "its owner", "left out"),
        ),
        in_handler=True,
    ),
}
