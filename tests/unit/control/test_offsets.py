"""Changing the offsets of a group by the control API: many offsets, and offsets given twice."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.control import groups, offsets
from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.batch import Record, build_batch
from storage.memory_disk import MemoryDisk
from tests.harness.broker import DATA
from tests.harness.clock import settle
from tests.unit.control.modern_nodes import ModernNodes
from tests.unit.control.virtual_time import VirtualTimeNodes

COUNT = 3_000


class Cluster(VirtualTimeNodes):
    """A broker with a topic `wide`, whose requests go through the local connection."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk, 1)
        if disk is None:
            self.topics.create("wide", COUNT, {})
        self.loaded()

    def request(self, verb: str, body: Any = None, **query: str) -> ControlRequest:
        """Return a request about the group `g`."""
        return self.control_request(verb, body, GROUP="g", **query)

    async def set(self, *places: dict[str, Any]) -> dict[str, Any]:
        """Commit offsets of the group; return the response."""
        body = {"offsets": places}
        return await self.done(offsets.set_offsets(self.request("offsets set", body)))


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster."""
    return Cluster()


def place(index: int, offset: int = 7, **more: str) -> dict[str, Any]:
    """Return an offset to commit in `wide`."""
    return {"topic": "wide", "partition": index, "offset": offset, **more}


async def test_offsets_that_exceed_a_batch_are_committed_in_parts(cluster: Cluster) -> None:
    """Offsets whose metadata exceeds max.message.bytes (1 MiB) are committed in several parts."""
    wanted = [place(index, metadata="m" * 1000) for index in range(COUNT)]
    answer = await cluster.set(*wanted)
    assert [one["after"] for one in answer["offsets"]] == [7] * COUNT
    assert {one["error"] for one in answer["offsets"]} == {None}
    committed = cluster.groups.tasks["g"].group.offsets.by_topic["wide"]
    assert len(committed) == COUNT
    reset = cluster.request("offsets reset", {"to": "latest"})
    answer = await cluster.done(offsets.reset_offsets(reset))
    assert {one["after"] for one in answer["offsets"]} == {0}
    delete = cluster.request("offsets delete", topic="wide")
    answer = await cluster.done(offsets.delete_offsets(delete))
    assert {(one["before"], one["error"]) for one in answer["offsets"]} == {(0, None)}
    assert "wide" not in cluster.groups.tasks["g"].group.offsets.by_topic


async def test_a_group_whose_load_has_failed_is_not_unknown() -> None:
    """Requests about a group get 503 with the cause of its failed load, until the load succeeds.

    GET /groups names the partition whose groups are missing. The load is repeated after a pause of
    the machine's time, while the broker's time is frozen.
    """
    before = Cluster()
    await before.set(place(0))
    home = before.cluster.offsets_topic.partition_of("g")
    for group_id in (f"g{number}" for number in range(100)):
        if before.cluster.offsets_topic.partition_of(group_id) is not home:
            break
    path = f"{DATA}/{OFFSETS_TOPIC}-{home.index}/{0:020}.log"
    before.groups.stop()
    before.logs.close()
    before.disk.unreadable.add(path)

    cluster = Cluster(before.disk)
    await cluster.controller.freeze()
    cause = f"group g: NOT_COORDINATOR: {OFFSETS_TOPIC}-{home.index} cannot be loaded: .*{path}"
    for work in (
        offsets.reset_offsets(cluster.request("offsets reset", {"to": "latest"})),
        offsets.set_offsets(cluster.request("offsets set", {"offsets": [place(0)]})),
        groups.group(cluster.request("groups show")),
    ):
        with pytest.raises(ControlError, match=cause) as refused:
            await cluster.done(work)
        assert refused.value.status == 503
    listed = await cluster.done(groups.groups(cluster.request("groups list")))
    assert listed["groups"] == []
    (reason,) = listed["not_loaded"]
    assert f"group g: {reason}" == str(refused.value)
    unknown = cluster.request("groups show")._replace(parameters={"GROUP": group_id})
    with pytest.raises(ControlError, match="there is no group") as missing:
        await cluster.done(groups.group(unknown))
    assert missing.value.status == 404

    cluster.disk.unreadable.clear()
    cluster.advance(1_000)
    described = await cluster.done(groups.group(cluster.request("groups show")))
    assert [one["offset"] for one in described["offsets"]] == [7]
    listed = await cluster.done(groups.groups(cluster.request("groups list")))
    assert "not_loaded" not in listed


async def test_a_negative_offset_is_refused(cluster: Cluster) -> None:
    """A reset to a negative offset is refused and commits nothing."""
    await cluster.set(place(0))
    reset = cluster.request("offsets reset", {"to": "offset", "offset": -1})
    with pytest.raises(ControlError, match="offset=-1 is negative") as raised:
        await cluster.done(offsets.reset_offsets(reset))
    assert raised.value.status == 400
    assert cluster.groups.tasks["g"].group.offsets.by_topic["wide"][0].offset == 7


async def test_a_part_that_is_refused_has_its_errors(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first part of a commit is refused, the whole request is refused.

    Errors of later parts are returned by partition.
    """
    monkeypatch.setattr(offsets, "_PART_OFFSETS", 2)
    too_long = "m" * 5000
    with pytest.raises(ControlError, match="OFFSET_METADATA_TOO_LARGE"):
        await cluster.set(place(0, metadata=too_long), place(1, metadata=too_long), place(2))
    answer = await cluster.set(place(0), place(1), place(2, metadata=too_long))
    (*good, bad) = [one["error"] for one in answer["offsets"]]
    assert good == [None, None]
    assert [one["after"] for one in answer["offsets"]] == [7, 7, None]
    assert "OFFSET_METADATA_TOO_LARGE" in bad
    committed = cluster.groups.tasks["g"].group.offsets.by_topic["wide"]
    assert sorted(committed) == [0, 1]


