"""Loading of led partitions: a partition that fails does not stop the others."""

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
        partitions = tuple(SimpleNamespace(index=index, leader_id=1) for index in range(3))
        super().__init__(
            cast("Any", SimpleNamespace(now_ms=lambda: 0)),
            cast("Any", SimpleNamespace(run=self.work.append)),
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
    """A partition that immigrates after a bug is loaded as well."""
    keeper = Keeper(ZeroDivisionError("odd"))
    keeper.work_on()
    keeper.emigrate(0)
    keeper.immigrate(cast("Any", SimpleNamespace(index=0, leader_id=1)))
    keeper.work_on()
    assert keeper.served == [0, 2, 0]
