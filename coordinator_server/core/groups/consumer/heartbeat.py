"""ConsumerGroupHeartbeat: the only request that members of consumer groups need (KIP-848).

A heartbeat can join, change the subscription, report owned partitions, and leave. Its records are
written and replayed before the response is sent. Source:
GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.api import GroupApi
from coordinator_server.core.groups.classic.state import EMPTY
from coordinator_server.core.groups.consumer import leaving, timers, upgrade
from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.member import (
    NOTHING_OWNED,
    ConsumerMember,
    CurrentAssignment,
    holds_all,
)
from coordinator_server.core.groups.consumer.records import current_record, member_record
from coordinator_server.core.groups.consumer.steps import next_epoch, reconciled, replace_static
from coordinator_server.core.groups.consumer.subscriptions import regex_change
from coordinator_server.core.groups.consumer.target import target_of_member
from coordinator_server.core.groups.effects import STEP_ITEMS
from coordinator_server.core.groups.modern.members import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    HeartbeatComputation,
    RefusedError,
    caller,
    check_epoch,
    check_size,
    creates_group,
    is_blank,
    known_member,
    no_group,
    other_kind,
    refuse_unreleased,
    serve_heartbeat,
    static_member,
    topic_names,
)
from coordinator_server.core.groups.modern.modern_group import config
from coordinator_server.core.groups.settings import GroupKind
from protocol.apis.consumer_group_heartbeat import (
    AssignedPartitions,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller, MayDescribe
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.consumer.downgrade import Downgrade
    from coordinator_server.core.groups.consumer.member import OwnedPartitions
    from coordinator_server.core.groups.consumer.reconcile import Listed
    from coordinator_server.core.groups.effects import Effects, Reply, Write
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.steps import Computation, Steps

CLIENT_MEMBER_IDS_SINCE = 1
UNSET_TIMEOUT = -1


# --- requests to a missing group --------------------------------------------------------------


def validate(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, settings: GroupSettings
) -> ErrorCode:
    """Return the error of a request that is invalid for every group, or NONE."""
    if _malformed(request, caller.api_version) is not None:
        return ErrorCode.INVALID_REQUEST
    if request.server_assignor not in (None, *settings.consumer_assignors):
        return ErrorCode.UNSUPPORTED_ASSIGNOR
    return ErrorCode.NONE


def _malformed(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    """Return Kafka's message for an invalid request, or None for a valid one."""
    epoch = request.member_epoch
    has_id = api_version >= CLIENT_MEMBER_IDS_SINCE or epoch > 0 or epoch == LEAVING_EPOCH
    if has_id and is_blank(request.member_id):
        return "MemberId can't be empty."
    if is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.instance_id is not None and is_blank(request.instance_id):
        return "InstanceId can't be empty."
    if request.rack_id is not None and is_blank(request.rack_id):
        return "RackId can't be empty."
    if epoch == JOINING_EPOCH:
        return _malformed_join(request)
    if epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVING_EPOCH else None


def _malformed_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == UNSET_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None


