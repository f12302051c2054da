"""Share partitions and their in-flight records."""

from __future__ import annotations

from typing import Annotated, TypedDict


class GivenUp(TypedDict):
    """Consecutive records that reached the delivery limit or that a member rejected."""

    first: Annotated[int, "first offset"]
    last: Annotated[int, "last offset"]
    delivery_count: Annotated[int, "number of deliveries"]
    member_id: Annotated[str, "the last member that had the records"]
    rejected: Annotated[bool, "whether the member rejected the records"]
    queue: Annotated[str | None, "topic of the dead letter queue"]
    queue_error: Annotated[str | None, "why the records are not in the dead letter queue"]


class SharePartition(TypedDict):
    """A share partition, with counts of its in-flight records."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    leader: Annotated[int, "node id of the leader"]
    state: Annotated[str, "state of the share partition, such as ACTIVE"]
    start_offset: Annotated[int, "share-partition start offset: records below are done"]
    end_offset: Annotated[int, "offset of the last in-flight record"]
    in_flight: Annotated[int, "records in flight"]
    states: Annotated[dict[str, int], "records by state, such as Acquired"]
    members: Annotated[dict[str, int], "acquired records by member id"]
    deliveries: Annotated[dict[str, int], "records by number of deliveries"]
    given_up: Annotated[list[GivenUp], "the latest records that were given up"]


class InFlight(TypedDict):
    """Consecutive records in flight with the same state."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    first: Annotated[int, "first offset"]
    last: Annotated[int, "last offset"]
    records: Annotated[int, "number of records"]
    state: Annotated[str, "state: Available, Acquired, Acknowledged, Archiving or Archived"]
    delivery_count: Annotated[int, "number of deliveries"]
    member_id: Annotated[str | None, "the member that has acquired the records"]
    locked_until_ms: Annotated[int | None, "when the acquisition lock ends"]


class InFlightRecords(TypedDict):
    """A page of in-flight records of a share group, sorted by topic, partition and offset."""

    group: Annotated[str, "group id"]
    now_ms: Annotated[int, "the broker's time"]
    in_flight: Annotated[list[InFlight], "the records"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]
