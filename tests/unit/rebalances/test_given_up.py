"""Rebalance records about records that a share group has given up."""

from __future__ import annotations

import json

from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
from coordinator_server.rebalances.given_up import given_up
from coordinator_server.rebalances.record import encode_record, record_of
from coordinator_server.rebalances.story import sentence
from tests.unit.core.groups.share.context import ShareContext
from tests.unit.rebalances.schema import faults


def told(group: object, records: GivenUpRecords) -> str:
    """Return the text of the record."""
    account = given_up(group, "t", 3, records, 1_000)
    record = json.loads(encode_record(record_of("g", account)))
    assert faults(record) == []
    assert record["given_up"]["partition"] == 3
    return sentence(record)


def test_by_a_known_member() -> None:
    """The text about given-up records has the member's name and the group epoch."""
    context = ShareContext()
    context.joined(context.member("a", "three"))
    assert told(context.group, GivenUpRecords(7, 9, 5, "a")) == (
        f"epoch {context.group.epoch}: records 7 to 9 of t 3 given up after 5 deliveries, "
        "the last one to client on /127.0.0.1"
    )


def test_with_a_dead_letter_queue() -> None:
    """The text says whether the given-up records are in the dead letter queue."""
    context = ShareContext()
    context.joined(context.member("a", "three"))
    records = GivenUpRecords(7, 9, 5, "a", queue="dlq.t")
    epoch = context.group.epoch
    assert told(context.group, records) == (
        f"epoch {epoch}: records 7 to 9 of t 3 given up after 5 deliveries, the last one to client "
        "on /127.0.0.1; written to the dead letter queue dlq.t"
    )
    assert told(context.group, records._replace(rejected=True, queue_error="no topic")) == (
        f"epoch {epoch}: records 7 to 9 of t 3 rejected by client on /127.0.0.1 after 5 "
        "deliveries; not written to the dead letter queue dlq.t: no topic"
    )


def test_by_nobody() -> None:
    """Given-up records of a loaded state have no known member."""
    records = GivenUpRecords(7, 7, 1, "", rejected=True, queue="dlq.t")
    assert told(None, records) == (
        "epoch 0: record 7 of t 3 rejected by somebody after 1 delivery; "
        "written to the dead letter queue dlq.t"
    )


def test_by_a_stranger() -> None:
    """A member that fetched given-up records need not be in the group; the group may be unknown."""
    context = ShareContext()
    context.joined(context.member("a", "three"))
    expected = "record 7 of t 3 given up after 1 delivery, the last one to x"
    assert told(context.group, GivenUpRecords(7, 7, 1, "x")).endswith(expected)
    assert told(None, GivenUpRecords(7, 7, 1, "x")) == f"epoch 0: {expected}"