def _error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def refuse(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, error: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a heartbeat that did not reach a group."""
    is_malformed = error is ErrorCode.INVALID_REQUEST
    return _error(error, _malformed(request, caller.api_version) if is_malformed else None)


def refuse_invalid(
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    error: ErrorCode,
    settings: GroupSettings,
) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a request that `validate` refused, with Kafka's message."""
    if error is not ErrorCode.UNSUPPORTED_ASSIGNOR:
        return refuse(request, caller, error)
    message = (
        f"ServerAssignor {request.server_assignor} is not supported. "
        f"Supported assignors: {', '.join(settings.consumer_assignors)}."
    )
    return _error(error, message)


def missing(request: ConsumerGroupHeartbeatRequest, _: Caller) -> ConsumerGroupHeartbeatResponse:
    """Refuse a heartbeat to a missing group; only joining members create groups."""
    return _error(ErrorCode.GROUP_ID_NOT_FOUND, no_group(request, GroupKind.CONSUMER))


def wrong_kind(request: ConsumerGroupHeartbeatRequest, _: Caller) -> ConsumerGroupHeartbeatResponse:
    """Refuse a heartbeat to a group of another kind."""
    message = other_kind(request.group_id, GroupKind.CONSUMER)
    return _error(ErrorCode.GROUP_ID_NOT_FOUND, message)


# --- requests to an existing group ------------------------------------------------------------


class ConsumerPlan(NamedTuple):
    """The outcome of a heartbeat: records, the response, and follow-up actions after the write.

    - `member_id`: None if the member leaves permanently.
    - `has_moved`: the member's current assignment changes.
    - `has_to_resolve`: regular expressions have to be resolved.
    - `revision`: the topics revision, if the metadata hash was computed.
    - `downgrade`: set if the group becomes a classic group.
    - `may_describe`: the describe permissions of the caller.
    """

    records: list[CoordinatorRecord]
    response: ConsumerGroupHeartbeatResponse
    member_id: str | None = None
    has_moved: bool = False
    has_to_resolve: bool = False
    revision: int | None = None
    downgrade: Downgrade | None = None
    may_describe: MayDescribe | None = None


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    reply: Reply[ConsumerGroupHeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> Computation[Write | None]:
    """Serve a heartbeat. The request is exclusive, to see the results of earlier requests."""
    return _serve(group, [], request, reply, now_ms, effects)


def first_heartbeat(
    group: GroupMetadata,
    request: ConsumerGroupHeartbeatRequest,
    reply: Reply[ConsumerGroupHeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Serve a heartbeat to a classic group; a join turns the group into a consumer group."""
    if request.member_epoch != JOINING_EPOCH:
        effects.reply(reply, wrong_kind(request, reply.caller))
        return
    if group.state is EMPTY:
        tombstones = [] if group.is_new else group.tombstones()
        blank: ConsumerGroup = group.environment.in_place_of(GroupKind.CONSUMER, group)
        yield from _serve(blank, tombstones, request, reply, now_ms, effects)
        return
    try:
        converted, records = yield from upgrade.convert(group, effects)
    except RefusedError as refused:
        effects.reply(reply, _error(refused.error, refused.message))
        return

    def upgraded(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            upgrade.finish(effects, now_ms)

    write = yield from _serve(converted, records, request, reply, now_ms, effects)
    if write is not None:
        write.then(upgraded)


def _serve(
    group: ConsumerGroup,
    records: list[CoordinatorRecord],
    request: ConsumerGroupHeartbeatRequest,
    reply: Reply[ConsumerGroupHeartbeatResponse],
    now_ms: int,
    effects: Effects,
) -> Computation[Write | None]:
    """Serve a heartbeat; return the write.

    The heartbeat's records are appended after `records`, which create the group.
    """
    if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
        planning = _leave(group, request, now_ms)
    else:
        planning = _ConsumerHeartbeat(group, records, request, reply.caller, now_ms).plan()
    return (yield from serve_heartbeat(group, planning, reply, _error, _finish, now_ms, effects))


def _finish(
    group: Group, plan: ConsumerPlan, now_ms: int, effects: Effects
) -> ConsumerGroupHeartbeatResponse:
    """Start timers after the records are written, or finish a downgrade; return the response."""
    if plan.downgrade is not None:
        plan.downgrade.finish(group, now_ms, effects)
        return plan.response
    assert isinstance(group, ConsumerGroup)
    if plan.revision is not None:
        group.hashed_revision = plan.revision
    if plan.member_id is not None:
        timers.renew_session(group, plan.member_id, now_ms)
        if plan.has_moved:
            timers.watch_revocation(group, plan.member_id, now_ms)
    if plan.has_to_resolve:
        timers.resolve_soon(group, plan.may_describe, now_ms)
    return plan.response


def _leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Computation[ConsumerPlan]:
    """Plan the heartbeat of a member that leaves, permanently or temporarily."""
    member_id, epoch = request.member_id, request.member_epoch
    member: ConsumerMember = caller(group, member_id, request.instance_id)
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
    if epoch == STATIC_LEAVING_EPOCH:
        return ConsumerPlan(leaving.leave_for_a_while(group, member), response)
    removal = yield from leaving.removal(group, (member,), now_ms)
    return ConsumerPlan(removal.records, response, downgrade=removal.downgrade)


class _ConsumerHeartbeat(HeartbeatComputation["ConsumerGroup", ConsumerGroupHeartbeatRequest]):
    """Computes the plan of a heartbeat that does not leave."""

    def plan(self) -> Computation[ConsumerPlan]:
        """Return the plan of the heartbeat. Raises RefusedError if the request is refused."""
        group, request, records = self._group, self._request, self._records
        limit = group.settings.consumer_max_size
        check_size(group, limit, request.member_id, request.instance_id)
        member_id = request.member_id or group.environment.new_uuid()
        before, current = self._member(member_id)
        after = self._updated(before)
        if request.subscribed_topic_names is not None:
            topics = yield from topic_names(group, request.subscribed_topic_names)
            after = after._replace(topics=topics)
        if after != before:
            records.append(member_record(group.group_id, after))
        regex = regex_change(group, before, after, self._now_ms, records)
        bumps = (
            after.topics != before.topics
            or regex.is_resolved
            or group.changes_assignor(before, after)
        )
        epoch, revision = yield from next_epoch(group, before, after, records, bumps=bumps)
        target = yield from target_of_member(group, epoch, after, self._now_ms, records)
        has_new_subscription = after.topics != before.topics or regex.is_new
        moved = yield from reconciled(
            group,
            after,
            current,
            target,
            self._listed,
            has_new_subscription=has_new_subscription,
        )
        is_large = len(moved.assigned) + len(moved.revoking) > STEP_ITEMS
        if is_large:
            yield
        if moved != current:
            records.append(current_record(group.group_id, member_id, moved))
        if is_large:
            yield
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=moved.epoch,
            heartbeat_interval_ms=config(group, timers.HEARTBEAT_INTERVAL),
        )
        if self._is_joining or self._is_full or moved.assigned != current.assigned:
            response.assignment = _assignment(moved.assigned)
        if is_large:
            yield
        return ConsumerPlan(
            records,
            response,
            member_id,
            has_moved=moved != current,
            has_to_resolve=regex.has_to_resolve,
            revision=revision,
            may_describe=self._caller.may_describe,
        )

    def _member(self, member_id: str) -> tuple[ConsumerMember, CurrentAssignment]:
        """Return the member and its current assignment; both are blank for a new member.

        Raises RefusedError if the member is unknown, fenced, or sends another epoch.
        """
        group, instance_id = self._group, self._request.instance_id
        if instance_id is not None:
            if not self._is_joining:
                member = static_member(group, member_id, instance_id)
                return member, self._checked_epoch(member_id)
            owner = group.static_ids.get(instance_id)
            if owner is not None:
                return self._replaced(member_id, group.members[owner])
        if self._is_joining:
            member = group.members.get(member_id, ConsumerMember(member_id))
            return member, group.currents.get(member_id, NOTHING_OWNED)
        return known_member(group, member_id), self._checked_epoch(member_id)

    def _replaced(
        self, member_id: str, owner: ConsumerMember
    ) -> tuple[ConsumerMember, CurrentAssignment]:
        """Return the new static member that takes over the instance id of `owner`.

        Raises RefusedError if the owner uses the consumer protocol and has not left.
        """
        is_away = self._group.current(owner.member_id).epoch == STATIC_LEAVING_EPOCH
        if owner.classic is None and not is_away:
            refuse_unreleased(member_id, owner.instance_id, owner.member_id)
        return replace_static(self._group, owner, member_id, self._records)

    def _checked_epoch(self, member_id: str) -> CurrentAssignment:
        """Return the member's current assignment. Raises RefusedError for a wrong epoch.

        The previous epoch is accepted if the member owns only partitions of its current
        assignment, because the response with the new epoch may have been lost.
        """
        current, received = self._group.current(member_id), self._request.member_epoch
        listed = self._listed
        is_lost_answer = (
            received == current.previous_epoch
            and listed is not None
            and holds_all(current.assigned, listed)
        )
        check_epoch(self._group, received, current.epoch, is_lost_answer=is_lost_answer)
        return current

    @property
    def _listed(self) -> Listed | None:
        """The partitions that the member reports as owned, or None if the field is null."""
        owned = self._request.topic_partitions
        return None if owned is None else [(topic.topic_id, topic.partitions) for topic in owned]

    def _updated(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member with the request's fields, except topics; null keeps the old value."""
        request = self._request
        changes: dict[str, Any] = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "assignor": request.server_assignor,
            "regex": request.subscribed_topic_regex,
        }
        if request.rebalance_timeout_ms != UNSET_TIMEOUT:
            changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        said = {name: value for name, value in changes.items() if value is not None}
        return member._replace(
            client_id=self._caller.client_id or "",
            client_host=self._caller.client_host,
            classic=None,
            **said,
        )

    @property
    def _is_full(self) -> bool:
        """Whether the request has all fields, as after an error, and so needs a full response."""
        request = self._request
        return (
            request.rebalance_timeout_ms != UNSET_TIMEOUT
            and not (
                request.subscribed_topic_names is None and request.subscribed_topic_regex is None
            )
            and request.topic_partitions is not None
        )


def _assignment(assigned: OwnedPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            AssignedPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


CONSUMER_GROUP_HEARTBEAT = GroupApi(
    request_type=ConsumerGroupHeartbeatRequest,
    serve=first_heartbeat,
    serve_kind={GroupKind.CONSUMER: heartbeat},
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    protocol=GroupKind.CONSUMER,
    validate=validate,
    refuse_invalid=refuse_invalid,
    creates_group=creates_group,
    exclusive=True,
    at_once=True,
)
