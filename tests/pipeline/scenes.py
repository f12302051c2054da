"""The workload of the golden tables.

Its groups, as of `AT_MS` (two hours after `START_MS`):

* `healthy`: two members, commits every minute, a lag of a second;
* `lagging`: reads half of the records; a second member joins after an hour;
* `abandoned`: its only member left three days ago;
* `static`: two static members, one of which restarted under a new member id;
* `simple`: commits without members, with metadata of any Unicode; `ancient`: commits of a very old
  broker;
* `stopped`: has members, but last committed an hour ago, while records were written;
* `rewound`: went back and did not catch up, and commits a partition that it does not own;
* `busy`: commits the same offset again and again; `reborn`: its offset was removed and committed
  again;
* `stormy`: six generations in five minutes, later more members than partitions;
* `transactional`: commits in a committed, an aborted and an open transaction;
* `ledger`, `settled`: read a topic with transactions, and stop at the offsets of markers;
* `lossy`, `trimmed`: read a log whose beginning was removed, `lossy` too slowly;
* `deleted`: was removed with its offsets; `topicless`: its topic does not exist;
* `modern`: a KIP-848 group; `shared`: a share group; `console-consumer-48213`: a leftover of a
  tool;
* a Spark query, which never commits;
* a record of an unknown type, and a value of an unknown version.
"""

from __future__ import annotations

from protocol import consumer_group_records as modern
from protocol import offsets_log as log
from protocol.hashing import partition_for
from tests.pipeline.story import (
    AT_MS,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    OFFSETS_PARTITIONS,
    SECOND_MS,
    SESSION_MS,
    START_MS,
    Event,
    Member,
    Story,
    topic_id_of,
)

ORDERS_ID = topic_id_of("orders")
QUERY_ID = "6f1c2a8e-0b7d-4c55-9a3e-2d1f4b6c8e01"


def tell(*, loadable: bool = False) -> Story:
    """Return the whole story; `loadable` leaves out the value of an unknown version.

    Kafka does not load a partition of the offsets topic that has such a value. The loadable story
    has a record of an unknown type in its place.
    """
    story = Story()
    _records(story)
    _abandoned(story)
    _healthy(story)
    _lagging(story)
    _static(story)
    _simple(story)
    _stopped_and_rewound(story)
    _transactional(story)
    _removed(story)
    _modern(story)
    _litter_and_strange(story, loadable=loadable)
    _stormy(story)
    _with_transactions(story)
    _trimmed(story)
    _busy_and_reborn(story)
    _spark(story)
    # The open transaction comes last, because read_committed consumers cannot read past its first
    # record.
    story.commit(AT_MS - SECOND_MS, "transactional", "orders", {2: 400}, producer_id=8)
    return story


def _records(story: Story) -> None:
    """Add a record per second to 3 partitions of `orders`, and one per minute to `clicks`."""
    for minute in range(120):
        start = START_MS + minute * MINUTE_MS
        for partition in range(3):
            story.produce("orders", partition, [start + second * SECOND_MS for second in range(60)])
        story.produce("clicks", minute % 2, [start + 30 * SECOND_MS])
    # Old records for the abandoned group; the first batch has timestamps out of order.
    old = AT_MS - 3 * DAY_MS
    story.produce("archive", 0, [old, old - 5 * SECOND_MS, old + SECOND_MS])
    story.produce("archive", 0, [old + DAY_MS] * 4)


def _healthy(story: Story) -> None:
    """One member, then two, commit each minute all records older than a second."""
    first = Member("h-1", {"orders": [0, 1, 2]}, client_id="one")
    story.generation(START_MS, "healthy", 1, first)
    first = Member("h-1", {"orders": [0, 1]}, client_id="one")
    second = Member("h-2", {"orders": [2]}, client_id="two", host="/10.0.0.8")
    story.generation(START_MS + 5 * SECOND_MS, "healthy", 2, first, second)
    joined = START_MS + 5 * SECOND_MS
    story.explain(Event("healthy", 2, "member_joined", "two came", joined - 900, joined))
    for minute in range(1, 120):
        at_ms = START_MS + minute * MINUTE_MS
        done = minute * 60 - 1
        story.commit(at_ms, "healthy", "orders", {0: done, 1: done})
        story.commit(at_ms + 1, "healthy", "orders", {2: done})


