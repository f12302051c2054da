"""AddPartitionsToTxn: unknown partitions, internal topics, batches, verification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.producers import Partition, Producer, by_topic, error
from tests.conformance.stage import Area, Stage

AREA = Area("txn_partitions")

VERSIONS = (0, 3, 4, 5)


def _unknown_topic(t: Stage) -> str:
    name = f"{t.g}-none"
    t.name_it(name, "<none>")
    return name


@AREA.each(v=VERSIONS)
def unknown_among_known(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} of known and unknown partitions adds none of them."""
    p = Producer(t).started()
    known, unknown = (t.t3, 0), _unknown_topic(t)
    p.add([known, (t.t3, 9)], "unknown partition", version=v)
    p.add([known, (unknown, 0)], "unknown topic", version=v)
    p.add([known, (t.t3, -1)], "negative partition", version=v)
    p.add([known, ("not a name!", 0)], "topic of an invalid name", version=v)
    p.add([known, ("", 0)], "topic without a name", version=v)
    p.add([(unknown, 0)], "unknown topic alone", version=v)
    p.look()
    p.add([known], version=v)
    p.add([known, (t.t3, 9)], "unknown partition, in a transaction", version=v)
    p.look()


@AREA.each(v=VERSIONS)
def nothing_and_twice(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} has no topic, no partition, added partitions, and a topic twice."""
    p = Producer(t).started()
    p.add([], "nothing", version=v)
    p.look()
    p.add([(t.t3, 0), (t.t3, 0)], "partition twice", version=v)
    p.look()
    p.add([(t.t3, 0)], "again", version=v)
    p.add([(t.t3, 0), (t.t3, 1), (t.t1, 0)], "again and others", version=v)
    p.look()
    p.commit()
    p.add([(t.t1, 0)], "after the end", version=v)
    p.look()


@AREA.each(v=VERSIONS)
def internal_topics(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} names internal topics, which only brokers may add."""
    p = Producer(t).started()
    if v < 4:
        p.add([("__transaction_state", 0)], version=v)
        p.look()
    p.add([("__consumer_offsets", 0)], version=v)
    p.look()
    p.abort()
    p.look()


@AREA.each(v=[4, 5])
def verification(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} with verify_only names added, other and unknown partitions."""
    p = Producer(t).started()
    two = [(t.t3, 0), (t.t3, 1)]
    p.add(two, "empty", version=v, verify_only=True)
    p.add([(t.t3, 0)])
    p.add(two, "one of two", version=v, verify_only=True)
    p.add([(t.t3, 0), (t.t3, 9)], "unknown partition", version=v, verify_only=True)
    p.add([(_unknown_topic(t), 0)], "unknown topic", version=v, verify_only=True)
    p.add([], "nothing", version=v, verify_only=True)
    p.look()
    p.commit()
    p.add(two, "after the end", version=v, verify_only=True)
    p.look()


def batch(t: Stage, label: str, v: int, transactions: Sequence[dict[str, Any]]) -> None:
    """Send AddPartitionsToTxn of many transactions; record [error, errors by id]."""
    body = {"transactions": list(transactions)}
    answer = t.raw("AddPartitionsToTxn", v, body)
    results = [
        [
            t.sub(one["transactional_id"]),
            sorted(
                [
                    t.partition(topic["name"], partition["partition_index"]),
                    error(partition["partition_error_code"]),
                ]
                for topic in one["topic_results"]
                for partition in topic["results_by_partition"]
            ),
        ]
        for one in answer["results_by_transaction"]
    ]
    t.rec(label, [error(answer["error_code"]), sorted(results)])


def transaction(
    p: Producer, partitions: Sequence[Partition], verify_only: bool = False, **changes: Any
) -> dict[str, Any]:
    """Return one transaction of a batched request."""
    return {
        "transactional_id": p.transactional_id,
        "producer_id": p.producer_id,
        "producer_epoch": p.epoch,
        "verify_only": verify_only,
        "topics": [{"name": name, "partitions": indexes} for name, indexes in by_topic(partitions)],
        **changes,
    }


@AREA.each(v=[4, 5])
def many_transactions(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} of several transactional ids has separate results.

    Kafka never answers when the list is empty.
    """
    p, q, r = (Producer(t, name).started() for name in "PQR")
    zero, one = [(t.t3, 0)], [(t.t3, 1)]
    batch(
        t,
        "good, wrong epoch, unknown partition",
        v,
        [
            transaction(p, zero),
            transaction(q, zero, producer_epoch=7),
            transaction(r, [*zero, (t.t3, 9)]),
        ],
    )
    for each in (p, q, r):
        each.look()
    batch(
        t,
        "added, verified, verified and not added",
        v,
        [
            transaction(q, one),
            transaction(p, [*zero, *one], verify_only=True),
            transaction(r, zero, verify_only=True),
        ],
    )
    for each in (p, q, r):
        each.look()
    batch(t, "no partitions", v, [transaction(p, [])])
    batch(
        t,
        "no partitions of one beside another",
        v,
        [transaction(p, []), transaction(q, zero)],
    )
    q.look()


@AREA.each(v=[4, 5])
def unknown_transactional_ids(t: Stage, v: int) -> None:
    """AddPartitionsToTxn v{v} names unknown ids, with and without verify_only."""
    p = Producer(t).started()
    stranger = f"{t.g}-stranger"
    t.name_it(stranger, "<stranger>")
    for verify_only in (False, True):
        batch(
            t,
            f"unknown and empty, verify_only {verify_only}",
            v,
            [
                transaction(p, [(t.t3, 0)], verify_only, transactional_id=stranger),
                transaction(p, [(t.t3, 0)], verify_only, transactional_id=""),
            ],
        )
    p.look()


@AREA.each(v=range(5))
def groups(t: Stage, v: int) -> None:
    """AddOffsetsToTxn v{v} adds a group, another group, the same group again, and an empty name."""
    p = Producer(t).started()
    p.add_offsets(version=v)
    p.look()
    p.add_offsets("again", version=v)
    p.add_offsets("another group", version=v, group_id=t.group("another"))
    p.add_offsets("empty group id", version=v, group_id="")
    p.abort()
    p.look()
