"""The rows of delegation tokens: who may create and see tokens.

The token itself lists who may renew and expire it; the authorizer is not involved.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import Operation, ResourceType
from coordinator_server.security.checks.check import AccessCheck, Row

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking


def _create(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Let the handler ask about the owner of the token, if the client names another user."""
    allows = asking.access.allows
    asking.rights.allowed = partial(allows, Operation.CREATE_TOKENS, ResourceType.USER)
    yield
    return True


def _describe(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Let the handler ask about each token and its owner."""
    allows = asking.access.allows

    def may_see(token_id: str, owner: str) -> bool:
        return allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id) or allows(
            Operation.DESCRIBE_TOKENS, ResourceType.USER, owner
        )

    asking.rights.allowed = may_see
    yield
    return True


ROWS = {
    "CreateDelegationToken": Row(
        checks=(
            AccessCheck(
                Operation.CREATE_TOKENS, ResourceType.USER, "the owner, if that is another"
            ),
        ),
        serve=_create,
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
        serve=_describe,
    ),
}
