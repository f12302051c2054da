"""Reading and writing records by the control API: limits, steps, and all or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coordinator_server.control import browse, records
from coordinator_server.control.content import View
from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.control.routes import ROUTES
from coordinator_server.steps import run_all
from protocol.compression import Compression
from tests.harness.clock import START_MS
from tests.harness.records import batch
from tests.unit.control.virtual_time import VirtualTimeNodes

MIB = 1 << 20
LARGE = {"max.message.bytes": "100000000", "max.decompressed.message.bytes": "100000000"}


@pytest.fixture
def nodes() -> VirtualTimeNodes:
    """Return a broker with an empty topic `large`."""
    nodes = VirtualTimeNodes(None, 1)
    nodes.topics.create("large", 1, LARGE)
    return nodes


def append(nodes: VirtualTimeNodes, *values: bytes, codec: Compression = Compression.GZIP) -> None:
    """Append one batch to `large`."""
    nodes.partition("large", 0).append(batch(*values, compression=codec), START_MS)


def request_of(
    nodes: VirtualTimeNodes, verb: str, query: Mapping[str, str], **fields: Any
) -> ControlRequest:
    """Return a request for partition 0 of `large`."""
    (route,) = (route for route in ROUTES if route.verb == verb)
    parameters = {"TOPIC": "large", "INDEX": "0"}
    values = route.values(query)
    return ControlRequest(
        nodes.cluster, parameters, query, values=values, route=route, **{"body": b"", **fields}
    )


async def pages(nodes: VirtualTimeNodes, **query: str) -> list[list[dict[str, Any]]]:
    """Return the pages of GET /topics/large/records until the end."""
    found = []
    while True:
        answer = await records.browse(request_of(nodes, "records list", query))
        found.append(answer["records"])
        if answer["next"] is None:
            return found
        query["after"] = answer["next"]


# --- reading --------------------------------------------------------------------------------------


async def test_a_page_ends_by_the_bytes_that_it_shows(nodes: VirtualTimeNodes) -> None:
    """A small compressed batch of 40 records of 1 MiB fills several pages of at most 17 records."""
    for _ in range(40):
        append(nodes, b"x" * MIB)
    found = await pages(nodes, limit="1000", max_bytes=str(16 * MIB))
    assert [one["offset"] for page in found for one in page] == list(range(40))
    assert max(map(len, found)) <= 17
    assert len(await pages(nodes, limit="1000", max_bytes=str(16 * MIB), format="hex")) >= 5


async def test_a_page_counts_decompressed_bytes(nodes: VirtualTimeNodes) -> None:
    """A filter that matches nothing ends its page after 16 MiB of decompressed records."""
    for _ in range(40):
        append(nodes, b"x" * MIB)
    request = request_of(nodes, "records list", {"value": "nothing"})
    answer = await records.browse(request)
    assert 15 <= answer["scanned"] <= 17
    assert [page for page in await pages(nodes, value="nothing") if page] == []


async def test_pages_within_a_large_batch_go_on(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch above the limit of a page is read to its end, with at least one record per page."""
    monkeypatch.setattr(browse, "SCANNED_BYTES", 10)
    append(nodes, *[b"x" * 10] * 250)
    append(nodes, *[b"y" * 10] * 3, codec=Compression.NONE)
    found = await pages(nodes, offset="240")
    assert [one["offset"] for page in found for one in page] == list(range(240, 253))


async def test_a_fetch_ends_by_the_bytes_of_its_records(nodes: VirtualTimeNodes) -> None:
    """A fetch with the largest count returns about 16 MiB; `next_offset` is the next record."""
    for _ in range(20):
        append(nodes, b"x" * MIB, b"y" * MIB)
    offsets, offset = [], 0
    while offset < 40:
        query = {"offset": str(offset), "count": "10000"}
        answer = await records.records(request_of(nodes, "records fetch", query))
        assert len(answer["records"]) <= 17
        offsets += [one["offset"] for one in answer["records"]]
        offset = answer["next_offset"]
    assert offsets == list(range(40))


