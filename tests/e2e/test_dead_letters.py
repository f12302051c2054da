"""Dead letters in a real process: many at once block no other client, and a kill loses none."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kafka
import pytest

from benchmarks.largest_requests import heart
from protocol.apis.share_fetch import ACCEPT, REJECT
from tests.oracle.share_reader import Reader
from tests.oracle.share_script import Cluster, ScriptedMember
from tests.support import Broker, wait_for

SETTINGS = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "group.share.partition.max.record.locks": "4000",
    "group.share.assignment.interval.ms": "0",
    "num.partitions": "1",
}
GROUP, TOPIC, QUEUE = "workers", "jobs", "dlq.jobs"
MANY = 4_000
"""The default limit of records that a group may lock."""
WORST_MS = 100


def reader_of(broker: Broker, values: int, size: int, **configs: Any) -> Reader:
    """Create a topic with values; return a share session of a group with a dead letter queue."""
    cluster = Cluster(broker.bootstrap_servers)
    cluster.make_topics({TOPIC: 1})
    cluster.wait_until_shared(TOPIC, 1)
    cluster.configure(
        GROUP,
        share_auto_offset_reset="earliest",
        errors_deadletterqueue_topic_name=QUEUE,
        errors_deadletterqueue_copy_record_enable="true",
        **configs,
    )
    broker.produce(TOPIC, *[b"%d " % number + b"v" * size for number in range(values)])
    ScriptedMember(cluster, GROUP, "a").join(TOPIC)
    return Reader(cluster, GROUP, "a", TOPIC)


def letters(broker: Broker) -> dict[int, bytes | None]:
    """Return the copied values by the offset of the original record."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, enable_auto_commit=False
    )
    try:
        place = kafka.TopicPartition(QUEUE, 0)
        if QUEUE not in consumer.topics():
            return {}
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found: dict[int, bytes | None] = {}
        while consumer.position(place) < end:
            for records in consumer.poll(500).values():
                for one in records:
                    found[int(dict(one.headers)["__dlq.errors.offset"])] = one.value
        return found
    finally:
        consumer.close()


@pytest.mark.alone
@pytest.mark.real_time
@pytest.mark.parametrize("flush", ["9223372036854775807", "1"])
def test_many_dead_letters_do_not_hold_up_heartbeats(flush: str) -> None:
    """One request that rejects every other one of 4000 records does not delay heartbeats."""
    with Broker({**SETTINGS, "log.flush.interval.messages": flush}) as broker:
        reader = reader_of(broker, MANY, 100)
        while True:
            acquired = reader.fetch(max_records=MANY, max_wait_ms=100)
            if acquired[-1][1] == MANY - 1:
                break
        types = [ACCEPT, REJECT] * (MANY // 2)
        with heart(broker) as probe:
            probe.waits_ms()
            reader.acknowledge((0, MANY - 1, types))
            wait_for(lambda: len(letters(broker)) == MANY // 2, "all are in the queue", 60)
            worst_ms = probe.waits_ms()[-1]
        found = letters(broker)
        assert sorted(found) == list(range(1, MANY, 2))
        assert all((value or b"").startswith(b"%d " % offset) for offset, value in found.items())
        assert worst_ms < WORST_MS


@pytest.mark.real_time
def test_a_kill_loses_no_dead_letter(tmp_path: Path) -> None:
    """Rejected records reach the queue although the broker is killed after its response.

    They are written once a client makes the restarted broker read the share-group state.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(SETTINGS, data_dir=tmp_path / "data"))
        reader = reader_of(broker, 2_000, 10)
        reader.fetch(max_records=2_000)
        reader.acknowledge((0, 1_999, REJECT))
        broker.kill()
        broker.start()
        again = Reader(Cluster(broker.bootstrap_servers), GROUP, "a", TOPIC)
        again.fetch(max_wait_ms=500)
        wait_for(lambda: len(letters(broker)) == 2_000, "all are in the queue", 30)
        assert sorted(letters(broker)) == list(range(2_000))
