"""JoinGroup of a member that uses the classic protocol in a consumer group.

The response is sent at once, with the member epoch as the generation, because no leader is needed;
SyncGroup returns the assignment. A JoinGroup to an Empty group turns the group back into a classic
group. Source: GroupMetadataManager.classicGroupJoinToConsumerGroup and
maybeDeleteEmptyConsumerGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.classic import join_group
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.responses import NULL_PROTOCOL_NAME_SINCE, join_error
from coordinator_server.core.groups.consumer import downgrade, timers
from coordinator_server.core.groups.consumer.classic_protocol import (
    classic_metadata,
    owned_partitions,
)
from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.member import NOTHING_OWNED, ConsumerMember
from coordinator_server.core.groups.consumer.records import current_record, member_record
from coordinator_server.core.groups.consumer.steps import next_epoch, reconciled, replace_static
from coordinator_server.core.groups.consumer.subscriptions import regex_change
from coordinator_server.core.groups.consumer.target import current_target, target_of_member
from coordinator_server.core.groups.modern.members import RefusedError, check_size, static_member
from protocol.apis.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.consumer_protocol import decode_subscription
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.join_group import Join
    from coordinator_server.core.groups.consumer.downgrade import Downgrade
    from coordinator_server.core.groups.consumer.member import CurrentAssignment
    from coordinator_server.core.groups.effects import Effects, Reply
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation, Steps
    from protocol.consumer_protocol import ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
DISABLED = "disabled"
"""The value of `group.consumer.migration.policy` that refuses members of the classic protocol."""

UNSET_TIMEOUT = -1


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    reply: Reply[JoinGroupResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Handle a JoinGroup that passed `validate`."""
    one_join = join_group.Join(request, reply, (yield from join_group.listed_protocols(request)))
    if group.is_empty:
        _join_empty(group, one_join, effects)
        return
    try:
        if not _may_enter(group, one_join, effects):
            return
        plan = yield from _Joining(group, one_join, now_ms).plan()
    except RefusedError as refused:
        effects.reply(reply, join_error("", refused.error, one_join.api_version))
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, join_error("", client_error(error), one_join.api_version))
            return
        if plan.downgrade is not None:
            plan.downgrade.finish(effects.group, now_ms, effects)
        else:
            assert isinstance(effects.group, ConsumerGroup)
            _finish(effects.group, one_join, plan, now_ms)
        effects.reply(reply, plan.response)

    if plan.records:
        effects.write(plan.records, done)
    else:
        _finish(group, one_join, plan, now_ms)
        effects.reply(reply, plan.response)


def _join_empty(group: ConsumerGroup, one_join: Join, effects: Effects) -> None:
    """Turn an Empty group into a classic group, even if the member is then refused.

    A request with a member id is answered as if the group were missing. In that case Kafka removes
    the group from memory without a record, so that the group is back after a restart; this broker
    keeps the group.
    """
    request, reply = one_join.request, one_join.reply
    if request.member_id:
        effects.reply(reply, join_group.missing(request, reply.caller))
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, join_error("", client_error(error), one_join.api_version))
            return
        assert isinstance(effects.group, GroupMetadata)
        join_group.serve(effects.group, one_join, now_ms, effects)

    blank = GroupMetadata(group.group_id, group.environment)
    effects.write([*group.tombstones(), blank.record()], done)


def _may_enter(group: ConsumerGroup, one_join: Join, effects: Effects) -> bool:
    """Return whether the member may join now; otherwise reply with a member id (KIP-394).

    Unlike in a classic group, the new member id is not remembered. Raises RefusedError if the
    migration policy, the group size or the protocols exclude the member.
    """
    request = one_join.request
    if group.settings.consumer_migration_policy == DISABLED:
        message = f"The migration of group {group.group_id} is disabled."
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    limit = group.settings.consumer_max_size
    check_size(group, limit, request.member_id, request.group_instance_id)
    if request.protocol_type != PROTOCOL_TYPE or not any(
        group.classic_protocols.get(name, 0) == group.classic_count
        for name, _ in one_join.protocols
    ):
        message = f"The protocols of member {request.member_id} are not supported."
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    if not join_group.requires_known_id(request, one_join.api_version):
        return True
    member_id = group.environment.new_uuid()
    refused = join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED, one_join.api_version)
    effects.reply(one_join.reply, refused)
    return False


class JoinPlan(NamedTuple):
    """The outcome of a JoinGroup: records, the response, and follow-up actions after the write."""

    records: list[CoordinatorRecord]
    response: JoinGroupResponse
    revision: int | None
    has_to_resolve: bool
    downgrade: Downgrade | None


