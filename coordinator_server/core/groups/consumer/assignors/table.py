"""The assignors by the names that `group.consumer.assignors` and members give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from coordinator_server.core.groups.consumer.assignors.range import assign as assign_ranges
from coordinator_server.core.groups.consumer.assignors.uniform import assign as assign_uniformly
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec

if TYPE_CHECKING:
    from coordinator_server.steps import Computation

Assignor = Callable[[GroupSpec], "Computation[Assignment]"]
"""An assignor works in steps, as a group may be very large."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
