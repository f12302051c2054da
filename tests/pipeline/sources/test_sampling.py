"""Times from few answers: bounds hold, and a second run asks for little."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from pipeline.sources.sampling import (
    ROUNDS_MOST,
    TOLERANCE_MS,
    WAITS_MS,
    Curve,
    Fetched,
    Found,
    Place,
    Point,
    Sample,
    Wanted,
    sample,
)

NOW_MS = 1_000_000_000
T = ("t", 0)


@dataclass
class Log:
    """One partition: offsets and timestamps. Consumers only get `data`, by default all of them."""

    records: list[tuple[int, int]]
    fetched_bytes: int = 0
    data: list[tuple[int, int]] | None = None
    knows_last: bool = True
    asked: list[int] = field(default_factory=list)
    tails: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Return the log end."""
        return self.records[-1][0] + 1 if self.records else 0

    def since(self, asked: Mapping[Place, int]) -> dict[Place, Found | None]:
        """Answer as ListOffsets does."""
        self.asked += asked.values()
        found = next((one for one in self.records if one[1] >= asked[T]), None)
        return {T: None if found is None else Found(*found)}

    def last(self, places: Iterable[Place]) -> dict[Place, Found | None]:
        """Return the first record with the greatest timestamp."""
        return {place: Found(*max(self.records, key=_age)) for place in places if self.knows_last}

    def fetch(self, starts: Mapping[Place, int]) -> dict[Place, Fetched | None]:
        """Return the first data at or above a position."""
        self.tails += starts.values()
        data = self.records if self.data is None else self.data
        found = next((one for one in data if one[0] >= starts[T]), None)
        return {T: None if found is None else Fetched(*found, size_bytes=9)}


def _age(record: tuple[int, int]) -> tuple[int, int]:
    return record[1], -record[0]


def ask(log: Log, want: Wanted, known: list[Point] | None = None) -> Sample:
    """Sample one partition."""
    return sample(log, {T: want}, {T: known or []})


def true_ms(log: Log, offset: int) -> int:
    """Return the timestamp of the first record at or above an offset."""
    return next(at_ms for at, at_ms in log.records if at >= offset)


def random_log(seed: int, *, in_order: bool) -> Log:
    """Return a log of a week with bursts, pauses and gaps in its offsets."""
    chance = random.Random(seed)
    at_ms, offset, records = NOW_MS - 600_000_000, chance.randrange(50), []
    for _ in range(chance.randrange(1, 400)):
        at_ms += chance.choice([0, 1, 10, 1000, 60_000, 4_000_000])
        if at_ms > NOW_MS:
            break
        late_ms = 0 if in_order else chance.choice([0, 0, 500, 90_000])
        records.append((offset, at_ms - late_ms))
        offset += chance.choice([1, 1, 1, 7])
    return Log(records or [(offset, at_ms)])


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("knows_last", [True, False])
def test_the_time_of_a_position_is_bounded(seed: int, knows_last: bool) -> None:
    """The time of an old position is exact, even in a gap of the offsets; of a young one nearly."""
    log = random_log(seed, in_order=True)
    log.knows_last = knows_last
    start = log.records[0][0]
    for offset in random.Random(seed).sample(range(start, log.end), min(5, log.end - start)):
        log.asked.clear()
        want = Wanted(start, log.end, NOW_MS, (NOW_MS - 3_600_000,), (offset,))
        made = ask(log, want)
        assert len(log.asked) < ROUNDS_MOST
        low, high = Curve(want, made.points[T]).bounds(offset)
        assert low is not None
        if NOW_MS - high >= WAITS_MS:
            assert low == high == true_ms(log, offset)
        elif knows_last:
            assert high - low <= TOLERANCE_MS
        # What is known now is not asked again.
        log.asked.clear()
        again = ask(log, want, made.points[T])
        assert again.points == made.points
        assert len(log.asked) <= 1 or not knows_last


@pytest.mark.parametrize("seed", range(40))
def test_what_a_point_says_is_true(seed: int) -> None:
    """A point has the time of the next record; with late timestamps, earlier records are older."""
    log = random_log(seed, in_order=False)
    chance = random.Random(seed)
    start = log.records[0][0]
    instants = tuple(sorted(NOW_MS - chance.randrange(700_000_000) for _ in range(8)))
    offsets = tuple(sorted(chance.sample(range(start, log.end), min(4, log.end - start))))
    made = ask(log, Wanted(start, log.end, NOW_MS, instants, offsets))
    assert made.requests <= ROUNDS_MOST + 5
    end = made.points[T].pop()
    assert (end.offset, end.until_ms) == (log.end, None)
    assert all(at_ms <= end.from_ms for _, at_ms in log.records)
    for point in made.points[T]:
        assert point.until_ms == true_ms(log, point.offset)
        if point.size_bytes is None:
            assert point.from_ms <= point.until_ms
            assert all(at_ms <= point.from_ms for at, at_ms in log.records if at < point.offset)


