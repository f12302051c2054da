"""Changing the offsets of a group by the control API: many offsets, and offsets given twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from coordinator_server.control import offsets
from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.control.routes import ROUTES
from coordinator_server.topics.names import OFFSETS_TOPIC
from tests.unit.control.virtual_time import VirtualTimeNodes

COUNT = 3_000


class Cluster(VirtualTimeNodes):
    """A broker with a topic `wide`, whose requests go through the local connection."""

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.topics.create("wide", COUNT, {})
        self.loaded()

    def request(self, verb: str, body: Any = None, **query: str) -> ControlRequest:
        """Return a request about the group `g`."""
        (route,) = (route for route in ROUTES if route.verb == verb)
        sent = b"" if body is None else json.dumps(body).encode()
        values = route.values(query)
        return ControlRequest(self.cluster, {"GROUP": "g"}, query, sent, values=values, route=route)

    async def done(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Run turns of the broker until a request has its response; return the response."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            self.turn()
        return task.result()

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
