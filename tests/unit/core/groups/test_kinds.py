"""A group of one kind that replaces a group of another kind."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.kinds import in_place_of
from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.settings import GroupKind
from tests.harness.one_group import blank_group


@pytest.mark.parametrize("kind", GroupKind)
def test_a_group_of_another_kind_has_the_same_offsets(kind: GroupKind) -> None:
    """The new group takes over the old group's offsets and `is_new`, and nothing else."""
    group = blank_group("g")
    group.restore("t", {0: CommittedOffset(5, -1, "", 0)})
    other = in_place_of(kind, group)
    assert (other.kind, other.group_id, other.is_new) == (kind, "g", False)
    assert other.offsets is group.offsets
    assert other.environment is group.environment
    assert not other.environment.configs_of("g")
