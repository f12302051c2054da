"""TxnOffsetCommit: offsets that take effect when their transaction is committed.

The transaction coordinator has already verified the transaction (see `apis.txn_offset_commit`). The
request wraps an OffsetCommit with a producer. Source:
OffsetMetadataManager.commitTransactionalOffset, KIP-447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups import offset_commit
from coordinator_server.core.groups.api import GroupApi
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch, Reply
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.settings import GroupSettings
    from coordinator_server.steps import Steps
    from protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse

NEW_ERRORS_SINCE = 6
"""From this version on, clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""


class TransactionalCommit(NamedTuple):
    """A commit in the transaction of `producer`."""

    group_id: str
    producer: ProducerIdAndEpoch
    commit: OffsetCommitRequest


def validate(request: TransactionalCommit, _: Caller, __: GroupSettings) -> ErrorCode:
    """Return INVALID_GROUP_ID for an empty group id, which only plain commits may have."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refuse(request: TransactionalCommit, caller: Caller, error: ErrorCode) -> OffsetCommitResponse:
    """Return a response with `error` on every partition of the request."""
    return offset_commit.refuse(request.commit, caller, error)


def missing(request: TransactionalCommit, caller: Caller) -> OffsetCommitResponse:
    """Return the error for a commit with a generation to a group that does not exist."""
    error = ErrorCode.ILLEGAL_GENERATION
    if caller.api_version >= NEW_ERRORS_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    return refuse(request, caller, error)


def creates_group(request: TransactionalCommit) -> bool:
    """Return whether the commit creates a missing group: commits without generation or epoch do."""
    return offset_commit.creates_group(request.commit)


def commit(
    group: Group,
    request: TransactionalCommit,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
) -> Steps | None:
    """Store the offsets as pending, in one batch; the response is sent after the write.

    Unlike a plain commit, a transactional commit renews no session.
    """
    error = group.check_transactional_commit(request.commit)
    if error is ErrorCode.STALE_MEMBER_EPOCH and reply.caller.api_version < NEW_ERRORS_SINCE:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is not ErrorCode.NONE:
        effects.reply(reply, refuse(request, reply.caller, error))
        return None
    return offset_commit.store(group, request.commit, reply, now_ms, effects, request.producer)


TRANSACTIONAL_COMMIT = GroupApi(
    request_type=TransactionalCommit,
    serve=commit,
    serves_every_kind=True,
    refuse=refuse,
    missing=missing,
    validate=validate,
    creates_group=creates_group,
)
