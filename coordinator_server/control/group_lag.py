"""Control requests about the lag of a group, by partition."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from coordinator_server.control.groups import group_of, owners_of
from coordinator_server.control.lag import LagReader, without_log
from coordinator_server.control.pace import in_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.control.lag import Position
    from coordinator_server.control.request import ControlRequest
    from coordinator_server.steps import Computation


async def lag(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP/lag: return the lag of a group by partition. Raises ControlError."""
    broker, group = group_of(request)
    reader = LagReader(request.cluster, request)
    await reader.read_share_groups([(broker.node_id, group)])
    positions, owners = await in_steps(reader.positions(group)), owners_of(request, group)
    rows = await in_steps(_rows(request, reader, positions, owners))
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    times = [row["time_lag_ms"] for row in rows if row["time_lag_ms"] is not None]
    return {
        "group": group.group_id,
        "state": group.listed().group_state,
        "now_ms": reader.now_ms,
        "lag": sum(lags) if lags else None,
        "lost": sum(row["lost"] for row in rows),
        "beyond_end": sum(row["beyond_end"] for row in rows),
        "time_lag_ms": max(times, default=None),
        "partitions": rows,
    }


async def history(request: ControlRequest) -> dict[str, Any]:
    """GET /groups/GROUP/lag/history: return the lag over time, from `since_ms` on.

    A user who may not see all topics of the group gets no samples. Raises ControlError.
    """
    broker, group = group_of(request)
    assert request.state is not None
    reader = LagReader(request.cluster)
    await reader.read_share_groups([(broker.node_id, group)])
    positions = await in_steps(reader.positions(group))
    topics = {topic for topic, _ in positions}
    samples: Sequence[tuple[int, int | None]] = ()
    if all(request.sees_topic(topic) for topic in topics):
        samples = request.state.lag_samples(group.group_id)
    first = bisect_right(samples, request.values["since_ms"], key=itemgetter(0)) - 1
    return {
        "group": group.group_id,
        "now_ms": request.cluster.clock.now_ms(),
        "samples": [{"at_ms": at_ms, "lag": lag} for at_ms, lag in samples[max(first, 0) :]],
    }


def _rows(
    request: ControlRequest,
    reader: LagReader,
    positions: dict[tuple[str, int], Position],
    owners: dict[tuple[str, int], dict[str, Any]],
) -> Computation[list[dict[str, Any]]]:
    rows = []
    for place in sorted(positions.keys() | owners.keys()):
        topic, index = place
        if request.sees_topic(topic):
            owner, position = owners.get(place, {}), positions.get(place)
            row: dict[str, Any] = {
                "topic": topic,
                "partition": index,
                "member_id": owner.get("member_id"),
                "client_id": owner.get("client_id"),
                "host": owner.get("host"),
            }
            partition = request.cluster.topics.partition(topic, index)
            if partition is None:
                row |= without_log(position)
            else:
                row |= yield from reader.of_partition(partition, position)
            rows.append(row)
        yield
    return rows
