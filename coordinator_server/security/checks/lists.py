"""Access checks of APIs that filter lists or describe groups and transactions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import Operation, ResourceType
from coordinator_server.security.checks import refusals
from coordinator_server.security.checks.check import allows_everything
from coordinator_server.security.checks.entries import Entries
from protocol.apis.consumer_group_describe import DescribedConsumerGroup
from protocol.apis.describe_groups import DescribedGroup
from protocol.apis.share_group_describe import DescribedShareGroup
from protocol.apis.streams_group_describe import DescribedStreamsGroup

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking
    from protocol.errors import ErrorCode


def list_groups(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Show all groups if the client may describe the cluster, else groups it may describe."""
    access = asking.access.unlogged
    if access.cluster(Operation.DESCRIBE):
        asking.rights.allowed = allows_everything
    else:
        asking.rights.allowed = partial(access.group, Operation.DESCRIBE)
    yield
    return True


def list_transactions(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Show the transactional ids that the client may describe."""
    allows = asking.access.allows
    asking.rights.allowed = partial(allows, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    yield
    return True


_TRANSACTIONS = Entries(
    Operation.DESCRIBE,
    ResourceType.TRANSACTIONAL_ID,
    lambda broker, entry: str(entry),
    refusals.describe_transaction,
    "transactional_ids",
)


def describe_transactions(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Describe the transactions that the client may describe, with topics that it may describe."""
    asking.rights.allowed = partial(asking.access.topic, Operation.DESCRIBE)
    return (yield from _TRANSACTIONS.serve(asking, request))


def describe_cluster(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Describe the cluster to everyone; authorized operations need DESCRIBE (`GrantedRights`)."""
    yield
    return True


class DescribedGroups:
    """Checks of the APIs that describe groups.

    The response shows a group if all topics in its description may be described. `described` is the
    class of the response to one group.
    """

    def __init__(self, described: Callable[..., Any], field: str = "group_ids") -> None:
        def refused(group_id: str, error: ErrorCode) -> Any:
            return described(group_id=group_id, error_code=error)

        self._entries = Entries(
            Operation.DESCRIBE,
            ResourceType.GROUP,
            lambda broker, entry: str(entry),
            refusals.in_one_step(refused),
            field,
        )

    def serve(self, asking: Asking, request: Any) -> Generator[None, None, bool]:
        """Check the groups of a request, see `Serve`."""
        asking.rights.allowed = partial(asking.access.topic, Operation.DESCRIBE)
        return (yield from self._entries.serve(asking, request))


GROUPS = DescribedGroups(DescribedGroup, "groups")
"""A refused group has no state, as in Kafka for every error."""

CONSUMER_GROUPS = DescribedGroups(DescribedConsumerGroup)
SHARE_GROUPS = DescribedGroups(DescribedShareGroup)
STREAMS_GROUPS = DescribedGroups(partial(DescribedStreamsGroup, topology=None))