async def test_a_refusal_names_the_partition(cluster: Cluster) -> None:
    """Errors name unknown partitions; a partition whose offset is refused keeps its old offset."""
    with pytest.raises(ControlError, match=r"group g: wide-3000: UNKNOWN_TOPIC") as raised:
        await cluster.set(place(COUNT))
    assert raised.value.status == 404
    with pytest.raises(ControlError, match=r"wide-3004 and 2 more: UNKNOWN_TOPIC"):
        await cluster.set(*(place(COUNT + number) for number in range(7)))
    await cluster.set(place(1))
    answer = await cluster.set(place(0), place(1, 8, metadata="m" * 5000), place(COUNT))
    rows = [(one["partition"], one["before"], one["after"]) for one in answer["offsets"]]
    assert rows == [(0, None, 7), (1, 7, 7), (COUNT, None, None)]
    assert [one["error"] and one["error"].split(":")[0] for one in answer["offsets"]] == [
        None,
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


async def test_a_partition_with_two_offsets_is_refused(cluster: Cluster) -> None:
    """A request with two offsets for one partition is refused, and nothing is committed."""
    end = cluster.partition(OFFSETS_TOPIC, cluster.home("g").index).log.log_end_offset
    with pytest.raises(ControlError, match=r"offsets\[2\]: wide-5 has two offsets") as raised:
        await cluster.set(place(5), place(6), place(5, offset=8))
    assert raised.value.status == 400
    assert cluster.home("g").log.log_end_offset == end


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
async def test_a_dry_run_is_refused_like_the_reset(kind: str) -> None:
    """With members in the group, a dry run gets the error of the reset, for every type of group."""
    nodes = ModernNodes(None, 1)
    await settle()
    if kind == "classic":
        nodes.join(nodes.home("g").leader_id, "g")
    elif kind == "consumer":
        nodes.beat("a", 0)
    else:
        nodes.share("m", 0)
    refusals = []
    for is_dry_run in (True, False):
        body = {"to": "earliest", "topics": ["t"], "dry_run": is_dry_run}
        request = nodes.control_request("offsets reset", body, GROUP="g")
        with pytest.raises(ControlError) as refused:
            await nodes.done(offsets.reset_offsets(request))
        refusals.append((refused.value.status, str(refused.value)))
    assert refusals[0] == refusals[1]
    assert refusals[0][0] == 409


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"to": "earliest", "offset": 5}, "to=earliest and offset=5 contradict each other"),
        ({"to": "offset", "offset": 5, "shift_by": 1}, "to=offset and shift_by=1 contradict"),
        ({"to": "shift", "shift_by": 1, "timestamp_ms": 0}, "to=shift and timestamp_ms=0 contra"),
    ],
)
async def test_a_field_of_another_reset_is_refused(
    cluster: Cluster, body: dict[str, Any], words: str
) -> None:
    """A reset with the field of another kind of reset is refused, and both are named."""
    await cluster.set(place(0))
    with pytest.raises(ControlError, match=words) as refused:
        await cluster.done(offsets.reset_offsets(cluster.request("offsets reset", body)))
    assert refused.value.status == 400


