"""The uniform assignor: partitions spread evenly over the members, who keep what they can.

Source: UniformAssignor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.assignors import uniform_homogeneous
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec

if TYPE_CHECKING:
    from coordinator_server.steps import Computation


def assign(spec: GroupSpec) -> Computation[Assignment]:
    """Who shall own what."""
    if not any(member.topic_ids for member in spec.members.values()):
        return {}
    if spec.is_homogeneous:
        return (yield from uniform_homogeneous.assign(spec))
    # Most brokers never have such a group; importing it costs them nothing.
    from coordinator_server.core.groups.consumer.assignors import uniform_heterogeneous

    return (yield from uniform_heterogeneous.assign(spec))
