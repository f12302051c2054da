"""Loading of led partitions: a partition that fails does not stop the other partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.runtime.coordinator import CoordinatorRuntime
from coordinator_server.runtime.partition import CoordinatorPartition, PartitionState
from coordinator_server.steps import Steps
from coordinator_server.topics.topic import Partition, Topic
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

REFUSED = ErrorCode.NOT_COORDINATOR


class KeyPartition(CoordinatorPartition):
    """A partition that must be loaded."""

    topic = "keys"

    def __init__(self, partition: Any, clock: Any) -> None:
        partition.epoch = 1
        super().__init__(partition, clock)

    @property
    def is_blank(self) -> bool:
        """Return False: there is something to load."""
        return False


class Keeper(CoordinatorRuntime[KeyPartition, str]):
    """Three partitions; partition 1 raises `to_raise` in its load, or `to_raise_later` after it."""

    keys = "keys"

    def __init__(
        self, to_raise: Exception | None = None, to_raise_later: Exception | None = None
    ) -> None:
        self.to_raise, self.to_raise_later = to_raise, to_raise_later
        self.served: list[int] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.work: deque[Iterator[None]] = deque()
        self.later: list[tuple[float, Iterator[None]]] = []
        partitions = tuple(SimpleNamespace(index=index, leader_id=1) for index in range(3))
        super().__init__(
            cast("Any", SimpleNamespace(now_ms=lambda: 0)),
            cast("Any", SimpleNamespace(run=self.work.append, run_later=self._run_later)),
            cast("Any", SimpleNamespace(on_deleted=[])),
            cast("Any", SimpleNamespace(name="keys", partitions=partitions)),
            node_id=1,
            log=cast("Any", SimpleNamespace(emit=self._emit)),
        )
        self.start()

    def take_over(self, partition: Partition) -> KeyPartition:
        return KeyPartition(partition, self.clock)

    def _load(self, partition: KeyPartition, loaded: dict[str, str]) -> Steps:
        yield
        if partition.index == 1 and self.to_raise is not None:
            raise self.to_raise
        loaded["key"] = "value"

    def _serve(self, partition: KeyPartition, loaded: dict[str, str], elapsed_ms: int) -> None:
        assert elapsed_ms == 0
        if partition.index == 1 and self.to_raise_later is not None:
            raise self.to_raise_later
        assert loaded == {"key": "value"}
        self.served.append(partition.index)

    def _unload(self, closing: set[KeyPartition]) -> None:
        for partition in closing:
            partition.state = PartitionState.CLOSED

    def _forget(self, topics: Mapping[str, Topic]) -> None:
        raise AssertionError(topics)

    def _emit(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def _run_later(self, delay_s: float, steps: Iterator[None]) -> None:
        self.later.append((delay_s, steps))

    def load_again(self) -> float:
        """Load the partition that failed again; return the pause before in seconds."""
        ((delay_s, steps),) = self.later
        self.later.clear()
        self.work.append(steps)
        self.work_on()
        return delay_s

    def work_on(self) -> None:
        """Load the pending partitions."""
        while self.work:
            for _ in self.work.popleft():
                pass


@pytest.mark.parametrize(
    ("keeper", "is_bug"),
    [
        (Keeper(StorageError("odd")), False),
        (Keeper(ProtocolError("odd")), False),
        (Keeper(ZeroDivisionError("odd")), True),
        (Keeper(to_raise_later=ZeroDivisionError("odd")), True),
    ],
)
def test_one_that_cannot_be_loaded_is_refused(keeper: Keeper, *, is_bug: bool) -> None:
    """A partition whose load fails is refused with the reason; the other partitions are served.

    A bug is logged with its traceback.
    """
    keeper.work_on()
    assert keeper.served == [0, 2]
    assert [keeper.partition_at(index)[1] for index in range(3)] == [ErrorCode.NONE, REFUSED, 0]
    ((event, fields),) = keeper.events
    assert event == "log.failed"
    assert (fields["topic"], fields["partition"]) == ("keys", 1)
    assert fields["reason"] == "its keys cannot be loaded: odd"
    assert fields.get("exc_info", False) is is_bug


def test_one_that_is_emigrated_meanwhile_is_not_served() -> None:
    """A partition that is emigrated while it loads is not served."""
    keeper = Keeper()
    assert keeper.partition_at(1)[1] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    keeper.emigrate(1)
    keeper.work_on()
    assert keeper.served == [0, 2]
    assert not keeper.is_loading
    assert keeper.events == []


def test_what_comes_after_a_bug_is_loaded_as_well() -> None:
    """A partition that immigrates after a bug in another load is loaded."""
    keeper = Keeper(ZeroDivisionError("odd"))
    keeper.work_on()
    keeper.emigrate(0)
    keeper.immigrate(cast("Any", SimpleNamespace(index=0, leader_id=1)))
    keeper.work_on()
    assert keeper.served == [0, 2, 0]


def test_a_partition_that_cannot_be_read_is_loaded_again() -> None:
    """The pause before the next load doubles up to 30 s; afterwards the partition is served."""
    keeper = Keeper(StorageError("no space"))
    keeper.work_on()
    assert keeper.why_unavailable(0) == ""
    assert keeper.why_unavailable(1) == (
        "NOT_COORDINATOR: keys-1 cannot be loaded: no space; it is loaded again by itself"
    )
    assert [keeper.load_again() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    keeper.to_raise = None
    keeper.load_again()
    assert keeper.served == [0, 2, 1]
    assert keeper.partition_at(1)[1] is ErrorCode.NONE
    assert keeper.why_unavailable(1) == ""
    assert not keeper.later


def test_a_partition_that_has_moved_is_not_loaded_again() -> None:
    """A retry that is due after the partition was emigrated does nothing."""
    keeper = Keeper(StorageError("no space"))
    keeper.work_on()
    keeper.to_raise = None
    keeper.emigrate(1)
    keeper.load_again()
    assert keeper.served == [0, 2]
    assert keeper.why_unavailable(1).startswith("NOT_COORDINATOR: keys-1: ")


@pytest.mark.parametrize("error", [ProtocolError("odd"), ZeroDivisionError("odd")])
def test_a_partition_that_cannot_be_decoded_is_not_loaded_again(error: Exception) -> None:
    """Bytes that are no batch, and a bug, do not change with time: the log has the reason."""
    keeper = Keeper(error)
    keeper.work_on()
    assert not keeper.later
    assert keeper.why_unavailable(1).endswith("odd; see the broker's log")
