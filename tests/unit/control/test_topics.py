"""Topics in the control API: partitions that cannot be opened, topics that cannot be created."""

from __future__ import annotations

import pytest

from coordinator_server.control import topics
from coordinator_server.control.request import ControlError
from protocol.batch import Record, build_batch
from storage.memory_disk import MemoryDisk
from tests.harness.broker import DATA
from tests.unit.control.virtual_time import VirtualTimeNodes


def with_an_unreadable_partition() -> VirtualTimeNodes:
    """Return a broker with the topics `t` and `u`; the log of u-1 cannot be opened."""
    before = VirtualTimeNodes(MemoryDisk(), 1)
    before.topics.create("u", 2, {})
    before.partition("u", 1).append_own(build_batch([Record(0, 0, None, b"v", [])]), 0)
    before.groups.stop()
    before.logs.close()
    before.disk.unreadable.add(f"{DATA}/u-1/{0:020}.log")
    return VirtualTimeNodes(before.disk, 1)


async def test_a_partition_that_cannot_be_opened_is_offline() -> None:
    """Lists show the partition without a leader and with its error, and all others as usual."""
    nodes = with_an_unreadable_partition()
    listed = await nodes.done(topics.topics(nodes.control_request("topics list", internal="false")))
    assert [topic["topic"] for topic in listed["topics"]] == ["t", "u"]
    sound, broken = listed["topics"][1]["partitions"]
    assert sound == {"start_offset": 0, "end_offset": 0}
    error = broken.pop("error")
    assert error.startswith("KAFKA_STORAGE_ERROR: u-1 cannot be opened: [Errno 5] read error")
    assert broken == {"start_offset": -1, "end_offset": -1}
    shown = await nodes.done(topics.topic(nodes.control_request("topics show", TOPIC="u")))
    assert shown["partitions"] == [sound, {**broken, "error": error}]
    described = await nodes.done(
        topics.partitions(nodes.control_request("topics partitions", TOPIC="u"))
    )
    first, second = described["partitions"]
    assert (first["leader"], first["end_offset"], "error" in first) == (nodes.node_id, 0, False)
    assert (second["leader"], second["end_offset"], second["error"]) == (-1, -1, error)


@pytest.mark.parametrize(
    ("name", "body", "status", "text"),
    [
        ("t", {}, 409, "topic t: TOPIC_ALREADY_EXISTS: Topic 't' already exists."),
        ("a b", {}, 400, "topic a b: INVALID_TOPIC_EXCEPTION: "),
        ("v", {"configs": {"retention.ms": "x"}}, 400, "topic v: INVALID_CONFIG: "),
        ("v", {"partitions": 0}, 400, "topic v: INVALID_PARTITIONS: "),
    ],
)
async def test_a_refused_topic_has_kafkas_error(
    name: str, body: dict[str, object], status: int, text: str
) -> None:
    """A topic that exists gets 409, an invalid one 400, each with the name of Kafka's error."""
    nodes = VirtualTimeNodes(None, 1)
    with pytest.raises(ControlError) as refused:
        await topics.create(nodes.control_request("topics create", body, TOPIC=name))
    assert refused.value.status == status
    assert str(refused.value).startswith(text)
