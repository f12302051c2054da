"""Access checks of APIs that filter lists or describe groups and transactions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from coordinator_server.apis.checks import refusals
from coordinator_server.apis.checks.entries import Entries, Place, changed
from coordinator_server.security.acl import Operation, ResourceType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.apis.checks.check import Asking
    from coordinator_server.security.access import Access

_DESCRIBES_TOPICS = (
    "The group has described topic(s) that the client is not authorized to describe."
)
_USES_TOPICS = "The described group uses topics that the client is not authorized to describe."


def list_groups(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave all groups with DESCRIBE on the cluster, else those that may be described."""
    access = asking.access.unlogged
    if not access.cluster(Operation.DESCRIBE):
        asking.call.amend = lambda response: _only(
            response, "groups", lambda one: access.group(Operation.DESCRIBE, one.group_id)
        )
    yield
    return True


def list_transactions(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave the transactional ids that may be described."""
    access, resource_type = asking.access, ResourceType.TRANSACTIONAL_ID
    asking.call.amend = lambda response: _only(
        response,
        "transaction_states",
        lambda one: access.allows(Operation.DESCRIBE, resource_type, one.transactional_id),
    )
    yield
    return True


def _only(response: Any, field: str, passes: Callable[[Any], bool]) -> Generator[None, None, Any]:
    """Return a response with only the entries that pass."""
    kept = []
    for one in getattr(response, field):
        if passes(one):
            kept.append(one)
        yield
    return changed(response, **{field: kept})


_TRANSACTIONS = Entries(
    Operation.DESCRIBE,
    ResourceType.TRANSACTIONAL_ID,
    lambda broker, one: str(one),
    refusals.describe_transaction,
    "transactional_ids",
    "transaction_states",
    Place.AS_ASKED,
)


def describe_transactions(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Leave the transactions and their topics that may be described."""
    access = asking.access
    yield from _TRANSACTIONS.serve(asking, request)
    merge = asking.call.amend

    def may_describe(topic: Any) -> bool:
        return access.topic(Operation.DESCRIBE, topic.topic)

    def amend(response: Any) -> Generator[None, None, Any]:
        states = []
        for one in response.transaction_states:
            states.append((yield from _only(one, "topics", may_describe)))
        response = changed(response, transaction_states=states)
        return response if merge is None else (yield from merge(response))

    asking.call.amend = amend
    return True


def describe_cluster(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Describe the cluster to everyone; authorized operations need DESCRIBE."""
    access = asking.access

    def amend(response: Any) -> Generator[None, None, Any]:
        yield
        if response.error_code:
            return response
        return changed(response, cluster_authorized_operations=access.cluster_operations())

    if request.include_cluster_authorized_operations:
        asking.call.amend = amend
    yield
    return True


class DescribedGroups:
    """Checks of the APIs that describe groups; refused groups come first.

    `topics(group)` yields the topics in a description. If the client may not describe all of them,
    the group is hidden with the message `text`.
    """

    def __init__(
        self,
        refused: Callable[[str, ErrorCode], Any],
        field: str = "group_ids",
        topics: Callable[[Any], Iterable[str]] = lambda group: (),
        text: str = _DESCRIBES_TOPICS,
    ) -> None:
        self.entries = Entries(
            Operation.DESCRIBE,
            ResourceType.GROUP,
            lambda broker, one: str(one),
            refusals.in_one_step(refused),
            field,
            "groups",
            Place.FIRST,
        )
        self._refused = refused
        self._topics = topics
        self._text = text

    def serve(self, asking: Asking, request: Any) -> Generator[None, None, bool]:
        """Check the groups of a request, see `Serve`."""
        yield from self.entries.serve(asking, request)
        access, merge = asking.access, asking.call.amend
        shows_operations = request.include_authorized_operations

        def amend(response: Any) -> Generator[None, None, Any]:
            groups = []
            for group in response.groups:
                if shows_operations and not group.error_code:
                    operations = access.operations(ResourceType.GROUP, group.group_id)
                    group = changed(group, authorized_operations=operations)
                groups.append((yield from self._shown(access, group)))
            response = changed(response, groups=groups)
            return response if merge is None else (yield from merge(response))

        asking.call.amend = amend
        return True

    def _shown(self, access: Access, group: Any) -> Generator[None, None, Any]:
        """Return the description as this client may see it."""
        for topic in self._topics(group):
            if not access.topic(Operation.DESCRIBE, topic):
                hidden = self._refused(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                hidden.error_message = self._text
                return hidden
            yield
        return group


def _assigned(group: Any) -> Iterator[str]:
    """Yield the topics in the assignments of a consumer or share group."""
    for member in group.members:
        for one in member.assignment.topic_partitions:
            yield one.topic_name


def _assigned_and_targeted(group: Any) -> Iterator[str]:
    yield from _assigned(group)
    for member in group.members:
        for one in member.target_assignment.topic_partitions:
            yield one.topic_name


def _of_topology(group: Any) -> Iterator[str]:
    if group.topology is not None:
        yield from topology_topics(group.topology.subtopologies or ())


def topology_topics(subtopologies: Iterable[Any]) -> Iterator[str]:
    """Yield all topics of a streams application."""
    for one in subtopologies:
        yield from one.source_topics
        yield from one.repartition_sink_topics
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            yield topic.name


GROUPS = DescribedGroups(refusals.describe_group, "groups")
CONSUMER_GROUPS = DescribedGroups(refusals.describe_consumer_group, topics=_assigned_and_targeted)
SHARE_GROUPS = DescribedGroups(refusals.describe_share_group, topics=_assigned)
STREAMS_GROUPS = DescribedGroups(
    refusals.describe_streams_group, topics=_of_topology, text=_USES_TOPICS
)
