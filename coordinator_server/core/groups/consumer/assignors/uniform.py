"""The uniform assignor: an even and sticky distribution of partitions.

Source: UniformAssignor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.assignors import uniform_homogeneous
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


def assign(spec: GroupSpec) -> Computation[Assignment]:
    """Return the assignment."""
    if not any(member.topic_ids for member in spec.members.values()):
        return {}
    if spec.is_homogeneous:
        return (yield from uniform_homogeneous.assign(spec))
    # Imported lazily: most brokers never have a group with different subscriptions.
    from coordinator_server.core.groups.consumer.assignors import uniform_heterogeneous

    return (yield from uniform_heterogeneous.assign(spec))