def _lagging(story: Story) -> None:
    """A group reads half of the records; a second member joins after an hour."""
    alone = Member("l-1", {"orders": [0, 1, 2]})
    story.generation(START_MS, "lagging", 1, alone)
    for minute in range(1, 120):
        at_ms = START_MS + minute * MINUTE_MS
        if minute == 60:
            story.generation(
                at_ms - SECOND_MS,
                "lagging",
                2,
                Member("l-1", {"orders": [0, 2]}),
                Member("l-2", {"orders": [1]}, client_id="late"),
            )
        story.commit(at_ms, "lagging", "orders", dict.fromkeys(range(3), minute * 30))


def _abandoned(story: Story) -> None:
    """One member, three days ago, read all records and left."""
    then = AT_MS - 3 * DAY_MS
    member = Member("a-1", {"archive": [0]}, topics=("archive",), client_id="batch")
    story.generation(then + SECOND_MS, "abandoned", 1, member, protocol="roundrobin")
    story.commit(then + 2 * SECOND_MS, "abandoned", "archive", {0: 3}, metadata="done")
    story.generation(then + 3 * SECOND_MS, "abandoned", 2)


def _static(story: Story) -> None:
    """One of two static members returns under a new member id, so no partition moves."""
    one = Member("s-1a", {"clicks": [0]}, topics=("clicks",), instance="i-1", client_id="s1")
    two = Member("s-2a", {"clicks": [1]}, topics=("clicks",), instance="i-2", client_id="s2")
    again = Member("s-2b", {"clicks": [1]}, topics=("clicks",), instance="i-2", client_id="s2")
    story.generation(START_MS + MINUTE_MS, "static", 7, one, two)
    story.commit(START_MS + 2 * MINUTE_MS, "static", "clicks", {0: 1, 1: 1})
    story.generation(START_MS + 30 * MINUTE_MS, "static", 7, one, again)
    story.commit(AT_MS - 30 * SECOND_MS, "static", "clicks", {0: 60, 1: 59})


def _simple(story: Story) -> None:
    """Add commits without members, with old value versions, one with its own expiry time."""
    at_ms = START_MS + 10 * MINUTE_MS
    story.commit(at_ms, "simple", "orders", {0: 3}, metadata="h\u00e9llo \u65e5\u672c \U0001f600")
    story.commit(at_ms + 1, "simple", "orders", {1: 9000}, value_version=3)
    story.commit(at_ms + 2, "simple", "clicks", {0: 2}, value_version=1, expires_ms=AT_MS + DAY_MS)
    story.commit(at_ms + 3, "\u65e5\u672c \U0001f600\x00", "clicks", {1: 0}, value_version=0)


def _stopped_and_rewound(story: Story) -> None:
    """`stopped` commits nothing for an hour; `rewound` goes back by 3000 records."""
    member = Member("x-1", {"orders": [0]})
    story.generation(START_MS, "stopped", 3, member)
    for minute in range(1, 61):
        story.commit(START_MS + minute * MINUTE_MS, "stopped", "orders", {0: minute * 60})
    member = Member("r-1", {"orders": [1]})
    story.generation(START_MS, "rewound", 1, member)
    for minute in range(80, 120):
        back = 0 if minute < 110 else 3000
        at_ms = START_MS + minute * MINUTE_MS
        story.commit(at_ms, "rewound", "orders", {1: minute * 60 - back})
    story.commit(START_MS + 100 * MINUTE_MS, "rewound", "orders", {0: 9})


def _transactional(story: Story) -> None:
    """Add commits of which the last visible one is 200."""
    at_ms = START_MS + HOUR_MS
    group = "transactional"
    story.commit(at_ms, group, "orders", {2: 100}, producer_id=7)
    story.end_transaction(at_ms + 1, group, 7, commits=True)
    story.commit(at_ms + 2, group, "orders", {2: 200})
    story.commit(at_ms + 3, group, "orders", {2: 300}, producer_id=7)
    story.end_transaction(at_ms + 4, group, 7, commits=False)


def _removed(story: Story) -> None:
    """Remove `deleted` with its offsets; the topic of `topicless` never exists."""
    at_ms = START_MS + 20 * MINUTE_MS
    story.commit(at_ms, "deleted", "orders", {0: 5, 1: 6})
    story.generation(at_ms + 1, "deleted", 4)
    story.forget(at_ms + 2, "deleted", "orders", (0, 1))
    story.remove(at_ms + 2, "deleted")
    story.commit(at_ms, "topicless", "gone", {0: 12}, metadata="left over")


