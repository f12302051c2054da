"""The lag of groups over time: samples, their limits, and who may see them."""

from __future__ import annotations

import pytest

from coordinator_server.control import lag_history
from coordinator_server.control.group_lag import history
from coordinator_server.control.lag_history import LagHistory, Sample
from coordinator_server.control.request import ControlRequest
from coordinator_server.control.state import ControlOptions, ControlState
from protocol.errors import ErrorCode
from tests.harness.clock import START_MS
from tests.harness.records import batch
from tests.unit.control.virtual_time import VirtualTimeNodes


@pytest.fixture
def nodes() -> VirtualTimeNodes:
    """Return a broker with five records in `t`, and the group `g`, which has committed offset 1."""
    nodes = VirtualTimeNodes(None, 1)
    nodes.partition("t", 0).append(batch(*[b"x"] * 5), START_MS)
    assert nodes.commit(1, "g", 1) == ErrorCode.NONE
    return nodes


async def test_only_changes_are_kept(nodes: VirtualTimeNodes) -> None:
    """A sample is dropped if the lag has not changed; a removed group has no samples."""
    samples = LagHistory(nodes.cluster)
    for offset in (None, None, 3, 3, 5):
        if offset is not None:
            nodes.commit(1, "g", offset)
        await samples.sample()
        await nodes.controller.advance(10_000)
    at_ms = [START_MS, START_MS + 20_000, START_MS + 40_000]
    assert samples.of_group("g") == [Sample(*pair) for pair in zip(at_ms, (4, 2, 0), strict=True)]
    del nodes.groups.tasks["g"]
    await samples.sample()
    assert samples.of_group("g") == []


async def test_the_samples_are_limited(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group keeps its last samples, and the number of groups with samples is limited."""
    monkeypatch.setattr(lag_history, "KEPT_SAMPLES", 2)
    monkeypatch.setattr(lag_history, "KEPT_GROUPS", 1)
    nodes.commit(1, "h", 1)
    samples = LagHistory(nodes.cluster)
    for offset in (1, 2, 3):
        nodes.commit(1, "g", offset)
        await samples.sample()
    assert [sample.lag for sample in samples.of_group("g")] == [3, 2]
    assert samples.of_group("h") == []


async def test_the_samples_stay_while_a_coordinator_is_stopped() -> None:
    """A stopped broker's groups keep their samples, which continue at the next coordinator."""
    nodes = VirtualTimeNodes(None, 3)
    nodes.partition("t", 0).append(batch(*[b"x"] * 5), START_MS)
    home = nodes.home("g").leader_id
    assert nodes.commit(home, "g", 1) == ErrorCode.NONE
    samples = LagHistory(nodes.cluster)
    await samples.sample()
    before = samples.of_group("g")
    assert [sample.lag for sample in before] == [4]
    await nodes.cluster.stop_broker(home)
    await samples.sample()
    assert samples.of_group("g") == before
    nodes.turn()
    other = nodes.home("g").leader_id
    assert other != home
    await nodes.controller.advance(1000)
    assert nodes.commit(other, "g", 3) == ErrorCode.NONE
    await samples.sample()
    assert [sample.lag for sample in samples.of_group("g")] == [4, 2]


class Blind(ControlRequest):
    """A request of a user who may see groups but no topics."""

    def sees_topic(self, name: str) -> bool:
        """Return False."""
        return False


async def test_a_request_gets_the_samples_that_its_user_may_see(nodes: VirtualTimeNodes) -> None:
    """`since_ms` selects later samples and the sample that was valid at this time.

    A user who may not see the topics gets no samples.
    """
    state = ControlState(nodes.cluster, ControlOptions(), None)
    samples = LagHistory(nodes.cluster)
    state.lag_samples = samples.of_group
    for offset in (1, 2, 3):
        nodes.commit(1, "g", offset)
        await samples.sample()
        await nodes.controller.advance(10_000)
    for since_ms, lags in ((0, [4, 3, 2]), (START_MS + 10_001, [3, 2]), (START_MS + 99_000, [2])):
        request = ControlRequest(
            nodes.cluster, {"GROUP": "g"}, {}, b"", values={"since_ms": since_ms}, state=state
        )
        answer = await history(request)
        assert [sample["lag"] for sample in answer["samples"]] == lags
        assert answer["now_ms"] == START_MS + 30_000
    assert (await history(Blind(*request)))["samples"] == []