async def test_an_offset_outside_the_log_has_a_warning(cluster: Cluster) -> None:
    """A reset uses the first or last offset of the log instead; `set` commits the offset."""
    wide = cluster.partition("wide", 0)
    wide.append_own(build_batch([Record(offset, 0, None, b"v", []) for offset in range(5)]), 0)
    wide.delete_records(2)

    async def changed(verb: str, body: dict[str, Any]) -> list[tuple[int, str | None]]:
        work = offsets.set_offsets if verb == "offsets set" else offsets.reset_offsets
        answer = await cluster.done(work(cluster.request(verb, body)))
        return [(one["after"], one["warning"]) for one in answer["offsets"]]

    (set_to,) = await changed("offsets set", {"offsets": [place(0, 9)]})
    assert set_to == (9, "offset 9 is beyond the log end offset 5")
    select = {"topics": ["wide"], "partitions": [0]}
    for wanted, after, warning in (
        ({"to": "offset", "offset": 9}, 5, "offset 9 is beyond the log end offset 5: 5 is used"),
        ({"to": "current"}, 5, None),
        ({"to": "shift", "shift_by": -9}, 2, "offset -4 is before the log start offset 2: 2 is"),
        ({"to": "offset", "offset": 3}, 3, None),
    ):
        for is_dry_run in (True, False):
            body = {**wanted, **select, "dry_run": is_dry_run}
            ((offset, shown),) = await changed("offsets reset", body)
            assert offset == after
            assert (shown or "").startswith(warning or "")
            assert bool(shown) is bool(warning)


async def test_a_reset_with_topics_creates_its_group(cluster: Cluster) -> None:
    """As in Kafka's tools, an unknown group gets offsets; without topics it is unknown (404)."""
    body = {"to": "latest", "topics": ["t"]}
    dry = cluster.request("offsets reset", {**body, "dry_run": True})
    assert (await cluster.done(offsets.reset_offsets(dry)))["offsets"][0]["before"] is None
    assert "g" not in cluster.groups.tasks
    with pytest.raises(ControlError, match="there is no group g") as refused:
        await cluster.done(
            offsets.reset_offsets(cluster.request("offsets reset", {"to": "latest"}))
        )
    assert refused.value.status == 404
    await cluster.done(offsets.reset_offsets(cluster.request("offsets reset", body)))
    assert cluster.groups.tasks["g"].group.offsets.by_topic["t"][0].offset == 0


async def test_a_repeated_name_in_a_body_is_refused(cluster: Cluster) -> None:
    """A JSON object with the same name twice is refused with both values, at any depth."""
    for body, words in (
        (b'{"to": "earliest", "to": "latest"}', "'to' is given twice: 'earliest' and 'latest'"),
        (b'{"to": "latest", "topics": [{"a": 1, "a": 2}]}', "'a' is given twice: 1 and 2"),
    ):
        request = cluster.request("offsets reset")._replace(body=body)
        with pytest.raises(ControlError, match=words) as refused:
            await cluster.done(offsets.reset_offsets(request))
        assert refused.value.status == 400
