"""The range assignor: each member gets consecutive partitions of each subscribed topic.

If members subscribe to the same topics with the same partition count, each member gets the same
partition numbers of all topics, as joins of these topics require. Static members come first,
sorted by instance id, so that a static member with a new member id gets the same partitions.
Source: RangeAssignor.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec, MemberSpec

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


def assign(spec: GroupSpec) -> Computation[Assignment]:
    """Return the assignment, which does not depend on the current assignment."""
    pace = Pace()
    readers: Counter[bytes] = Counter()
    for member in spec.members.values():
        readers.update(member.topic_ids)
        if pace.is_due(len(member.topic_ids)):
            yield
    quotas = {
        topic_id: divmod(spec.partition_counts[topic_id], count)
        for topic_id, count in readers.items()
    }
    starts = dict.fromkeys(quotas, 0)
    served = dict.fromkeys(quotas, 0)
    assignment = {}
    for member_id, member in sorted(spec.members.items(), key=_order):
        partitions = {}
        for topic_id in member.topic_ids:
            quota, extra = quotas[topic_id]
            start = starts[topic_id]
            end = start + quota + (served[topic_id] < extra)
            starts[topic_id] = end
            served[topic_id] += 1
            if start < end:
                partitions[topic_id] = frozenset(range(start, end))
            if pace.is_due():
                yield
        assignment[member_id] = partitions
    return assignment


def _order(entry: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    """Return the sort key: static members by instance id, then dynamic members by member id.

    Strings are ordered like in Java.
    """
    member_id, member = entry
    instance_id = member.instance_id
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