def _modern(story: Story) -> None:
    """A KIP-848 group has one member, then two, then the first one alone again."""
    at_ms, group = START_MS + 40 * MINUTE_MS, "modern"
    _modern_member(story, at_ms, "m-1", "new")
    _epoch(story, at_ms, 1, assigned_ms=at_ms + 5)
    _owns(story, at_ms + 10, "m-1", 1, {0: 1, 1: 1, 2: 1})
    story.commit(at_ms + SECOND_MS, group, "orders", {2: 2400}, topic_id=ORDERS_ID)
    at_ms += 20 * MINUTE_MS
    _modern_member(story, at_ms, "m-2", "newer")
    _epoch(story, at_ms, 2, assigned_ms=at_ms + 5)
    _owns(story, at_ms + 10, "m-1", 2, {0: 1, 1: 1})
    _owns(story, at_ms + 20, "m-2", 2, {2: 2})
    story.commit(at_ms + SECOND_MS, group, "orders", {0: 3000, 2: 3300}, topic_id=ORDERS_ID)
    at_ms += 30 * MINUTE_MS
    gone = {"group_id": group, "member_id": "m-2"}
    story.modern(
        at_ms, group, "assignment", modern.ConsumerGroupCurrentMemberAssignmentKey(**gone), None
    )
    story.modern(at_ms, group, "member", modern.ConsumerGroupMemberMetadataKey(**gone), None)
    _epoch(story, at_ms, 3, assigned_ms=None)
    _owns(story, at_ms + 10, "m-1", 3, {0: 1, 1: 1, 2: 3})


def _modern_member(story: Story, at_ms: int, member_id: str, client_id: str) -> None:
    key = modern.ConsumerGroupMemberMetadataKey(group_id="modern", member_id=member_id)
    value = modern.ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id=client_id,
        client_host="/10.0.0.9",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=SESSION_MS,
        server_assignor="uniform",
        classic_member_metadata=None,
    )
    story.modern(at_ms, "modern", "member", key, value)


def _epoch(story: Story, at_ms: int, epoch: int, assigned_ms: int | None) -> None:
    """Add an epoch and its target assignment; without `assigned_ms`, none was computed."""
    key = modern.ConsumerGroupMetadataKey(group_id="modern")
    value = modern.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=0)
    story.modern(at_ms, "modern", "epoch", key, value)
    if assigned_ms is not None:
        target = modern.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_ms
        )
        target_key = modern.ConsumerGroupTargetAssignmentMetadataKey(group_id="modern")
        story.modern(assigned_ms, "modern", "target", target_key, target)


def _owns(story: Story, at_ms: int, member_id: str, epoch: int, partitions: dict[int, int]) -> None:
    """Add a member's assignment: partitions, and the epochs at which they were assigned."""
    key = modern.ConsumerGroupCurrentMemberAssignmentKey(group_id="modern", member_id=member_id)
    owned = modern.TopicPartitions(
        topic_id=ORDERS_ID,
        partitions=list(partitions),
        assignment_epochs=list(partitions.values()),
    )
    value = modern.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=0,
        assigned_partitions=[owned],
        partitions_pending_revocation=[],
    )
    story.modern(at_ms, "modern", "assignment", key, value)


def _litter_and_strange(story: Story, *, loadable: bool) -> None:
    """Add leftovers of tools, a share group, and records that cannot be decoded."""
    at_ms = START_MS + 50 * MINUTE_MS
    story.commit(at_ms, "console-consumer-48213", "clicks", {0: 20})
    story.share(at_ms, "shared")
    unknown = b"\x00\x63what is this?", b"\x00\x00nobody knows"
    story.strange(at_ms, 0, *unknown, "record type 99 is not known")
    key = log.encode_key(log.OffsetCommitKey(group="future", topic="orders", partition=0))
    index = partition_for("future", OFFSETS_PARTITIONS)
    reason = "value version 9 of an offset commit is not known"
    if loadable:
        key, reason = unknown[0], "record type 99 is not known"
    story.strange(at_ms, index, key, b"\x00\x09new", reason)


