"""`coordinator-server explain` for a consumer group (KIP-848) with real consumers."""

from __future__ import annotations

import json
import time
from typing import Any

import confluent_kafka
import pytest

from coordinator_server.testing import Broker
from tests.e2e.commands import explain
from tests.support import wait_for
from tests.unit.rebalances.schema import faults


def consumer(broker: Broker, client_id: str) -> confluent_kafka.Consumer:
    """Return a consumer of group `g` with the consumer protocol."""
    made = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
        }
    )
    made.subscribe(["t"])
    return made


def poll(broker: Broker, members: int, *consumers: confluent_kafka.Consumer) -> None:
    """Poll until the group is stable with all of `members`."""
    give_up_s = time.monotonic() + 60
    while True:
        for one in consumers:
            one.poll(0.05)
        group = broker.group("g")
        if group and (group.state, len(group.members)) == ("Stable", members):
            return
        assert time.monotonic() < give_up_s, str(group)


@pytest.mark.real_time
def test_the_story_of_a_consumer_group() -> None:
    """The explanation names two members that joined, and the expiry of all sessions."""
    with Broker() as broker:
        broker.create_topic("t", 6)
        first = consumer(broker, "c-1")
        poll(broker, 1, first)
        second = consumer(broker, "c-2")
        poll(broker, 2, first, second)
        code, now, errors = explain(
            broker.bootstrap_servers,
            "g",
            "--last",
            "1",
            "--http",
            "{}:{}".format(*broker.control.address),
        )
        assert (code, errors) == (0, "")
        place = now.index("now:")
        assert now[place + 1].startswith("    Stable, epoch ")
        assert sum("STABLE; has t " in line for line in now[place + 2 :]) == 2
        broker.clock.advance(45)
        broker.wait_for_group("g", state="Empty")
        records: list[dict[str, Any]] = []

        def is_complete() -> bool:
            code, lines, errors = explain(broker.bootstrap_servers, "g", "--json")
            assert (code, errors) == (0, "")
            records[:] = [json.loads(line) for line in lines]
            return bool(records[-1]["outcome"] == "empty")

        wait_for(is_complete, "the broker collects rebalance records for 50 ms")
        assert [fault for record in records for fault in faults(record)] == []
        assert {record["group_type"] for record in records} == {"consumer"}
        joined = next(record for record in records if record["culprit"]["client_id"] == "c-2")
        assert joined["trigger"] == "member joined"
        assert joined["partitions"]["moved"] == 3
        (waited, *_) = [one for one in joined["delays"] if one["client_id"] == "c-2"]
        assert waited["waiting_ms"] is not None
        last = records[-1]
        assert [one["trigger"] for one in (last, *last["also"])] == ["member expired"] * 2
        for one in (first, second):
            one.close()
