"""Calls of share groups to the share coordinator, and the operation that returns their result.

The core of a group creates the calls (`core.groups.effects`). Source: GroupCoordinatorService's
calls to its Persister.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.coordinator.operations import PendingRequest
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.coordinator.operations import Submitter
    from coordinator_server.core.groups.effects import (
        AssignedSharePartition,
        Effects,
        StateCall,
        StateErrors,
    )
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.share_partitions.persister import SharePersister
    from coordinator_server.steps import Steps


def carry_out(
    persister: SharePersister, group_id: str, call: StateCall, done: Callable[[StateErrors], None]
) -> Steps:
    """Send one request per partition, in steps; call `done(errors)` after the last response."""
    gathering = _Gathering(len(call.start_offsets), done)
    for partition, start_offset in call.start_offsets.items():
        key = SharePartitionKey(group_id, partition.topic_id, partition.partition)
        answered = partial(gathering.take, partition)
        if call.state_epoch is None:
            persister.delete(key, answered)
        else:
            persister.initialize(key, call.state_epoch, start_offset, answered)
        yield


class _Gathering:
    """Collects the responses of one call."""

    def __init__(self, count: int, done: Callable[[StateErrors], None]) -> None:
        self._missing = count
        self._done = done
        self._errors: dict[AssignedSharePartition, ErrorCode] = {}

    def take(self, partition: AssignedSharePartition, error: ErrorCode) -> None:
        """Record the response for one partition."""
        if error is not ErrorCode.NONE:
            self._errors[partition] = error
        self._missing -= 1
        if not self._missing:
            self._done(self._errors)


class StateAnswered:
    """The operation that passes the share coordinator's response to the group."""

    __slots__ = ("_call", "_errors", "is_at_once", "is_exclusive", "is_large", "sees_deadlines")

    def __init__(self, call: StateCall, errors: StateErrors) -> None:
        self._call = call
        self._errors = errors
        self.is_exclusive = True
        self.is_at_once = self.is_large = self.sees_deadlines = False

    @property
    def _request(self) -> PendingRequest[Any, Any] | None:
        """The client request that waits for the response, or None."""
        reply = self._call.reply
        assert reply is None or isinstance(reply, PendingRequest)
        return reply

    def apply(self, group: Group, now_ms: int, effects: Effects) -> Steps | None:
        """Continue the group's operation with the response."""
        assert group.kind is GroupKind.SHARE, group
        answered: Callable[..., Steps | None] = self._call.answered
        return answered(group, self._errors, now_ms, effects)

    def resubmit(self, submitter: Submitter) -> None:
        """Submit the client request again because the group has ended or moved."""
        if self._request is not None:
            self._request.resubmit(submitter)

    def refuse(self, error: ErrorCode) -> None:
        """Answer the client request, if any, with `error`."""
        if self._request is not None:
            self._request.refuse(error)

    def fail(self) -> None:
        """Answer the client request, if any, with UNKNOWN_SERVER_ERROR."""
        if self._request is not None:
            self._request.fail()