@pytest.mark.parametrize("offset", [0, 1, 2999])
async def test_one_record_of_a_large_batch(nodes: VirtualTimeNodes, offset: int) -> None:
    """A fetch and a request for one record return the record at their offset."""
    append(nodes, *[b"%d" % number for number in range(3000)])
    query = {"offset": str(offset), "count": "1"}
    answer = await records.records(request_of(nodes, "records fetch", query))
    assert [one["offset"] for one in answer["records"]] == [offset]
    assert answer["next_offset"] == offset + 1
    shown = request_of(nodes, "records show", {})
    shown = shown._replace(parameters={**shown.parameters, "OFFSET": str(offset)})
    assert (await records.record(shown))["value"]["text"] == str(offset)


def test_records_that_are_skipped_are_steps(nodes: VirtualTimeNodes) -> None:
    """Skipping records before the requested offset takes a step for each hundred records."""
    append(nodes, *[b"x"] * 1000)
    partition = nodes.partition("large", 0)
    assert sum(1 for _ in records._fetched(partition, 999, 1)) >= 9
    assert sum(1 for _ in records._record_at(partition.log, 999)) >= 9
    page = browse.Page([partition], [999], browse.Filters(None, None, None))
    assert sum(1 for _ in page.read(1, View("auto", 100))) >= 9


# --- writing --------------------------------------------------------------------------------------


async def produce(nodes: VirtualTimeNodes, new_records: Sequence[Any]) -> list[dict[str, int]]:
    """Write records to `large` as text; return the partition and offset of each record."""
    body = json.dumps({"records": new_records, "format": "text"}).encode()
    answer = await records.produce(request_of(nodes, "records produce", {}, body=body))
    places: list[dict[str, int]] = answer["records"]
    return places


def configure(nodes: VirtualTimeNodes, **configs: str) -> None:
    """Make a new topic `large` of two partitions."""
    topic = nodes.topics.topic("large")
    assert topic is not None
    run_all(nodes.topics.delete([topic]))
    named = {name.replace("_", "."): value for name, value in configs.items()}
    nodes.topics.create("large", 2, named)


def ends(nodes: VirtualTimeNodes) -> list[int]:
    """Return the log end offsets of both partitions."""
    return [nodes.partition("large", index).log.log_end_offset for index in (0, 1)]


async def test_batches_keep_to_max_message_bytes(nodes: VirtualTimeNodes) -> None:
    """Many records are split into batches that the topic accepts; headers add to the batch size."""
    configure(nodes, max_message_bytes="2000")
    header = ["name", "y" * 60]
    wanted = [{"value": "x" * 20, "headers": [header], "partition": 0}] * 100
    places = await produce(nodes, wanted)
    assert [place["offset"] for place in places] == list(range(100))
    assert ends(nodes) == [100, 0]


@pytest.mark.parametrize(
    ("configs", "bad", "status", "words"),
    [
        ({"max_message_bytes": "2000"}, {"value": "x" * 2000}, 400, "MESSAGE_TOO_LARGE"),
        ({"max_message_bytes": "2000"}, {"headers": [["h", "x" * 2000]]}, 400, "MESSAGE_TOO_LARGE"),
        ({"internal_segment_bytes": "2000"}, {"value": "x" * 2000}, 400, "RECORD_LIST_TOO_LARGE"),
        ({"cleanup_policy": "compact"}, {"value": "x"}, 400, "INVALID_RECORD"),
        ({"message_timestamp_before_max_ms": "1"}, {"timestamp_ms": 1}, 400, "INVALID_TIMESTAMP"),
    ],
)
async def test_all_records_are_checked_before_the_first_is_written(
    nodes: VirtualTimeNodes, configs: dict[str, str], bad: dict[str, Any], status: int, words: str
) -> None:
    """If the topic refuses one record, the whole request is refused and nothing is written."""
    configure(nodes, **configs)
    good = {"key": "k", "value": "x", "partition": 0}
    with pytest.raises(ControlError, match=words) as raised:
        await produce(nodes, [good, {**bad, "partition": 1}])
    assert raised.value.status == status
    assert ends(nodes) == [0, 0]
    assert await produce(nodes, [good, {**good, "partition": 1}])
    assert ends(nodes) == [1, 1]


