"""ShareGroupHeartbeat: the only request that members of share groups need (KIP-932).

A heartbeat can join, change the subscription, and leave. Its records are written and replayed
before the response is sent; then the share coordinator is called to initialize partitions. Source:
GroupMetadataManager.shareGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    HeartbeatComputation,
    check_epoch,
    check_size,
    creates_group,
    is_blank,
    known_member,
    no_group,
    other_kind,
    serve_heartbeat,
    topic_names,
)
from coordinator_server.core.groups.modern.metadata_hash import metadata_hash
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share import timers
from coordinator_server.core.groups.share.initialize import Initialization, initialization_due
from coordinator_server.core.groups.share.leaving import removal, topics_with
from coordinator_server.core.groups.share.member import ShareAssignment, ShareMember
from coordinator_server.core.groups.share.records import (
    current_record,
    epoch_record,
    member_record,
)
from coordinator_server.core.groups.share.share_group import ShareGroup
from coordinator_server.core.groups.share.target import target_of_member
from protocol.apis.share_group_heartbeat import (
    ShareAssignedPartitions,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.apis.share_group_heartbeat import ShareAssignment as AssignmentField
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.core.groups.share.target import ShareTarget
    from coordinator_server.steps import Computation, Steps

LONGEST_MEMBER_ID = 36
"""The longest member id, in characters. Source: KafkaApis.isMemberIdValid."""


# --- requests to a missing group --------------------------------------------------------------


def validate(request: ShareGroupHeartbeatRequest, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return the error of a request that is invalid for every group, or NONE."""
    if not _is_id(request.member_id) or _malformed(request) is not None:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _is_id(member_id: str) -> bool:
    return 0 < len(member_id) <= LONGEST_MEMBER_ID


