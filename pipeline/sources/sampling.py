"""Find out when records were written without reading them: the offset-to-time curve of partitions.

ListOffsets (a broker) and the time index (a log directory) return the first record at or after a
time T. This record has a known timestamp, and all records before it are older than T: the log end
was at its offset from T - 1 until its timestamp. Known points bound the time of every other offset.

A run asks each partition for its last record, for the log end at some instants, and then narrows
the bounds of the positions of readers. Each round is one request with one time per partition. The
points are kept for the next run, which therefore needs few rounds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import NamedTuple, Protocol

ROUNDS_MOST = 64
"""The maximum number of requests per partition and run."""

TOLERANCE_MS = 1000
TOLERANCE_SHARE = 64
"""The time of a position may be uncertain by `TOLERANCE_MS`, or by its age / `TOLERANCE_SHARE`."""

WAITS_MS = 10_000
"""If the offset at a position is older, the first record that a consumer gets there is fetched."""

FETCHES_MOST = 8
"""The maximum number of positions per partition and run at which a record is fetched."""

Place = tuple[str, int]


class Found(NamedTuple):
    """A record."""

    offset: int
    timestamp_ms: int


class Fetched(NamedTuple):
    """A record that a read_committed consumer gets, and the bytes of its key and value."""

    offset: int
    timestamp_ms: int
    size_bytes: int


class Times(Protocol):
    """Answers about records of partitions, from a broker or a log directory.

    `fetched_bytes` are the bytes of records that `fetch` read so far.
    """

    fetched_bytes: int

    def since(self, asked: Mapping[Place, int]) -> dict[Place, Found | None]:
        """Return the first committed record at or after a time; None if all records are older.

        A partition that did not answer is missing.
        """

    def last(self, places: Iterable[Place]) -> dict[Place, Found | None]:
        """Return the record with the greatest timestamp of each partition, if it is known."""

    def fetch(self, starts: Mapping[Place, int]) -> dict[Place, Fetched | None]:
        """Return the first record at or after each start; None if no data is behind the start.

        A partition whose records could not be read is missing.
        """


class Point(NamedTuple):
    """The log end was `offset` from `from_ms` until its record was written at `until_ms`.

    Records below `offset` are not younger than `from_ms`. If a record was fetched at the offset,
    its size is known, and `until_ms` is the time of the first data at or above the offset. Other
    points may be markers of transactions or records of aborted ones. The last point is the end of
    the data, without `until_ms`.
    """

    offset: int
    from_ms: int
    until_ms: int | None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Wanted:
    """What a run needs to know about a partition.

    `start` and `end` are the log start and the last stable offset at `now_ms`. `instants` are times
    whose log ends are wanted, `offsets` are positions whose times are wanted. Records below `read`
    were read, the last one has the timestamp `read_ms`, and nothing has to be asked about them.
    """

    start: int
    end: int
    now_ms: int
    instants: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    read: int = 0
    read_ms: int | None = None


@dataclass
class Curve:
    """The known points of a partition, and the questions about it that are open."""

    wanted: Wanted
    points: list[Point] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        floor = max(self.wanted.start, self.wanted.read)
        self.points = sorted(
            point
            for point in self.points
            if floor <= point.offset < self.wanted.end and point.until_ms is not None
        )
        self._end_ms, self._data_end = self.wanted.now_ms, self.wanted.end
        self._asked: set[int] = set()
        self._next = self._questions()

    def next_time(self) -> int | None:
        """Return the next time to ask for; None if everything is known well enough."""
        return next(self._next, None) if self.requests < ROUNDS_MOST else None

    def learn(self, asked_ms: int | None, record: Found | None) -> None:
        """Add the answer for a time; None is the question for the last record."""
        self.requests += 1
        wanted = self.wanted
        if record is None or record.offset >= wanted.end:
            if asked_ms is not None:
                self._end_ms = min(self._end_ms, asked_ms - 1)
            return
        if asked_ms is None:  # no record is younger
            self._end_ms = min(self._end_ms, record.timestamp_ms)
        if record.offset < max(wanted.start, wanted.read):
            return
        from_ms = record.timestamp_ms if asked_ms is None else asked_ms - 1
        if record.offset <= wanted.start:  # nothing lies below the first record
            from_ms = record.timestamp_ms
        place = bisect_left(self.points, record.offset, key=_offset)
        until_ms, size_bytes = record.timestamp_ms, None
        if place < len(self.points) and self.points[place].offset == record.offset:
            known = self.points.pop(place)
            assert known.until_ms is not None
            from_ms, until_ms = min(from_ms, known.from_ms), max(until_ms, known.until_ms)
            size_bytes = known.size_bytes
        self.points.insert(place, Point(record.offset, from_ms, until_ms, size_bytes))

    def learn_data(self, offset: int, fetched: Fetched) -> None:
        """Add the first record that a consumer gets from an offset on."""
        from_ms = min(self.bounds(offset)[1], fetched.timestamp_ms)
        place = bisect_left(self.points, offset, key=_offset)
        if place < len(self.points) and self.points[place].offset == offset:
            from_ms = min(from_ms, self.points.pop(place).from_ms)
        made = Point(offset, from_ms, fetched.timestamp_ms, fetched.size_bytes)
        self.points.insert(place, made)

    def end_data(self, offset: int) -> None:
        """Drop the points from an offset on, as consumers get no data there."""
        del self.points[bisect_left(self.points, offset, key=_offset) :]
        self._data_end = offset

    def finished(self) -> list[Point]:
        """Return the points that are to be kept, and the end of the data."""
        wanted = self.wanted
        if wanted.end <= max(wanted.start, wanted.read):
            return []
        return [*_thinned(self), Point(self._data_end, self._end_ms, None)]

    def waiting(self) -> list[int]:
        """Return the positions at which a record is to be fetched."""
        wanted = self.wanted
        floor = max(wanted.start, wanted.read)
        inside = [offset for offset in wanted.offsets if floor <= offset < wanted.end]
        return [offset for offset in inside if self._waits(offset) and not self._is_fetched(offset)]

    def _waits(self, offset: int) -> bool:
        return self.wanted.now_ms - self.bounds(offset)[1] >= WAITS_MS

    def _is_fetched(self, offset: int) -> bool:
        place = bisect_left(self.points, offset, key=_offset)
        point = self.points[place] if place < len(self.points) else None
        return point is not None and point.offset == offset and point.size_bytes is not None

    def bounds(self, offset: int) -> tuple[int | None, int]:
        """Return the times between which the record at an offset was written."""
        place = bisect_left(self.points, offset, key=_offset)
        following = self.points[place] if place < len(self.points) else None
        if following is not None and following.offset == offset:
            assert following.until_ms is not None
            return following.until_ms, following.until_ms
        before_ms = self.points[place - 1].until_ms if place else self.wanted.read_ms
        return before_ms, self._end_ms if following is None else following.from_ms

    def _questions(self) -> Iterator[int]:
        wanted = self.wanted
        if wanted.end <= max(wanted.start, wanted.read):
            return
        for instant in wanted.instants:
            if not self._has_end_at(instant):
                yield instant + 1
        floor = max(wanted.start, wanted.read)
        inside = [offset for offset in wanted.offsets if floor <= offset < wanted.end]
        for number, offset in enumerate(inside):
            yield from self._narrowing(offset, can_be_fetched=number < FETCHES_MOST)

    def _has_end_at(self, instant: int) -> bool:
        place = bisect_right(self.points, instant, key=lambda point: point.from_ms)
        return place > 0 and instant < (self.points[place - 1].until_ms or 0)

    def _narrowing(self, offset: int, *, can_be_fetched: bool) -> Iterator[int]:
        """Yield times until the time of an offset is known well enough, or it has to be fetched."""
        now_ms = self.wanted.now_ms
        while not (can_be_fetched and self._waits(offset)):
            low, high = self.bounds(offset)
            if low is None:
                middle = 0  # the first record of the partition
            else:
                youngest, oldest = max(now_ms - high, 0), max(now_ms - low, 0)
                if oldest - youngest <= max(TOLERANCE_MS, youngest // TOLERANCE_SHARE):
                    return
                middle = now_ms - _between(youngest, oldest)
            if middle in self._asked:
                return
            self._asked.add(middle)
            yield middle


def _offset(point: Point) -> int:
    return point.offset


def _between(youngest: int, oldest: int) -> int:
    """Return an age between two ages: their geometric mean while they differ by magnitudes."""
    least = max(youngest, TOLERANCE_MS)
    if oldest > 4 * least:
        return isqrt(least * oldest)
    return (youngest + oldest) // 2


@dataclass(frozen=True)
class Sample:
    """What a run has learned: points and, where they were looked up, ends of data."""

    points: dict[Place, list[Point]]
    data_ends: dict[Place, int]
    requests: int


def sample(
    times: Times, wanted: Mapping[Place, Wanted], known: Mapping[Place, list[Point]]
) -> Sample:
    """Ask for what is wanted and not known yet."""
    curves = {place: Curve(want, list(known.get(place, ()))) for place, want in wanted.items()}
    full = [place for place, want in wanted.items() if want.end > max(want.start, want.read)]
    requests = len(full)
    last = times.last(full)
    for place in full:
        curves[place].learn(None, last.get(place))
    open_places = full
    while True:
        asked = {
            place: time_ms
            for place in open_places
            if (time_ms := curves[place].next_time()) is not None
        }
        if not asked:
            break
        records = times.since(asked)
        requests += len(asked)
        open_places = [place for place in asked if place in records]
        for place in open_places:
            curves[place].learn(asked[place], records[place])
    data_ends, fetches = _fetch(times, curves, full)
    points = {place: curve.finished() for place, curve in curves.items()}
    return Sample(points, data_ends, requests + fetches)


def _fetch(
    times: Times, curves: Mapping[Place, Curve], places: Iterable[Place]
) -> tuple[dict[Place, int], int]:
    """Fetch a record at each waiting position; return ends of data, and the number of fetches."""
    data_ends: dict[Place, int] = {}
    waiting = {place: curves[place].waiting() for place in places}
    fetches = 0
    for number in range(FETCHES_MOST):
        starts = {
            place: offsets[number]
            for place, offsets in waiting.items()
            if number < len(offsets) and place not in data_ends
        }
        if not starts:
            break
        fetches += len(starts)
        for place, fetched in times.fetch(starts).items():
            if fetched is None:
                data_ends[place] = starts[place]
                curves[place].end_data(starts[place])
            elif fetched.timestamp_ms >= 0:  # records of old formats have no timestamp
                curves[place].learn_data(starts[place], fetched)
    return data_ends, fetches


def _thinned(curve: Curve) -> list[Point]:
    """Return the points without those whose neighbours bound their times closely enough.

    At most a thousand points remain of a month; the points of positions stay.
    """
    kept: list[Point] = []
    wanted = set(curve.wanted.offsets)
    for number, point in enumerate(curve.points):
        following = curve.points[number + 1] if number + 1 < len(curve.points) else None
        if kept and following is not None and point.offset not in wanted:
            age_ms = max(curve.wanted.now_ms - following.from_ms, 0)
            span_ms = following.from_ms - (kept[-1].until_ms or 0)
            plateau_ms = (point.until_ms or 0) - point.from_ms
            if max(span_ms, plateau_ms) <= max(TOLERANCE_MS, age_ms // TOLERANCE_SHARE):
                continue
        kept.append(point)
    return kept
