"""The numbers that a group may have as configs of its own; else the settings of the broker hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group


def config(group: Group, name: str) -> int:
    """The number that holds for a group.

    The field of GroupSettings has the name of the config, with underscores for dots.
    """
    own = group.environment.configs_of(group.group_id).get(name)
    if own is not None:
        return int(own)
    number: int = getattr(group.settings, name.replace(".", "_"))
    return number
