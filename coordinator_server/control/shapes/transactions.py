"""Transactions, and the partitions that they block."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict


class Transaction(TypedDict):
    """A transactional id."""

    transactional_id: Annotated[str, "transactional id"]
    coordinator: Annotated[int, "node id of the coordinator"]
    state: Annotated[str, "state by Kafka's name, such as Ongoing"]
    producer_id: Annotated[int, "producer id"]
    producer_epoch: Annotated[int, "producer epoch"]
    timeout_ms: Annotated[int, "transaction.timeout.ms of the producer"]
    open_since_ms: Annotated[int | None, "start of the open transaction"]
    partitions: Annotated[list[str], "partitions of the open transaction, as TOPIC-PARTITION"]


class HeldBack(TypedDict):
    """A partition in which an open transaction blocks consumers with read_committed."""

    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    last_stable_offset: Annotated[int, "where consumers with read_committed stop"]
    log_end_offset: Annotated[int, "log end offset"]
    producer_id: Annotated[int, "producer id of the transaction"]
    transactional_id: Annotated[
        str | None,
        "its transactional id; null if no coordinator knows it, or if the user may not see it",
    ]
    since_ms: Annotated[int, "start of the transaction"]
    reason: Annotated[str, "the same in words"]


class Transactions(TypedDict):
    """A page of sorted transactional ids, and all partitions blocked by open transactions."""

    transactions: Annotated[list[Transaction], "transactional ids"]
    held_back: Annotated[list[HeldBack], "blocked partitions"]
    next: Annotated[str | None, "the value of `after` for the next page; null on the last page"]
    not_loaded: NotRequired[
        Annotated[list[str], "why ids are missing here: the partitions that are not loaded"]
    ]


class StuckGroup(TypedDict):
    """A group that waits at a partition blocked by a transaction."""

    group: Annotated[str, "group id"]
    topic: Annotated[str, "topic"]
    partition: Annotated[int, "partition"]
    offset: Annotated[int | None, "committed offset"]
    records_behind: Annotated[int, "records between the last stable offset and the log end"]


class TransactionDetails(TypedDict):
    """A transaction, the partitions that it blocks, and the groups that wait for its end."""

    transaction: Annotated[Transaction, "the transaction"]
    held_back: Annotated[list[HeldBack], "the partitions that it blocks"]
    stuck_groups: Annotated[
        list[StuckGroup],
        "groups whose committed offset is at the last stable offset or after, and groups without "
        "one whose members have the partition",
    ]


class TransactionEnded(TypedDict):
    """A transaction that was aborted."""

    transactional_id: Annotated[str, "transactional id"]
    state: Annotated[str, "state after the request"]
