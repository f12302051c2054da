"""Numeric group configs, with the broker settings as defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group


def config(group: Group, name: str) -> int:
    """Return a group's value of a numeric config, or the broker's value without an override.

    The field of GroupSettings has the name of the config, with underscores for dots.
    """
    own = group.environment.configs_of(group.group_id).get(name)
    if own is not None:
        return int(own)
    number: int = getattr(group.settings, name.replace(".", "_"))
    return number
