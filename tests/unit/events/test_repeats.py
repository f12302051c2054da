"""Repeated failures: one line, then one line every ten seconds with a count."""

from __future__ import annotations

import errno
import io
import json
from typing import Any

import pytest

from coordinator_server.events import log
from coordinator_server.events.log import PERIOD_SECONDS, EventLog, Repeats
from coordinator_server.events.vocabulary import INFO, VOCABULARY
from storage.errors import advice


class Seconds:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def count(kinds: Repeats, name: str, fields: dict[str, Any]) -> int | None:
    """Return the count for an event, as the log does."""
    return kinds.count(name, VOCABULARY[name], fields)


def reason(partition: str, number: int) -> str:
    """Return storage's error for a partition that cannot be written."""
    return f"{partition} cannot be written: {advice(OSError(number, 'of the system'))}"


def test_one_line_then_a_count_every_ten_seconds() -> None:
    """The first failure is written at once.

    The next line, after 10 s, has the number of omitted failures.
    """
    seconds = Seconds()
    kinds = Repeats(seconds)
    assert count(kinds, "log.failed", {"reason": "x"}) == 0
    assert [count(kinds, "log.failed", {"reason": "x"}) for _ in range(3)] == [None] * 3
    seconds.now += PERIOD_SECONDS
    assert count(kinds, "log.failed", {"reason": "x"}) == 3
    assert count(kinds, "log.failed", {"reason": "x"}) is None
    seconds.now += PERIOD_SECONDS
    assert count(kinds, "log.failed", {"reason": "x"}) == 1


def test_other_failures_are_lines_of_their_own() -> None:
    """Failures with another event, partition or reason are counted separately."""
    kinds = Repeats(Seconds())
    others: list[tuple[str, dict[str, Any]]] = [
        ("log.failed", {"partition": 0, "reason": reason("t-0", errno.EACCES)}),
        ("log.failed", {"partition": 1, "reason": reason("t-1", errno.EACCES)}),
        ("log.failed", {"partition": 1, "reason": reason("t-1", errno.EIO)}),
        ("write.failed", {"error": "KAFKA_STORAGE_ERROR"}),
    ]
    assert [count(kinds, event, fields) for event, fields in others] == [0] * len(others)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_volume_is_one_kind(number: int) -> None:
    """A full volume, which affects every partition, gives only one log line."""
    kinds = Repeats(Seconds())
    assert count(kinds, "log.failed", {"partition": 0, "reason": reason("t-0", number)}) == 0
    assert count(kinds, "log.failed", {"partition": 1, "reason": reason("t-1", number)}) is None


def test_a_group_in_a_loop_is_some_lines() -> None:
    """Lines of a group that rebalances in a loop are limited; other groups are not limited."""
    seconds = Seconds()
    kinds = Repeats(seconds)
    most = VOCABULARY["generation.started"].most_in_period
    loop = [{"group": "g", "generation": number} for number in range(most + 5)]
    assert [count(kinds, "generation.started", one) for one in loop] == [0] * most + [None] * 5
    assert count(kinds, "generation.started", {"group": "h", "generation": 1}) == 0
    seconds.now += PERIOD_SECONDS
    assert count(kinds, "generation.started", loop[0]) == 5


def test_it_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest kind of failure is forgotten when there are too many."""
    monkeypatch.setattr(log, "_MOST_KINDS", 2)
    kinds = Repeats(Seconds())
    for text in ("a", "b", "c"):
        assert count(kinds, "log.failed", {"reason": text}) == 0
    assert count(kinds, "log.failed", {"reason": "c"}) is None
    assert count(kinds, "log.failed", {"reason": "a"}) == 0


def test_the_log_writes_the_count() -> None:
    """The field `left_out` has the number of omitted lines; unlimited events are always written."""
    stream, seconds = io.StringIO(), Seconds()
    log = EventLog()
    log.configure("json", INFO, stream)
    log._repeats = Repeats(seconds)
    for _ in range(3):
        log.emit("log.failed", topic="t", partition=0, reason=reason("t-0", errno.ENOSPC))
        log.emit("broker.stopped")
    seconds.now += PERIOD_SECONDS
    log.emit("log.failed", topic="t", partition=1, reason=reason("t-1", errno.ENOSPC))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines].count("broker.stopped") == 3
    failed = [line for line in lines if line["event"] == "log.failed"]
    assert [line.get("left_out") for line in failed] == [None, 2]