def _stormy(story: Story) -> None:
    """Add six generations in five minutes; ten minutes later three members for two partitions."""
    at_ms, group, step_ms = START_MS + 70 * MINUTE_MS, "stormy", 40 * SECOND_MS

    def member(name: str, *partitions: int, client_id: str | None = None) -> Member:
        assigned = {"clicks": list(partitions)} if partitions else {}
        return Member(name, assigned, topics=("clicks",), client_id=client_id or name)

    story.generation(at_ms, group, 1, member("c-1", 0, 1))
    story.generation(at_ms + step_ms, group, 2, member("c-1", 0), member("c-2", 1))
    back = member("c-3", 1, client_id="c-2")
    story.generation(at_ms + 2 * step_ms, group, 3, member("c-1", 0), back)
    story.explain(
        Event(group, 3, "member_joined", "", at_ms + 2 * step_ms - 30, at_ms + 2 * step_ms)
    )
    alone = member("c-3", 0, 1, client_id="c-2")
    story.generation(at_ms + 3 * step_ms, group, 4, alone, protocol="roundrobin")
    swapped = member("c-3", 1, client_id="c-2"), member("c-4", 0)
    story.generation(at_ms + 4 * step_ms, group, 5, *swapped, protocol="roundrobin")
    story.generation(at_ms + 5 * step_ms, group, 6)
    at_ms += 15 * MINUTE_MS
    many = member("d-1", 0), member("d-2", 1), member("d-3")
    story.generation(at_ms, group, 7, *many)


def _with_transactions(story: Story) -> None:
    """Add `payments`: 0-2, marker 3; aborted 4 and 5, marker 6; 7 and 8; 9, marker 10."""
    at_ms, topic = START_MS + 65 * MINUTE_MS, "payments"
    story.produce(topic, 0, [at_ms, at_ms + 10, at_ms + 20], producer_id=9)
    story.end_produced(topic, 0, at_ms + 30, 9, commits=True)
    story.produce(topic, 0, [at_ms + 40, at_ms + 50], producer_id=9)
    story.end_produced(topic, 0, at_ms + 60, 9, commits=False)
    story.produce(topic, 0, [at_ms + 10_060, at_ms + 10_070])
    story.produce(topic, 0, [at_ms + 20_000], producer_id=9)
    story.end_produced(topic, 0, at_ms + 20_010, 9, commits=True)
    story.commit(at_ms + 35, "ledger", topic, {0: 2})
    story.commit(at_ms + 5000, "ledger", topic, {0: 4})
    story.commit(at_ms + 15_000, "settled", topic, {0: 7})
    story.commit(at_ms + 30_000, "settled", topic, {0: 10})


def _trimmed(story: Story) -> None:
    """Add a log that begins at 50; `lossy` stays at 10, `trimmed` goes on reading."""
    story.begin_at("trimmed", 0, 50)
    for minute in range(10, 110):
        story.produce("trimmed", 0, [START_MS + minute * MINUTE_MS])
    story.commit(START_MS + 15 * MINUTE_MS, "lossy", "trimmed", {0: 10})
    for minute in range(80, 90):
        at_ms = START_MS + minute * MINUTE_MS + 500
        story.commit(at_ms, "trimmed", "trimmed", {0: 40 + 3 * (minute - 70)})


def _busy_and_reborn(story: Story) -> None:
    """Add repeated commits, an offset committed again after removal, and an old-format commit."""
    story.generation(START_MS, "busy", 1, Member("b-1", {"orders": [2]}))
    for minute in range(85, 120):
        text = "x" * (minute - 84)
        at_ms = START_MS + minute * MINUTE_MS
        story.commit(at_ms, "busy", "orders", {2: 100}, metadata=text)
    at_ms = START_MS + 75 * MINUTE_MS
    story.commit(at_ms, "reborn", "clicks", {0: 5, 1: 5})
    story.forget(at_ms + 1, "reborn", "clicks", [0])
    story.commit(at_ms + 2, "reborn", "clicks", {0: 3})
    story.commit(at_ms + 3 * MINUTE_MS, "reborn", "clicks", {0: 7})
    story.commit_long_ago(at_ms, "ancient", "clicks", 1, 3)


def _spark(story: Story) -> None:
    """Add three micro-batches over two partitions of `orders`."""
    for number in range(3):
        at_ms = START_MS + (90 + 5 * number) * MINUTE_MS
        for partition in range(2):
            end = 5000 + 600 * number + partition
            story.progress.append((QUERY_ID, "sink", "orders", partition, number, end, at_ms))
