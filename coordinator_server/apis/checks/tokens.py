"""The rows of delegation tokens: whose tokens somebody may make and see.

Who may renew and end a token is written in the token; the authorizer is not asked.
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