def test_the_log_end_at_an_instant_is_exact() -> None:
    """One request finds a plateau of the log end, which also answers for other instants of it."""
    log = Log([(0, NOW_MS - 9000), (1, NOW_MS - 8000), (2, NOW_MS - 1000)])
    made = ask(log, Wanted(0, 3, NOW_MS, (NOW_MS - 7000, NOW_MS - 5000)))
    assert log.asked == [NOW_MS - 6999]
    assert made.points[T] == [
        Point(2, NOW_MS - 7000, NOW_MS - 1000),
        Point(3, NOW_MS - 1000, None),
    ]


def test_a_position_with_only_markers_behind_it_is_looked_up() -> None:
    """A reader whose unread offsets hold no data is found once they are old enough."""
    old = [(offset, NOW_MS - 60_000 + offset) for offset in range(100)]
    log = Log(old, data=old[:98])
    made = ask(log, Wanted(0, 100, NOW_MS, (), (5, 99)))
    assert made.data_ends == {T: 99}
    assert log.tails == [5, 99]
    young = Log([(0, NOW_MS - 3000), (1, NOW_MS - 2000)])
    assert ask(young, Wanted(0, 2, NOW_MS, (), (1,))).data_ends == {}
    assert young.tails == []


def test_a_marker_before_new_data_does_not_make_a_reader_late() -> None:
    """A position at an old marker has the time of the first data behind it, looked up once."""
    marker, new = (1, NOW_MS - 3_600_000), (2, NOW_MS - 1000)
    records = [(0, NOW_MS - 3_600_001), marker, new]
    log = Log(records, data=[records[0], new])
    made = ask(log, want := Wanted(0, 3, NOW_MS, (), (1,)))
    assert Curve(want, made.points[T]).bounds(1) == (NOW_MS - 1000, NOW_MS - 1000)
    assert ask(log, want, made.points[T]).points == made.points
    assert log.tails == [1]


def test_a_record_without_a_timestamp_says_nothing() -> None:
    """A fetched record of an old format does not become a point."""
    records = [(0, NOW_MS - 60_000), (1, NOW_MS - 50_000)]
    log = Log(records, data=[(0, -1), (1, -1)])
    made = ask(log, Wanted(0, 2, NOW_MS, (), (0,)))
    assert log.tails == [0]
    assert min(point.from_ms for point in made.points[T]) >= NOW_MS - 60_000


def test_records_that_were_read_are_not_asked_for() -> None:
    """Points lie above the records that were read, whose last timestamp is a lower bound."""
    log = Log([(offset, NOW_MS - 100_000 + 1000 * offset) for offset in range(100)])
    want = Wanted(0, 100, NOW_MS, (), (10, 60), read=50, read_ms=NOW_MS - 51_000)
    points = ask(log, want).points[T]
    assert points
    assert min(point.offset for point in points) >= 50
    low, high = Curve(want, points).bounds(60)
    assert low is not None
    assert low <= NOW_MS - 40_000 <= high
    assert low == high
    everything = Wanted(0, 100, NOW_MS, (NOW_MS - 500,), (10,), read=100)
    log.asked.clear()
    assert ask(log, everything).points[T] == []
    assert log.asked == []


def test_a_partition_that_does_not_answer_is_not_known() -> None:
    """A missing answer says nothing about times; the partition is not asked again in this run."""
    asked = Wanted(0, 100, NOW_MS, (NOW_MS - 5000,), (50,))
    made = ask(_Silent(), asked)
    assert made.points[T] == [Point(100, NOW_MS, None)]
    assert made.requests <= 3


def test_points_of_a_long_time_are_few() -> None:
    """After a run every half minute for two days, points of other positions stay bounded."""
    points: list[Point] = []
    begin_ms = NOW_MS - 172_800_000
    records = [(number, begin_ms + 500 * number) for number in range(345_600)]
    for now_ms in range(begin_ms + 3_600_000, NOW_MS, 30_000):
        end = (now_ms - begin_ms) // 500
        new = [Point(end - back, at := records[end - back][1], at) for back in (1, 9, 17)]
        curve = Curve(Wanted(0, end, now_ms, (), (7,)), sorted({*points, *new}))
        points = sample(_Silent(), {T: curve.wanted}, {T: curve.points}).points[T]
        assert len(points) < 1000
    assert len(points) > 20


class _Silent(Log):
    """A cluster that answers nothing."""

    def __init__(self) -> None:
        super().__init__([])

    def since(self, asked: Mapping[Place, int]) -> dict[Place, Found | None]:
        """Return nothing."""
        return {}

    def last(self, places: Iterable[Place]) -> dict[Place, Found | None]:
        """Return nothing."""
        return {}

    def fetch(self, starts: Mapping[Place, int]) -> dict[Place, Fetched | None]:
        """Return nothing."""
        return {}
