"""Dispatch by kind of group: conversion, load and unload.

The modules of a kind are imported when the first group of that kind appears: a broker with only
classic groups never loads the modules of other kinds. The modules of the kinds do not import this
module: groups reach it through their environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from coordinator_server.core.groups.modern import account
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.core.groups.streams.streams_group import StreamsGroup


def in_place_of(kind: GroupKind, group: Group) -> Group:
    """Return a blank group of the given kind with the offsets of `group`."""
    blank: Group
    if kind is GroupKind.CONSUMER:
        from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup

        blank = ConsumerGroup(group.group_id, group.environment)
    elif kind is GroupKind.SHARE:
        from coordinator_server.core.groups.share.share_group import ShareGroup

        blank = ShareGroup(group.group_id, group.environment)
    elif kind is GroupKind.STREAMS:
        from coordinator_server.core.groups.streams.streams_group import StreamsGroup

        blank = StreamsGroup(group.group_id, group.environment)
    else:
        from coordinator_server.core.groups.classic.metadata import GroupMetadata

        blank = GroupMetadata(group.group_id, group.environment)
    blank.offsets = group.offsets
    blank.is_new = group.is_new
    return blank


def load_finished(group: Group, now_ms: int, effects: Effects) -> None:
    """Resume a group after its log was replayed: start its timers and its rebalance report."""
    if group.kind is GroupKind.CONSUMER:
        from coordinator_server.core.groups.consumer import timers

        timers.load_finished(cast("ConsumerGroup", group), now_ms, effects)
    elif group.kind is GroupKind.SHARE:
        from coordinator_server.core.groups.share import timers as share_timers

        share_timers.load_finished(cast("ShareGroup", group), now_ms)
    elif group.kind is GroupKind.STREAMS:
        from coordinator_server.core.groups.streams import timers as streams_timers

        streams_timers.load_finished(cast("StreamsGroup", group), now_ms)
    else:
        from coordinator_server.core.groups.classic import lifecycle

        lifecycle.load_finished(cast("GroupMetadata", group), now_ms, effects)
    if group.kind is not GroupKind.CLASSIC:
        account.loaded(group, now_ms, effects)


def unload(group: Group, now_ms: int, effects: Effects) -> None:
    """Unload a group whose partition moves or whose broker stops; answer parked requests."""
    if group.kind is GroupKind.CLASSIC:
        from coordinator_server.core.groups.classic import lifecycle

        lifecycle.unload(cast("GroupMetadata", group), now_ms, effects)
    elif not group.is_dead:
        account.unloaded(group, now_ms, effects)
        group.purgatory.clear()
        group.is_unloaded = True
        effects.event("group.unloaded", group=group.group_id)