async def produce_to(nodes: VirtualTimeNodes, topic: str, new_records: Any, how: str) -> None:
    """Write records to a topic."""
    body = json.dumps({"records": new_records, "format": how}).encode()
    request = request_of(nodes, "records produce", {}, body=body, state=None)
    await records.produce(request._replace(parameters={"TOPIC": topic}))


@pytest.mark.parametrize(
    ("bad", "how", "status", "words"),
    [
        (
            {"value": "no base64"},
            "base64",
            400,
            r"records\[1\]: a value is base64 or null.*--format text",
        ),
        ({"key": "xyz"}, "hex", 400, r"records\[1\]: a key is hex or null, not 'xyz'; for text"),
        ({"headers": [["h"]]}, "text", 400, r"records\[1\]: a header is a name and a value"),
        ({"timestamp_ms": -1}, "text", 400, r"records\[1\]: -1 is no timestamp"),
        ({"partition": 1}, "text", 404, r"records\[1\]: topic new has no partition 1, but 1"),
        ({"value": "x" * 3 * MIB}, "text", 400, r"records\[1\]: new-0: MESSAGE_TOO_LARGE"),
    ],
)
async def test_a_refused_request_creates_no_topic(
    nodes: VirtualTimeNodes, bad: dict[str, Any], how: str, status: int, words: str
) -> None:
    """Records are checked before a missing topic is created; an error has the record's index."""
    good: dict[str, Any] = {"key": None}
    with pytest.raises(ControlError, match=words) as raised:
        await produce_to(nodes, "new", [good, bad], how)
    assert raised.value.status == status
    assert nodes.topics.topic("new") is None
    await produce_to(nodes, "new", [good, good], how)
    assert nodes.partition("new", 0).log.log_end_offset == 2


async def test_rejected_records_are_named(nodes: VirtualTimeNodes) -> None:
    """The index of a record that the log rejects is the index in the request."""
    configure(nodes, cleanup_policy="compact")
    good, bad = {"key": "k", "partition": 1}, {"value": "x", "partition": 1}
    with pytest.raises(ControlError, match=r"^records\[1\], records\[3\]: large-1: INVALID_REC"):
        await produce(nodes, [{"key": "k", "partition": 0}, bad, good, bad])


async def test_a_partition_without_a_leader_refuses_all_records(nodes: VirtualTimeNodes) -> None:
    """If no broker leads one of the partitions, the status is 503 and nothing is written."""
    configure(nodes)
    nodes.partition("large", 1).leader_id = -1
    with pytest.raises(ControlError, match="no broker leads large-1") as raised:
        await produce(nodes, [{"partition": 0}, {"partition": 1}])
    assert raised.value.status == 503
    assert ends(nodes) == [0, 0]


@pytest.mark.parametrize(
    "query",
    [
        {"position": "latest", "offset": "5"},
        {"position": "earliest", "timestamp_ms": "7"},
        {"offset": "5", "timestamp_ms": "7"},
    ],
)
async def test_a_page_has_one_start(query: dict[str, str]) -> None:
    """Two different starts are refused and both named; the next page may repeat the parameters."""
    nodes = VirtualTimeNodes(None, 1)
    request = nodes.control_request("records list", TOPIC="t", **query)
    first, second = query.items()
    with pytest.raises(ControlError) as refused:
        await nodes.done(records.browse(request))
    text = f"{'='.join(first)} and {'='.join(second)} contradict each other"
    assert (refused.value.status, str(refused.value)) == (400, text)
    page = await nodes.done(records.browse(nodes.control_request("records list", TOPIC="t")))
    again = nodes.control_request("records list", TOPIC="t", after=page["tail"], **query)
    assert (await nodes.done(records.browse(again)))["records"] == []
