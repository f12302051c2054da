"""Groups of all four types: members, lag, offsets, rebalances, share partitions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from coordinator_server.control.shapes.share import SharePartition

GroupType = Literal["classic", "consumer", "share", "streams"]

Assignment = dict[str, list[int]]
"""Partitions by topic; in streams groups tasks by subtopology."""


class GroupEntry(TypedDict):
    """A group as an entry in a list of groups."""

    group: Annotated[str, "group id"]
    type: Annotated[GroupType, "type"]
    state: Annotated[str, "state by Kafka's name, such as Stable"]
    members: Annotated[int, "number of members"]
    coordinator: Annotated[int, "node id of the coordinator"]
    protocol_type: Annotated[str | None, "protocol type, such as consumer"]
    generation: Annotated[int, "generation, or group epoch"]
    lag: Annotated[
        int | None, "records between the committed offsets and the ends; null without offsets"
    ]
    time_lag_ms: Annotated[
        int | None,
        "age of the oldest unread record, 0 if all is read; null without offsets, and without the "
        "parameter `times=true`",
    ]
    beyond_end: Annotated[int, "sum of the distances of offsets beyond the log end; normally 0"]


class Groups(TypedDict):
    """A page of groups, sorted by id."""

    groups: Annotated[list[GroupEntry], "the groups"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]
    not_loaded: NotRequired[
        Annotated[list[str], "why groups are missing here: the partitions that are not loaded"]
    ]


class Member(TypedDict):
    """A member of a group. Members of classic groups lack the fields after `waits_for`."""

    member_id: Annotated[str, "member id"]
    instance_id: Annotated[str | None, "group.instance.id of a static member"]
    client_id: Annotated[str, "client id"]
    host: Annotated[str, "address as Kafka writes it, such as /127.0.0.1"]
    subscription: Annotated[list[str], "subscribed topics"]
    assignment: Annotated[Assignment, "partitions that the member has now"]
    waits_for: Annotated[
        str | None, "the member's pending request, or the partitions that the member waits for"
    ]
    epoch: NotRequired[Annotated[int, "member epoch"]]
    state: NotRequired[Annotated[str, "state of the member, such as STABLE"]]
    target: NotRequired[Annotated[Assignment, "partitions that the member is to have"]]
    revoking: NotRequired[Annotated[Assignment, "partitions that the member must still revoke"]]
    revoking_ms: NotRequired[Annotated[int | None, "how long the member has been revoking them"]]
    waits_for_release: NotRequired[
        Annotated[dict[str, Assignment], "the awaited partitions by the member that has them"]
    ]
    waiting_ms: NotRequired[Annotated[int | None, "how long the member has been waiting"]]
    standby: NotRequired[Annotated[Assignment, "streams groups: standby tasks"]]
    warmup: NotRequired[Annotated[Assignment, "streams groups: warm-up tasks"]]


class CommittedOffset(TypedDict):
    """A committed offset."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    offset: Annotated[int, "committed offset"]
    metadata: Annotated[str | None, "metadata of the commit"]
    commit_timestamp_ms: Annotated[int, "when the offset was committed"]


class Group(TypedDict):
    """A group with its members and committed offsets. Classic groups lack `assignment_epoch`."""

    group: Annotated[str, "group id"]
    type: Annotated[GroupType, "type"]
    coordinator: Annotated[int, "node id of the coordinator"]
    state: Annotated[str, "state by Kafka's name"]
    protocol_type: Annotated[str | None, "protocol type, such as consumer"]
    generation: Annotated[int, "generation, or group epoch"]
    assignment_epoch: NotRequired[Annotated[int, "epoch of the target assignment"]]
    protocol: Annotated[str | None, "protocol of a classic group, otherwise the assignor"]
    leader: Annotated[str | None, "member id of the leader of a classic group"]
    members: Annotated[list[Member], "members"]
    under_way: NotRequired[Annotated[list[str], "the rebalance in progress, in words"]]
    now: NotRequired[Annotated[list[str], "the present state, in words"]]
    share_partitions: NotRequired[
        Annotated[list[SharePartition], "share groups: in-flight records by partition"]
    ]
    is_settled: NotRequired[Annotated[bool, "share groups: whether all members have their target"]]
    offsets: Annotated[list[CommittedOffset], "committed offsets"]
    last_rebalance: Annotated[list[str], "the last rebalance, in words"]


