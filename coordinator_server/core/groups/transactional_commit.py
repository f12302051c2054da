"""TxnOffsetCommit: offsets that count once the transaction they belong to is committed.

The transaction coordinator has been asked before (see `apis.txn_offset_commit`). Inside it is an
OffsetCommit with a producer. Source: OffsetMetadataManager.commitTransactionalOffset, KIP-447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups import offset_commit
from coordinator_server.core.groups.api import GroupApi
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, ProducerIdAndEpoch, Reply, Steps
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.settings import GroupSettings
    from protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse

NEW_ERRORS_SINCE = 6
"""From this version on clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""


class TransactionalCommit(NamedTuple):
    """A commit as part of the transaction of `producer`."""

    group_id: str
    producer: ProducerIdAndEpoch
    commit: OffsetCommitRequest


def validate(request: TransactionalCommit, _: Caller, __: GroupSettings) -> ErrorCode:
    """Empty group id: a group for plain commits, but not here."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refuse(request: TransactionalCommit, caller: Caller, error: ErrorCode) -> OffsetCommitResponse:
    """The same error on every partition of the request."""
    return offset_commit.refuse(request.commit, caller, error)


def missing(request: TransactionalCommit, caller: Caller) -> OffsetCommitResponse:
    """A generation of a group that does not exist."""
    error = ErrorCode.ILLEGAL_GENERATION
    if caller.api_version >= NEW_ERRORS_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    return refuse(request, caller, error)


def creates_group(request: TransactionalCommit) -> bool:
    """A commit that names no generation makes the group."""
    return offset_commit.creates_group(request.commit)


def commit(
    group: Group,
    request: TransactionalCommit,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
) -> Steps | None:
    """Store the offsets as pending; all in one batch, answered when written.

    It renews no session, unlike a plain commit.
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
