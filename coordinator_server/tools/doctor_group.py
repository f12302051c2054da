"""The doctor step that runs a temporary group member, from JoinGroup to DeleteGroups."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from coordinator_server.client import ClientConnection, ClientError
from coordinator_server.tools.doctor_step import Step, StepFailedError
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode

_PROTOCOL_TYPE, _ASSIGNOR = "consumer", "range"
_SESSION_TIMEOUT_MS = 10_000
_DELAY_MS = 1_000
_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors that go away shortly after __consumer_offsets is created."""


class _Member:
    """Sends requests to the coordinator and records the time of each."""

    def __init__(self, step: Step, coordinator: ClientConnection, group: str) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.group = group
        self.times: list[str] = []
        self._step = step
        self._coordinator = coordinator

    def ask(self, name: str, request: Callable[[], Any]) -> Any:
        """Return the response to a request. Raises StepFailedError."""
        begin_s = time.monotonic()
        while True:
            try:
                answer = self._coordinator.ask(request())
            except ClientError as error:
                raise StepFailedError(
                    f"no answer to {name}: {error}", ["broker: its log of the group"]
                ) from error
            code = answer.error_code
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif code not in _AGAIN or not self._step.may_try_again():
                break
        took_ms = (time.monotonic() - begin_s) * 1000
        self.times.append(f"{name} {took_ms:.1f} ms")
        if name == "JoinGroup" and not code and took_ms > _DELAY_MS:
            self._step.details.append(
                "an empty group waits for more members: group.initial.rebalance.delay.ms, 3000 by"
                " default"
            )
        if code:
            raise _refusal(name, code, self.group)
        return answer


def live_as_member(step: Step, coordinator: ClientConnection, group: str) -> None:
    """Join, sync, heartbeat, leave, and delete the group. Raises StepFailedError."""
    member = _Member(step, coordinator, group)
    try:
        _live(member)
    finally:
        if member.member_id:
            _clean_up(step, coordinator, member)
        step.details.insert(0, ", ".join(member.times))
    step.found = f"{group}, generation {member.generation_id}"


def _live(member: _Member) -> None:
    from protocol.apis.heartbeat import HeartbeatRequest
    from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
    from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

    nothing = encode_subscription(ConsumerProtocolSubscription(topics=[]))
    joined = member.ask(
        "JoinGroup",
        lambda: JoinGroupRequest(
            group_id=member.group,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
            member_id=member.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=nothing)],
        ),
    )
    member.member_id, member.generation_id = joined.member_id, joined.generation_id
    member.ask(
        "SyncGroup",
        lambda: SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation_id,
            member_id=member.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_ASSIGNOR,
            assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"")],
        ),
    )
    member.ask(
        "Heartbeat",
        lambda: HeartbeatRequest(
            group_id=member.group,
            generation_id=member.generation_id,
            member_id=member.member_id,
        ),
    )


def _clean_up(step: Step, coordinator: ClientConnection, member: _Member) -> None:
    """Leave the group and delete it if the user may; report a group that could not be deleted."""
    from protocol.apis.delete_groups import DeleteGroupsRequest
    from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity

    leave = LeaveGroupRequest(
        group_id=member.group,
        member_id=member.member_id,
        members=[MemberIdentity(member_id=member.member_id, reason="the doctor has finished")],
    )
    try:
        member.ask("LeaveGroup", lambda: leave)
    except StepFailedError as error:
        step.details.append(f"not left ({error}): the session ends after 10 s")
        return
    begin_s = time.monotonic()
    try:
        answer = coordinator.ask(DeleteGroupsRequest(groups_names=[member.group]))
        codes = [result.error_code for result in answer.results]
        reason = str(ClientError(codes[0])) if any(codes) else ""
    except ClientError as error:
        reason = str(error)
    if reason:
        step.details.append(f"not deleted ({reason}): the empty group goes by itself")
    else:
        member.times.append(f"DeleteGroups {(time.monotonic() - begin_s) * 1000:.1f} ms")


def _refusal(name: str, code: int, group: str) -> StepFailedError:
    reason = f"{name} is refused: {ClientError(code)}"
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return StepFailedError(
            reason,
            [
                f"broker: an ACL, operation Read on group {group} (kafka-acls --add --group)",
                "doctor: --group-prefix, the begin of a group that the user may use",
            ],
        )
    if code == ErrorCode.INVALID_SESSION_TIMEOUT:
        return StepFailedError(
            reason, ["broker: group.min.session.timeout.ms, group.max.session.timeout.ms"]
        )
    if code in _AGAIN:
        return StepFailedError(
            reason,
            ["broker: it loads __consumer_offsets, or the partitions of that have no leader"],
        )
    return StepFailedError(reason, ["broker: its log of the group"])