class PartitionLag(TypedDict):
    """The lag of a group in one partition."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    member_id: Annotated[str | None, "the member that has the partition"]
    client_id: Annotated[str | None, "client id of this member"]
    host: Annotated[str | None, "address of this member"]
    offset: Annotated[int | None, "committed offset; share groups: start offset; null without one"]
    commit_timestamp_ms: Annotated[int | None, "when the offset was committed"]
    start_offset: Annotated[int | None, "log start offset; null if the topic does not exist"]
    end_offset: Annotated[int | None, "high watermark, read after the committed offset"]
    lag: Annotated[int | None, "unread records: end offset - committed offset; null without one"]
    lost: Annotated[int, "records that were deleted before the group has read them"]
    beyond_end: Annotated[
        int,
        "distance of the committed offset beyond the log end offset: the next records are not "
        "read, or `auto.offset.reset` applies; normally 0",
    ]
    time_lag_ms: Annotated[
        int | None,
        "age of the oldest unread record, 0 if all is read or only transaction markers follow; "
        "null without an offset, if records were lost or if the record has no timestamp",
    ]
    lagging_since_ms: Annotated[int | None, "timestamp of the oldest unread record"]


class GroupLag(TypedDict):
    """The lag of a group. Assigned partitions without a committed offset are included."""

    group: Annotated[str, "group id"]
    state: Annotated[str, "state by Kafka's name"]
    now_ms: Annotated[int, "the broker's time of these numbers"]
    lag: Annotated[int | None, "sum over the partitions; null without offsets"]
    lost: Annotated[int, "sum over the partitions"]
    beyond_end: Annotated[int, "sum over the partitions"]
    time_lag_ms: Annotated[int | None, "largest value of a partition"]
    partitions: Annotated[list[PartitionLag], "by topic and partition"]


class LagSample(TypedDict):
    """A sample of a group's lag, which is valid until the time of the next sample."""

    at_ms: Annotated[int, "the broker's time"]
    lag: Annotated[int | None, "unread records, null without offsets"]


class LagHistory(TypedDict):
    """Samples of the lag of a group, taken every 5 s. A sample equal to the last one is dropped."""

    group: Annotated[str, "group id"]
    now_ms: Annotated[int, "the broker's time: the last sample is valid until then"]
    samples: Annotated[list[LagSample], "the samples, the oldest first"]


class OffsetToSet(TypedDict):
    """An offset to commit for a group without members."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    offset: Annotated[int, "offset"]
    metadata: NotRequired[Annotated[str, "metadata of the commit"]]


class OffsetsToSet(TypedDict):
    """Offsets to commit."""

    offsets: Annotated[list[OffsetToSet], "the offsets"]


class OffsetReset(TypedDict):
    """A reset of offsets, as `kafka-consumer-groups --reset-offsets` does it."""

    to: Annotated[
        Literal["earliest", "latest", "timestamp", "shift", "offset", "current"],
        "the new offsets: the log start, the log end, the first record at or after "
        "`timestamp_ms`, the committed offset plus `shift_by`, `offset`, or the committed offset",
    ]
    topics: NotRequired[Annotated[list[str], "topics; by default those with committed offsets"]]
    partitions: NotRequired[Annotated[list[int], "partitions of these topics; by default all"]]
    timestamp_ms: NotRequired[Annotated[int, "for `timestamp`"]]
    shift_by: NotRequired[Annotated[int, "for `shift`; may be negative"]]
    offset: NotRequired[Annotated[int, "for `offset`"]]
    dry_run: NotRequired[
        Annotated[bool, "true: only return the new offsets, or the error of the reset"]
    ]


class OffsetChange(TypedDict):
    """A committed offset before and after a change."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    before: Annotated[int | None, "committed offset before; null if there was none"]
    after: Annotated[
        int | None,
        "committed offset after the change: `before` if `error` is set, null if there is none",
    ]
    error: Annotated[str | None, "Kafka's error for this partition, null if it was changed"]
    warning: Annotated[
        str | None,
        "the offset is outside the log; a reset then uses the first or last offset of the log",
    ]


class OffsetChanges(TypedDict):
    """The changes of a group's offsets."""

    group: Annotated[str, "group id"]
    dry_run: Annotated[bool, "whether nothing was changed"]
    offsets: Annotated[list[OffsetChange], "by topic and partition"]


class Rebalance(TypedDict):
    """A rebalance: its record in the topic `__group_events`, and a description in sentences."""

    group: Annotated[str, "group id"]
    started_ms: Annotated[int, "when the rebalance began"]
    ended_ms: Annotated[int, "when the rebalance ended"]
    account: Annotated[dict[str, Any], "the record of `__group_events`, see rebalances.md"]
    story: Annotated[list[str], "the rebalance as sentences"]


class Rebalances(TypedDict):
    """A page of rebalances, the latest first."""

    rebalances: Annotated[list[Rebalance], "the rebalances"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]
