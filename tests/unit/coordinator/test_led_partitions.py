"""Partitions that a broker leads: one that cannot be loaded does not keep the others from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.coordinator.led_partitions import LedPartition, LedPartitions
from coordinator_server.steps import Steps
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

REFUSED = ErrorCode.NOT_COORDINATOR


class Led(LedPartition):
    """A partition with something to load."""

    topic = "keys"

    def __init__(self, partition: Any, clock: Any) -> None:
        partition.epoch = 1
        super().__init__(partition, clock)

    @property
    def is_blank(self) -> bool:
        """There is something."""
        return False


class Broker:
    """Three partitions; `to_raise` while 1 is loaded, and `to_raise_later` once it was loaded."""

    def __init__(
        self, to_raise: Exception | None = None, to_raise_later: Exception | None = None
    ) -> None:
        self.to_raise, self.to_raise_later = to_raise, to_raise_later
        self.served: list[int] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.work: deque[Iterator[None]] = deque()
        partitions = tuple(SimpleNamespace(index=index, leader_id=1) for index in range(3))
        clock = SimpleNamespace(now_ms=lambda: 0)
        self.led: LedPartitions[Led, str] = LedPartitions(
            cast("Any", SimpleNamespace(name="keys", partitions=partitions)),
            cast("Any", clock),
            cast("Any", SimpleNamespace(run=self.work.append)),
            node_id=1,
            keys="keys",
            take_over=lambda partition: Led(partition, clock),
            load=self._load,
            serve=self._serve,
            log=cast("Any", SimpleNamespace(emit=self._emit)),
        )
        self.led.look()

    def _load(self, led: Led, loaded: dict[str, str]) -> Steps:
        yield
        if led.index == 1 and self.to_raise is not None:
            raise self.to_raise
        loaded["key"] = "value"

    def _serve(self, led: Led, loaded: dict[str, str], _: int) -> None:
        if led.index == 1 and self.to_raise_later is not None:
            raise self.to_raise_later
        assert loaded == {"key": "value"}
        self.served.append(led.index)

    def _emit(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def work_on(self) -> None:
        """Load what is to be loaded."""
        while self.work:
            for _ in self.work.popleft():
                pass


@pytest.mark.parametrize(
    ("broker", "is_bug"),
    [
        (Broker(StorageError("odd")), False),
        (Broker(ProtocolError("odd")), False),
        (Broker(ZeroDivisionError("odd")), True),
        (Broker(to_raise_later=ZeroDivisionError("odd")), True),
    ],
)
def test_one_that_cannot_be_loaded_is_refused(broker: Broker, *, is_bug: bool) -> None:
    """It says why, a bug with its traceback; those before and after it are served."""
    broker.work_on()
    assert broker.served == [0, 2]
    assert [broker.led.at(index)[1] for index in range(3)] == [ErrorCode.NONE, REFUSED, 0]
    ((event, fields),) = broker.events
    assert event == "log.failed"
    assert (fields["topic"], fields["partition"]) == ("keys", 1)
    assert fields["reason"] == "its keys cannot be loaded: odd"
    assert fields.get("exc_info", False) is is_bug


def test_one_that_is_emigrated_meanwhile_is_not_served() -> None:
    """Whether that is noticed between two steps or after the last."""
    broker = Broker()
    assert broker.led.at(1)[1] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for led in broker.led.release({1}):
        led.state = type(led.state).CLOSED
    broker.work_on()
    assert broker.served == [0, 2]
    assert not broker.led.is_loading
    assert broker.events == []


def test_what_comes_after_a_bug_is_loaded_as_well() -> None:
    """A partition that the broker becomes leader of later."""
    broker = Broker(ZeroDivisionError("odd"))
    broker.work_on()
    assert broker.led.release({0})
    broker.led.immigrate(cast("Any", SimpleNamespace(index=0, leader_id=1)))
    broker.work_on()
    assert broker.served == [0, 2, 0]
