"""The event for records that a share group has given up (KIP-932).

The records reached the delivery limit, or a member of a group with a dead letter queue rejected
them. This is not a rebalance, but part of the group's history. The partition leader reports only
the member id, so the event takes other details of the member from the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome, Trigger
from coordinator_server.core.groups.modern.account import cause_of
from coordinator_server.core.groups.settings import GroupKind

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.in_flight import GivenUpRecords


class RecordsOfTopic(NamedTuple):
    """The `given_up` field of a record (see `schema.GIVEN_UP`)."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
    dead_letter_queue: str | None
    dead_letter_error: str | None


class GivenUpAccount(Rebalance):
    """The event for records that were given up; `generation` is the group epoch, 0 if unknown."""

    __slots__ = ("kind", "records")

    def __init__(self, cause: Cause, epoch: int, records: RecordsOfTopic, now_ms: int) -> None:
        super().__init__(cause, epoch, None, now_ms)
        self.kind = GroupKind.SHARE
        self.records = records
        self.end(RebalanceOutcome.STABLE, None, now_ms)


def given_up(
    group: Any, topic: str, partition: int, records: GivenUpRecords, now_ms: int
) -> GivenUpAccount:
    """Return the event for `records`; `group` is the share group, or None if unknown."""
    is_known = group is not None and group.kind is GroupKind.SHARE
    epoch = group.epoch if is_known else 0
    member = group.members.get(records.member_id) if is_known else None
    trigger = Trigger.RECORDS_REJECTED if records.rejected else Trigger.DELIVERY_LIMIT
    cause = Cause(trigger, records.member_id)
    if member is not None:
        cause = cause_of(trigger, member)
    named = RecordsOfTopic(
        topic,
        partition,
        records.first,
        records.last,
        records.delivery_count,
        records.queue,
        records.queue_error,
    )
    return GivenUpAccount(cause, epoch, named, now_ms)
