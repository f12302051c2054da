"""The lag of groups in the control API, which is the lag in the metrics."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.control.group_lag import lag
from coordinator_server.control.lag import LagReader
from coordinator_server.control.request import ControlRequest
from coordinator_server.control.state import ControlOptions, ControlState
from coordinator_server.metrics import lag as metrics_lag
from coordinator_server.steps import run_all
from protocol.compression import Compression
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode, ProtocolError
from tests.harness.clock import START_MS
from tests.harness.records import batch
from tests.unit.control.virtual_time import VirtualTimeNodes


class Lagging(VirtualTimeNodes):
    """A broker with a record in `t`, and requests for the lag of the group `g`."""

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.partition("t", 0).append(batch(b"x"), START_MS)
        self.state = ControlState(self.cluster, ControlOptions(), None)
        self.metrics = metrics_lag.CommittedLagReader(self.cluster)

    async def lag(self) -> dict[str, Any]:
        """Return the lag in `t`, after checking that the metrics have the same age."""
        request = ControlRequest(self.cluster, {"GROUP": "g"}, {}, b"", state=self.state)
        (row,) = (await lag(request))["partitions"]
        (metric,) = run_all(self.metrics.read())
        age_ms = None if metric.seconds is None else metric.seconds * 1000
        assert (row["lag"], row["time_lag_ms"]) == (metric.records, age_ms)
        found: dict[str, Any] = row
        return found


@pytest.fixture
def nodes() -> Lagging:
    """Return a broker."""
    return Lagging()


async def test_a_marker_has_no_age_and_a_later_record_has(nodes: Lagging) -> None:
    """If only a transaction marker is unread, the age of the lag is 0.

    If a record follows the marker, the age is that of the record.
    """
    end = EndTransaction(
        producer_id=1, producer_epoch=0, commits=True, coordinator_epoch=0, transaction_version=0
    )
    nodes.partition("t", 0).end_transaction(end, START_MS)
    assert nodes.commit(1, "g", 1) == ErrorCode.NONE
    row = await nodes.lag()
    assert (row["lag"], row["time_lag_ms"], row["lagging_since_ms"]) == (1, 0, None)
    nodes.partition("t", 0).append(batch(b"y", times_ms=[START_MS + 5]), START_MS)
    await nodes.controller.advance(10_000)
    for _ in range(2):
        row = await nodes.lag()
        assert (row["time_lag_ms"], row["lagging_since_ms"]) == (9_995, START_MS + 5)


async def test_an_unreadable_record_is_read_again(
    nodes: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of the lag is null only while the oldest unread record cannot be read."""
    nodes.commit(1, "g", 0)

    def fail(*_: object) -> None:
        raise ProtocolError("damaged")

    with monkeypatch.context() as patch:
        patch.setattr(metrics_lag, "batch_records", fail)
        assert (await nodes.lag())["time_lag_ms"] is None
    assert (await nodes.lag())["lagging_since_ms"] == START_MS


def test_a_large_batch_is_read_in_steps(nodes: Lagging) -> None:
    """The oldest unread record at the end of 20 000 records is found in steps, and remembered."""
    data = batch(*[b"x"] * 20_000, compression=Compression.ZSTD)
    nodes.partition("t", 0).append(data, START_MS)
    nodes.commit(1, "g", 20_000)
    group, reader = nodes.groups.tasks["g"].group, LagReader(nodes.cluster)
    steps = [sum(1 for _ in reader.of_group(group, with_times=True)) for _ in range(2)]
    assert steps[0] > 9 > steps[1]


async def test_an_offset_beyond_the_log_end_is_marked(nodes: Lagging) -> None:
    """A committed offset beyond the log end has lag 0, and its distance in `beyond_end`.

    The distance is given for the partition and for the group.
    """
    nodes.commit(1, "g", 1)
    assert (await nodes.lag())["beyond_end"] == 0
    nodes.commit(1, "g", 5)
    row = await nodes.lag()
    assert (row["lag"], row["end_offset"], row["beyond_end"]) == (0, 1, 4)
    request = ControlRequest(nodes.cluster, {"GROUP": "g"}, {}, b"", state=nodes.state)
    assert (await lag(request))["beyond_end"] == 4
    group, reader = nodes.groups.tasks["g"].group, LagReader(nodes.cluster)
    assert run_all(reader.of_group(group, with_times=False)).beyond_end == 4
