"""Removal of members from a share group: they leave or are fenced.

Source: shareGroupFenceMember of GroupMetadataManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import Pace
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.modern.modern_group import NEVER_ASSIGNED_MS
from coordinator_server.core.groups.share.records import (
    epoch_record,
    member_tombstones,
    target_epoch_record,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import KnownTopic
    from coordinator_server.core.groups.share.member import ShareMember
    from coordinator_server.core.groups.share.share_group import ShareGroup
    from coordinator_server.steps import Computation


def removal(group: ShareGroup, member: ShareMember) -> Computation[list[CoordinatorRecord]]:
    """Return the records that remove a member and raise the group epoch.

    If the last member is removed, the assignment epoch rises too, without a timestamp. Source:
    shareGroupFenceMember.
    """
    group_id, epoch = group.group_id, group.epoch + 1
    records = member_tombstones(group_id, member.member_id)
    names = yield from topics_with(group, member, None)
    hashed = yield from metadata_hash(names, group.environment.topics)
    records.append(epoch_record(group_id, epoch, hashed))
    if group.member_count == 1:
        records.append(target_epoch_record(group_id, epoch, NEVER_ASSIGNED_MS))
    return records


def topics_with(
    group: ShareGroup, before: ShareMember, after: ShareMember | None
) -> Computation[dict[str, KnownTopic]]:
    """Return the subscribed topics by name once member `before` is replaced or removed.

    `after` is the member that replaces `before`; None if `before` is removed.
    """
    others = [member for member in group.members.values() if member.member_id != before.member_id]
    if after is not None:
        others.append(after)
    read: dict[str, KnownTopic] = {}
    pace = Pace()
    for names in {member.topics for member in others}:
        yield from group.look_up(names)
        read.update((topic.name, topic) for topic in group.existing(names))
        if pace.is_due(len(names)):
            yield
    return read
