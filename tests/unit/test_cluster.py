"""The cluster's timer: maintenance continues despite errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress

import pytest

from coordinator_server.cluster_reset import reset
from coordinator_server.maintenance import scheduler
from tests.harness.nodes import Nodes


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), ValueError("a bug")]
)
async def test_maintenance_goes_on_after_an_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing step ends its round, and the next step follows after a pause."""
    nodes = Nodes(None, 1)
    steps = 0

    def fail() -> float:
        nonlocal steps
        steps += 1
        raise error

    monkeypatch.setattr(scheduler, "FAILED_MAINTENANCE_DELAY_MS", 1)
    monkeypatch.setattr(nodes.cluster.topics, "maintenance_step", fail)
    with suppress(ValueError):
        nodes.cluster._maintenance.start()
    for expected in (2, 3):
        with suppress(ValueError):
            nodes.advance(1)
        assert steps == expected
    await nodes.cluster.stop()


async def test_a_reset_waits_for_what_large_requests_are_doing() -> None:
    """A reset waits for running requests, so that none of them creates a topic after the reset."""
    nodes = Nodes(None, 1)
    made: list[str] = []

    def creation() -> Iterator[None]:
        for number in range(5):
            yield
            nodes.cluster.topics.create(f"old-{number}", 1, {})
            made.append(f"old-{number}")

    nodes.cluster.step_runner.run(creation())
    await reset(nodes.cluster)
    assert len(made) == 5
    assert not list(nodes.cluster.topics.all_topics())
    await nodes.cluster.stop()


async def test_a_topic_can_be_created_at_once_after_a_reset() -> None:
    """A topic that the reset deletes, or that was deleted right before it, is created again."""
    nodes = Nodes(None, 1)
    deletions = nodes.cluster.shared.recent_deletions
    nodes.cluster.topics.create("a", 1, {})
    deletions.add(["b"])
    await reset(nodes.cluster)
    assert "a" not in deletions
    assert "b" not in deletions
    await nodes.cluster.stop()