def _finish(group: ConsumerGroup, one_join: Join, plan: JoinPlan, now_ms: int) -> None:
    """Start the timers after the records are written; the member now has to send SyncGroup."""
    member_id = plan.response.member_id
    timers.renew_session(group, member_id, now_ms, one_join.request.session_timeout_ms)
    timers.await_sync(group, member_id, now_ms, one_join.rebalance_timeout_ms)
    if plan.revision is not None:
        group.hashed_revision = plan.revision
    if plan.has_to_resolve:
        timers.resolve_soon(group, one_join.reply.caller.may_describe, now_ms)


class _Joining:
    """Computes the plan of one JoinGroup."""

    def __init__(self, group: ConsumerGroup, one_join: Join, now_ms: int) -> None:
        self._group = group
        self._join = one_join
        self._request = one_join.request
        self._now_ms = now_ms
        self._records: list[CoordinatorRecord] = []

    def plan(self) -> Computation[JoinPlan]:
        """Return the plan of the JoinGroup. Raises RefusedError if the request is refused."""
        group, records = self._group, self._records
        member_id = self._request.member_id or group.environment.new_uuid()
        before, current = self._member(member_id)
        subscription = self._subscription()
        after = self._updated(before, subscription)
        if after != before:
            records.append(member_record(group.group_id, after))
        regex = regex_change(group, before, after, self._now_ms, records)
        has_new_subscription = after.topics != before.topics or regex.is_new
        epoch, revision = yield from next_epoch(
            group, before, after, records, bumps=has_new_subscription
        )
        replaced = self._downgraded_by()
        has_to_rebalance = replaced is not None and group.assignment_epoch < epoch
        moved = current
        if not has_to_rebalance:
            if replaced is None:
                target = yield from target_of_member(group, epoch, after, self._now_ms, records)
            else:
                target = current_target(group, after)
            owned = owned_partitions(subscription, group.environment.topics)
            moved = yield from reconciled(
                group, after, current, target, owned, has_new_subscription=has_new_subscription
            )
            if moved != current:
                records.append(current_record(group.group_id, member_id, moved))
        back = None
        if replaced is not None:
            back = yield from downgrade.with_replaced(
                group, replaced, after, self._now_ms, has_to_rebalance=has_to_rebalance
            )
            records += back.records
        response = JoinGroupResponse(
            generation_id=moved.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol_name(),
            member_id=member_id,
        )
        return JoinPlan(records, response, revision, regex.has_to_resolve, back)

    def _protocol_name(self) -> str | None:
        """Return the name of the first protocol; since v7, null instead of an empty name."""
        name = self._join.protocols[0][0]
        return name or (None if self._join.api_version >= NULL_PROTOCOL_NAME_SINCE else name)

    def _member(self, member_id: str) -> tuple[ConsumerMember, CurrentAssignment]:
        """Return the member and its assignment before the request, both blank for a new member."""
        group, instance_id = self._group, self._request.group_instance_id
        if instance_id is not None:
            if self._request.member_id:
                return static_member(group, member_id, instance_id), group.current(member_id)
            owner = group.static_ids.get(instance_id)
            if owner is not None:
                return replace_static(group, group.members[owner], member_id, self._records)
        member = group.members.get(member_id, ConsumerMember(member_id))
        return member, group.currents.get(member_id, NOTHING_OWNED)

    def _downgraded_by(self) -> ConsumerMember | None:
        """Return the static member that this JoinGroup switches to the classic protocol.

        Returns None unless the switch downgrades the group.
        """
        group = self._group
        member_id = group.static_ids.get(self._request.group_instance_id or "")
        if member_id is not None and downgrade.is_due_with(group, group.members[member_id]):
            return group.members[member_id]
        return None

    def _subscription(self) -> ConsumerProtocolSubscription:
        """Return the subscription in the first protocol's metadata; further protocols are ignored.

        Raises RefusedError if the metadata is malformed.
        """
        try:
            return decode_subscription(self._join.protocols[0][1])
        except ProtocolError as error:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None

    def _updated(
        self, member: ConsumerMember, subscription: ConsumerProtocolSubscription
    ) -> ConsumerMember:
        """Return the member updated from the request, subscribed to topic names without a regex."""
        join, caller = self._join, self._join.caller
        changes: dict[str, Any] = {}
        if self._request.group_instance_id is not None:
            changes["instance_id"] = self._request.group_instance_id
        if subscription.rack_id:
            changes["rack_id"] = subscription.rack_id
        if join.rebalance_timeout_ms != UNSET_TIMEOUT:
            changes["rebalance_timeout_ms"] = join.rebalance_timeout_ms
        return member._replace(
            client_id=caller.client_id or "",
            client_host=caller.client_host,
            topics=tuple(sorted(set(subscription.topics))),
            regex="",
            classic=classic_metadata(self._request.session_timeout_ms, join.protocols),
            **changes,
        )
