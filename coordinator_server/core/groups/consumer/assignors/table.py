"""The assignors by name, as in `group.consumer.assignors` and in heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from coordinator_server.core.groups.consumer.assignors.range import assign as assign_ranges
from coordinator_server.core.groups.consumer.assignors.uniform import (
    assign as assign_uniformly,
)
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec

if TYPE_CHECKING:
    from coordinator_server.steps import Computation

Assignor = Callable[[GroupSpec], "Computation[Assignment]"]
"""An assignor runs in steps, because a group can be very large."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