def _malformed(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return Kafka's message for an invalid request, or None for a valid one."""
    if is_blank(request.member_id):
        return "MemberId can't be empty."
    if is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.rack_id is not None and is_blank(request.rack_id):
        return "RackId can't be empty."
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVING_EPOCH else None


def _error(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error, error_message=message)


def refuse(
    request: ShareGroupHeartbeatRequest, _: Caller, error: ErrorCode
) -> ShareGroupHeartbeatResponse:
    """Return the response to a heartbeat that did not reach a group."""
    if error is ErrorCode.INVALID_REQUEST and _is_id(request.member_id):
        return _error(error, _malformed(request))
    return _error(error)


def missing(request: ShareGroupHeartbeatRequest, _: Caller) -> ShareGroupHeartbeatResponse:
    """Refuse a heartbeat to a missing group; only joining members create groups."""
    return _error(ErrorCode.GROUP_ID_NOT_FOUND, no_group(request, GroupKind.SHARE))


def wrong_kind(request: ShareGroupHeartbeatRequest, _: Caller) -> ShareGroupHeartbeatResponse:
    """Refuse a heartbeat to a group of another kind, even if the group is empty."""
    return _error(ErrorCode.GROUP_ID_NOT_FOUND, other_kind(request.group_id, GroupKind.SHARE))


# --- requests to an existing group ------------------------------------------------------------


class SharePlan(NamedTuple):
    """The outcome of a heartbeat: records, the response, and follow-up actions after the write.

    - `member_id`: None if the member leaves.
    - `revision`: the topics revision, if the metadata hash was computed.
    - `initialization`: the call to the share coordinator, if any.
    """

    records: list[CoordinatorRecord]
    response: ShareGroupHeartbeatResponse
    member_id: str | None = None
    revision: int | None = None
    initialization: Initialization | None = None


def heartbeat(
    group: ShareGroup,
    request: ShareGroupHeartbeatRequest,
    reply: Reply[ShareGroupHeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat. The request is exclusive, to see the results of earlier requests."""
    if request.member_epoch == LEAVING_EPOCH:
        planning = _leave(group, request)
    else:
        planning = _ShareHeartbeat(group, [], request, reply.caller, now_ms).plan()
    yield from serve_heartbeat(group, planning, reply, _error, _finish, now_ms, effects)


def first_heartbeat(
    group: GroupMetadata,
    request: ShareGroupHeartbeatRequest,
    reply: Reply[ShareGroupHeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat to a classic group: a group that was just created becomes a share group."""
    if not group.is_new:
        effects.reply(reply, wrong_kind(request, reply.caller))
        return
    blank: ShareGroup = group.environment.in_place_of(GroupKind.SHARE, group)
    yield from heartbeat(blank, request, reply, now_ms, effects)


def _finish(
    group: ShareGroup, plan: SharePlan, now_ms: int, effects: Effects
) -> ShareGroupHeartbeatResponse:
    """Renew the session and call the share coordinator after the records are written."""
    if plan.revision is not None:
        group.hashed_revision = plan.revision
    if plan.member_id is not None:
        timers.renew_session(group, plan.member_id, now_ms)
    if plan.initialization is not None:
        plan.initialization.begin(group, now_ms, effects)
    return plan.response


def _leave(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> Computation[SharePlan]:
    member_id = request.member_id
    response = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVING_EPOCH)
    records = yield from removal(group, known_member(group, member_id))
    return SharePlan(records, response)


class _ShareHeartbeat(HeartbeatComputation["ShareGroup", ShareGroupHeartbeatRequest]):
    """Computes the plan of a heartbeat that does not leave."""

    def plan(self) -> Computation[SharePlan]:
        """Return the plan of the heartbeat. Raises RefusedError if the request is refused."""
        group, records = self._group, self._records
        check_size(group, group.settings.share_max_size, self._request.member_id, None)
        before = self._member()
        after, current = self._updated(before), group.current(before.member_id)
        if self._request.subscribed_topic_names is not None:
            topics = yield from topic_names(group, self._request.subscribed_topic_names)
            after = after._replace(topics=topics)
        if after != before:
            records.append(member_record(group.group_id, after))
        epoch, revision = yield from self._epoch(before, after)
        target = yield from target_of_member(group, epoch, after, self._now_ms, records)
        moved = self._reconciled(after, current, target, has_changed=epoch != group.epoch)
        if moved != current:
            records.append(current_record(group.group_id, after.member_id, moved))
        response = ShareGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=moved.epoch,
            heartbeat_interval_ms=config(group, timers.HEARTBEAT_INTERVAL),
        )
        is_full = self._is_joining or self._request.subscribed_topic_names is not None
        if is_full or moved.assigned != current.assigned:
            response.assignment = _field(moved.assigned)
        initialization = yield from initialization_due(group, epoch, after, self._now_ms, records)
        return SharePlan(records, response, after.member_id, revision, initialization)

    def _member(self) -> ShareMember:
        """Return the member before the request, blank for a new member.

        Raises RefusedError if a member that does not join is unknown or sends a wrong epoch.
        """
        member_id = self._request.member_id
        if self._is_joining:
            return self._group.members.get(member_id, ShareMember(member_id))
        member: ShareMember = known_member(self._group, member_id)
        current, received = self._group.current(member_id), self._request.member_epoch
        check_epoch(
            self._group,
            received,
            current.epoch,
            is_lost_answer=received == current.previous_epoch,
            note=f", and it does not match the previous member epoch ({current.previous_epoch})",
        )
        return member

    def _updated(self, member: ShareMember) -> ShareMember:
        """Return the member with the request's fields, except topics; null keeps the old value."""
        request = self._request
        return member._replace(
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            client_id=self._caller.client_id or "",
            client_host=self._caller.client_host,
        )

    def _epoch(
        self, before: ShareMember, after: ShareMember
    ) -> Computation[tuple[int, int | None]]:
        """Return the group epoch, and the topics revision if the metadata hash was computed.

        The epoch rises by one if a subscription or the subscribed topics have changed, or if
        partitions were initialized since the last assignment.
        """
        group = self._group
        revision = group.environment.topics.revision
        bumps = after.topics != before.topics
        if group.assignment_epoch >= group.epoch:
            bumps = bumps or group.has_unassigned
        if not bumps and revision == group.hashed_revision:
            return group.epoch, None
        names = yield from topics_with(group, before, after)
        hashed = yield from metadata_hash(names, group.environment.topics)
        if not bumps and hashed == group.metadata_hash:
            return group.epoch, revision
        self._records.append(epoch_record(group.group_id, group.epoch + 1, hashed))
        return group.epoch + 1, revision

    def _reconciled(
        self,
        member: ShareMember,
        current: ShareAssignment,
        target: ShareTarget,
        *,
        has_changed: bool,
    ) -> ShareAssignment:
        """Return the member's next assignment. Source: ShareGroupAssignmentBuilder."""
        if target.epoch == current.epoch and not has_changed:
            return current
        known = {topic.topic_id for topic in self._group.existing(member.topics)}
        readable = {
            topic_id: target.partitions[topic_id]
            for topic_id in target.partitions
            if topic_id in known
        }
        if target.epoch == current.epoch:
            return current._replace(assigned=readable)
        return ShareAssignment(target.epoch, current.epoch, readable)


def _field(assigned: Partitions) -> AssignmentField:
    return AssignmentField(
        topic_partitions=[
            ShareAssignedPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


SHARE_GROUP_HEARTBEAT = GroupApi(
    request_type=ShareGroupHeartbeatRequest,
    serve=first_heartbeat,
    serve_kind={GroupKind.SHARE: heartbeat},
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    validate=validate,
    creates_group=creates_group,
    exclusive=True,
    at_once=True,
)
