"""The expected errors for requests to a consumer group, computed independently of the product.

The error follows from the request and the state of the group just before it. Where Kafka leaves
several errors open, all of them are allowed.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.group import Group
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import topic_id_of

E = ErrorCode
Verdict = AbstractSet[ErrorCode]
FINE: Verdict = {E.NONE}
MIGRATING = {"bidirectional", "upgrade"}


def heartbeat_errors(group: Group | None, request: ConsumerGroupHeartbeatRequest) -> Verdict:
    """Return the errors that are allowed for a heartbeat."""
    if isinstance(group, ConsumerGroup):
        return _of_member(group, request)
    is_joining = request.member_epoch == 0
    if group is None or not is_joining:
        return FINE if is_joining else {E.GROUP_ID_NOT_FOUND}
    if not group.member_count:
        return FINE | {E.GROUP_ID_NOT_FOUND}  # the member may be joining an empty group
    if group.settings.consumer_migration_policy not in MIGRATING:
        return {E.GROUP_ID_NOT_FOUND}
    return FINE | {E.GROUP_ID_NOT_FOUND, E.UNKNOWN_SERVER_ERROR, E.GROUP_MAX_SIZE_REACHED}


def _of_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Verdict:
    member_id, instance_id, epoch = request.member_id, request.instance_id, request.member_epoch
    is_known = member_id in group.members
    owners = [one for one in group.members.values() if one.instance_id == instance_id]
    owner = owners[0] if owners and instance_id is not None else None
    is_new = not is_known and owner is None
    if epoch >= 0 and is_new and len(group.members) >= group.settings.consumer_max_size:
        return {E.GROUP_MAX_SIZE_REACHED}
    if epoch == 0:
        if owner is None or owner.classic is not None:
            return FINE
        is_away = group.currents[owner.member_id].epoch == -2
        return FINE if is_away else {E.UNRELEASED_INSTANCE_ID}
    if instance_id is not None:
        if owner is None:
            return {E.UNKNOWN_MEMBER_ID}
        if owner.member_id != member_id:
            return {E.FENCED_INSTANCE_ID}
    if not is_known:
        return {E.UNKNOWN_MEMBER_ID}
    if epoch < 0:
        return FINE
    return FINE if _knows_its_epoch(group, request) else {E.FENCED_MEMBER_EPOCH}


def _knows_its_epoch(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request has a valid epoch.

    The member's epoch is valid; its previous epoch is valid if the request lists no partitions
    outside the assignment.
    """
    current, owned = group.currents[request.member_id], request.topic_partitions
    if request.member_epoch == current.epoch:
        return True
    if owned is None or not current.previous_epoch == request.member_epoch < current.epoch:
        return False
    return all(
        partition in current.assigned.get(one.topic_id, {})
        for one in owned
        for partition in one.partitions
    )


def commit_error(group: Group | None, request: OffsetCommitRequest, version: int) -> Verdict | None:
    """Return the error of all partitions of a commit; None if a classic group's rules apply."""
    if group is None or isinstance(group, GroupMetadata):
        return None
    assert isinstance(group, ConsumerGroup)
    epoch = request.generation_id_or_member_epoch
    member = group.members.get(request.member_id)
    if member is None:
        is_nobody = epoch < 0 and not group.members
        return FINE if is_nobody else {E.UNKNOWN_MEMBER_ID}
    is_classic = member.classic is not None
    if not is_classic and version < 9:
        return {E.UNSUPPORTED_VERSION}
    current = group.currents[request.member_id]
    stale = {E.ILLEGAL_GENERATION if is_classic else E.STALE_MEMBER_EPOCH}
    if epoch >= current.epoch:
        return FINE if epoch == current.epoch else stale
    held: dict[tuple[bytes, int], int] = {}
    for owned in (current.assigned, current.revoking):
        for topic_id, partitions in owned.items():
            held |= {(topic_id, partition): since for partition, since in partitions.items()}
    for topic in request.topics:
        for one in topic.partitions:
            since = held.get((topic_id_of(topic.name), one.partition_index))
            if since is None or since > epoch:
                return stale
    return FINE


def errors_of(response: Any) -> set[ErrorCode]:
    """Return the errors of a heartbeat or commit response, except the errors of unknown topics."""
    if not hasattr(response, "topics"):
        return {E(response.error_code)}
    errors = {E(one.error_code) for topic in response.topics for one in topic.partitions}
    return errors - {E.UNKNOWN_TOPIC_OR_PARTITION}
