"""A slow reference model of every table in plain Python, without Spark.

The model computes the tables from the records of a story (`story.Told`) by the meanings in
`pipeline.schema`, the formulas of docs/pipeline-tables.md and the amended rules of Burrow. It
shares no code with `pipeline.tables`. This module has the log, offsets, positions, lag and rates;
the other tables are in `model_groups.py`, `model_work.py`, `model_status.py` and
`model_forecasts.py`.
"""

from __future__ import annotations

import base64
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from tests.pipeline.story import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NO_TOPIC_ID,
    OFFSETS_TOPIC,
    Commit,
    Story,
    Strange,
    Told,
    Written,
)

Row = dict[str, Any]
Place = tuple[str, int]
Key = tuple[str, str, int]

RETENTION_MS = 7 * DAY_MS
CHECK_MS = 10 * MINUTE_MS
ABANDONED_MS = DAY_MS
HORIZON_MS = DAY_MS


@dataclass(frozen=True)
class Position:
    """A position of a reader with its time; `before` is the previous offset, None if unknown."""

    order: int
    offset: int
    at_ms: int
    before: int | None


@dataclass(frozen=True)
class Standing:
    """A reader of a partition at the instant."""

    key: Key
    source: str
    position: int | None
    commit_ms: int | None
    start: int | None
    end: int | None
    lag: int | None
    lost: int | None
    state: str


@dataclass(frozen=True)
class Group:
    """A group by its last record. The sets are empty if the group has no member."""

    modern: bool
    members: int
    state_ms: int | None
    subscribed: frozenset[str]
    assigned: frozenset[Place]


def day_of(at_ms: int) -> str:
    """Return the UTC day in ISO format."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def rounded(number: float) -> int:
    """Round to the nearest integer; halves away from zero, as SQL does."""
    return math.floor(number + 0.5)


def id_text(topic_id: bytes) -> str | None:
    """Return a topic id in Kafka's text form, None for no id."""
    if topic_id == NO_TOPIC_ID:
        return None
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def percentile(values: list[int], share: float) -> int:
    """Return the least value with at least this share of all values at or below it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Model:
    """The tables at one instant; `past` if the partition ends were read later than the instant."""

    def __init__(
        self,
        story: Story,
        at_ms: int,
        *,
        past: bool = False,
        window_ms: int = HOUR_MS,
        replay_from_ms: int | None = None,
    ) -> None:
        self.story, self.at_ms, self.past = story, at_ms, past
        self.window_ms, self.replay_from_ms = window_ms, replay_from_ms
        self.begin_ms = at_ms - window_ms

    # Records that count.

    def committed(self, topic: str, index: int, offset: int, producer_id: int) -> bool:
        """Return whether a record is visible to a read_committed consumer.

        Its transaction, if any, must be committed, and no transaction may be open below it. The
        records of a transaction in a partition end with the next marker of their producer.
        """
        end = self._end_of(topic, index, offset, producer_id)
        if producer_id >= 0 and (end is None or not end[1]):
            return False
        return offset < self._stable_ends.get((topic, index), offset + 1)

    def _end_of(
        self, topic: str, index: int, offset: int, producer_id: int
    ) -> tuple[int, bool] | None:
        """Return the marker's offset and whether the transaction was committed; None if open."""
        ends = [
            (at, committed)
            for name, number, at, producer, committed in self.story.ended
            if (name, number, producer) == (topic, index, producer_id) and at > offset
        ]
        return min(ends, default=None)

    @cached_property
    def _stable_ends(self) -> dict[Place, int]:
        """Return the last stable offset of each partition with an open transaction."""
        inside = [
            (OFFSETS_TOPIC, one.log_partition, one.log_offset, one.producer_id)
            for one in self.story.told
        ] + [(one.topic, one.partition, one.offset, one.producer_id) for one in self.story.written]
        found: dict[Place, int] = {}
        for topic, index, offset, producer in inside:
            if producer >= 0 and self._end_of(topic, index, offset, producer) is None:
                found[topic, index] = min(offset, found.get((topic, index), offset))
        return found

    @cached_property
    def log(self) -> list[Told]:
        """Return the records of the offsets topic that count, in log order."""
        known = (
            one
            for one in self.story.told
            if self.committed(OFFSETS_TOPIC, one.log_partition, one.log_offset, one.producer_id)
            and (not self.past or one.at_ms <= self.at_ms)
        )
        return sorted(known, key=lambda one: (one.log_partition, one.log_offset))

    @cached_property
    def records(self) -> dict[Place, list[Written]]:
        """Return committed records of topics with commits, by partition and in order.

        For a past instant, later records are included: the pipeline knows them as well.
        """
        topics = {one.said.topic for one in self.story.told if isinstance(one.said, Commit)}
        found: dict[Place, list[Written]] = defaultdict(list)
        for one in self.story.written:
            if one.topic in topics and self.committed(
                one.topic, one.partition, one.offset, one.producer_id
            ):
                found[one.topic, one.partition].append(one)
        return found

    def of_kind(self, kind: type) -> Iterator[tuple[Told, Any]]:
        """Return the records with content of this type, together with their content."""
        return ((one, one.said) for one in self.log if isinstance(one.said, kind))

    # Log ends.

    def replayed_end(self, place: Place, at_ms: int) -> int | None:
        """Return one more than the greatest offset written by this time."""
        known = bisect_right(self._risen.get(place, []), (at_ms, math.inf))
        if known:
            return max(end for _, end in self._risen[place][:known])
        records = self.records.get(place, [])
        return 0 if records and records[0].offset == 0 else None

    @cached_property
    def _risen(self) -> dict[Place, list[tuple[int, int]]]:
        """Return by partition, sorted by time: timestamps, and the log end after each record."""
        return {
            place: sorted((one.at_ms, one.offset + 1) for one in records)
            for place, records in self.records.items()
        }

    def log_start(self, place: Place) -> int | None:
        """Return the current log start."""
        return self.story.partitions[place].first_offset if place in self.records else None

    def log_end(self, place: Place) -> int | None:
        """Return the log end at the instant."""
        if place not in self.records:
            return None
        if self.past:
            return self.replayed_end(place, self.at_ms)
        return self.story.partitions[place].next_offset

    # Commits and positions.

    @cached_property
    def commits(self) -> dict[Key, list[tuple[Told, Commit]]]:
        """Return commits and removals by key, in order."""
        found: dict[Key, list[tuple[Told, Commit]]] = defaultdict(list)
        for one, said in self.of_kind(Commit):
            assert one.group is not None
            found[one.group, said.topic, said.partition].append((one, said))
        return found

    @cached_property
    def living(self) -> dict[Key, list[tuple[Told, Commit]]]:
        """Return the commits of existing keys since the key's last removal."""
        found = {}
        for key, events in self.commits.items():
            removals = [index for index, (_, said) in enumerate(events) if said.offset is None]
            alive = events[removals[-1] + 1 :] if removals else events
            if alive:
                found[key] = alive
        return found

    @cached_property
    def positions(self) -> dict[tuple[Key, str], list[Position]]:
        """Return the positions of groups and of Spark's queries."""
        found: dict[tuple[Key, str], list[Position]] = defaultdict(list)
        for key, events in self.living.items():
            before = None
            for one, said in events:
                assert said.offset is not None
                found[key, "group"].append(Position(one.log_offset, said.offset, one.at_ms, before))
                before = said.offset
        for query, _, topic, number, batch, end, at_ms in self.story.progress:
            if not self.past or at_ms <= self.at_ms:
                taken = found[(f"spark:{query}", topic, number), "checkpoint"]
                taken.append(Position(batch, end, at_ms, taken[-1].offset if taken else None))
        return found

    def recent(self, reader: tuple[Key, str]) -> list[Position]:
        """Return the positions within the window."""
        return [one for one in self.positions.get(reader, []) if one.at_ms > self.begin_ms]

    @cached_property
    def groups(self) -> dict[str, Group]:
        """Return the groups that exist at the instant."""
        from tests.pipeline.model_groups import standing_groups

        return standing_groups(self)

    @cached_property
    def standings(self) -> list[Standing]:
        """Return every reader's position, and every assigned partition without one."""
        readers = set(self.positions)
        for name, group in self.groups.items():
            readers |= {((name, *place), "group") for place in group.assigned}
        return [self._standing(reader) for reader in sorted(readers)]

    def _standing(self, reader: tuple[Key, str]) -> Standing:
        key, source = reader
        place = key[1:]
        taken = self.positions.get(reader, [])
        position = taken[-1].offset if taken else None
        commit_ms = taken[-1].at_ms if taken else None
        start, end = self.log_start(place), self.log_end(place)
        if position is None or end is None:
            state = "NO_COMMIT" if position is None else "NO_TOPIC"
            return Standing(key, source, position, commit_ms, start, end, None, None, state)
        assert start is not None
        if self.past and position > end and position <= self._may_have_ended(place, end):
            end = position
        lost: int | None = max(0, start - position)
        if self.past and lost:
            lost = None
        state = "OK"
        if position > end:
            state = "AHEAD"
        if lost:
            state = "LOSS"
        lag = max(0, end - position)
        return Standing(key, source, position, commit_ms, start, end, lag, lost, state)

    def _may_have_ended(self, place: Place, end: int) -> int:
        """Return the offset of the first record at or after `end`, else the current log end."""
        later = [one.offset for one in self.records[place] if one.offset >= end]
        return min(later, default=self.story.partitions[place].next_offset)

    # Tables.

    def offset_commits(self) -> Iterator[Row]:
        """Yield the rows of `offset_commits`."""
        for one, said in self.of_kind(Commit):
            gone = said.offset is None
            yield {
                "group": one.group,
                "topic": said.topic,
                "partition": said.partition,
                "event": "tombstone" if gone else "commit",
                "committed_offset": said.offset,
                "leader_epoch": said.leader_epoch,
                "metadata": said.metadata,
                "commit_timestamp_ms": None if gone else one.at_ms,
                "expire_timestamp_ms": said.expires_ms,
                "topic_id": id_text(said.topic_id),
                "log_partition": one.log_partition,
                "log_offset": one.log_offset,
                "log_timestamp_ms": one.at_ms,
                "day": day_of(one.at_ms),
            }

    def current_offsets(self) -> Iterator[Row]:
        """Yield the rows of `current_offsets`."""
        for (group, topic, partition), events in self.living.items():
            one, said = events[-1]
            yield {
                "group": group,
                "topic": topic,
                "partition": partition,
                "committed_offset": said.offset,
                "leader_epoch": said.leader_epoch,
                "metadata": said.metadata,
                "commit_timestamp_ms": one.at_ms,
                "expire_timestamp_ms": said.expires_ms,
                "commits": len(events),
                "log_offset": one.log_offset,
            }

    def dead_letters(self) -> Iterator[Row]:
        """Yield the rows of `dead_letters`."""
        for one, said in self.of_kind(Strange):
            yield {
                "log_partition": one.log_partition,
                "log_offset": one.log_offset,
                "log_timestamp_ms": one.at_ms,
                "record_type": said.record_type,
                "reason": said.reason,
                "key_hex": said.key.hex(),
                "value_hex": said.value.hex(),
            }

    def ages(self, one: Standing) -> tuple[int | None, int | None, int | None, str | None]:
        """Return timestamp and age of the oldest unread record, interpolated age, and its kind."""
        if one.lag is None:
            return None, None, None, None
        assert one.position is not None
        assert one.end is not None
        assert one.start is not None
        if one.lag == 0:
            return None, 0, 0, "exact"
        records = self.records[one.key[1:]]
        above = [record for record in records if record.offset >= one.position]
        gone = one.position < one.start
        if not above or above[0].offset >= one.end:
            return (None, 0, 0, "exact") if records and not gone else (None, None, None, None)
        oldest = None if gone else above[0].at_ms
        age = None if oldest is None else max(0, self.at_ms - oldest)
        left_ms, kind = self._left(one.position, records, above)
        between = None if left_ms is None else max(0, self.at_ms - rounded(left_ms))
        return oldest, age, between, kind

    def _left(
        self, position: int, records: list[Written], above: list[Written]
    ) -> tuple[float | None, str | None]:
        """Return the last time at which the log end was at a position, and how it is known."""
        passed = min(one.at_ms for one in above)
        following = above[0]
        if following.offset == position:
            return passed, "exact"
        below = [one for one in records if one.offset < position]
        if below:
            left, reached = below[-1].offset + 1, min(below[-1].at_ms, passed)
            share = (following.offset - position) / (following.offset - left)
            return passed - share * (passed - reached), "interpolated"
        then = [one for one in records if not self.past or one.at_ms <= self.at_ms]
        last = then[-1]
        if last.offset > following.offset and last.at_ms > passed:
            pace = (last.at_ms - passed) / (last.offset - following.offset)
            return passed - (following.offset - position) * pace, "extrapolated"
        return None, None

    def lag(self) -> Iterator[Row]:
        """Yield the rows of `lag`."""
        for one in self.standings:
            _, oldest, between, kind = self.ages(one)
            delays = [
                max(0, taken.at_ms - record.at_ms)
                for taken in self.recent((one.key, one.source))
                if taken.before is not None
                for record in self._between(one.key[1:], taken.before, taken.offset)
            ]
            yield {
                **named(one.key),
                "source": one.source,
                "kind": self._kind(one),
                "at_ms": self.at_ms,
                "committed_offset": one.position,
                "commit_timestamp_ms": one.commit_ms,
                "log_start": one.start,
                "log_end": one.end,
                "lag": one.lag,
                "lost": one.lost,
                "state": one.state,
                "oldest_unread_age_ms": oldest,
                "oldest_unread_age_error_ms": None if oldest is None else 0,
                "interpolated_age_ms": between,
                "interpolation": kind,
                "commit_delay_p50_ms": percentile(delays, 0.5) if delays else None,
                "commit_delay_p99_ms": percentile(delays, 0.99) if delays else None,
                "commit_delay_records": len(delays),
            }

    def _kind(self, one: Standing) -> str:
        """Return the type of the group's last generation, or "simple" if it has no generation.

        For a reader that is not a group, return the reader's source.
        """
        from tests.pipeline.model_groups import generations

        if one.source != "group":
            return one.source
        made = generations(self).get(one.key[0])
        return "simple" if made is None else made[-1].kind

    def _between(self, place: Place, begin: int, end: int) -> list[Written]:
        records = self.records.get(place, [])
        first = bisect_left(records, begin, key=lambda record: record.offset)
        return records[first : bisect_left(records, end, key=lambda record: record.offset)]

    def produced(self, place: Place) -> float | None:
        """Return the records per second written over the window."""
        records = [
            one for one in self.records.get(place, []) if not self.past or one.at_ms <= self.at_ms
        ]
        if not records:
            return 0.0 if self.log_end(place) == 0 else None
        end, before = records[-1].offset + 1, self.replayed_end(place, self.begin_ms)
        since_ms = self.begin_ms
        if before is None or self._risen[place][0][0] > self.begin_ms:
            before, since_ms = records[0].offset, records[0].at_ms
        if self.at_ms <= since_ms:
            return None
        return (end - before) * 1000 / (self.at_ms - since_ms)

    def consumed(self, reader: tuple[Key, str]) -> float | None:
        """Return the records per second committed from the window's begin, or later, until now."""
        taken = self.positions.get(reader, [])
        before = [one for one in taken if one.at_ms <= self.begin_ms]
        if not before and len(taken) < 2:
            return None
        first = before[-1] if before else taken[0]
        elapsed_ms = self.at_ms - max(first.at_ms, self.begin_ms)
        return (taken[-1].offset - first.offset) * 1000 / elapsed_ms if elapsed_ms > 0 else None

    def rate(self, one: Standing) -> Row:
        """Return the row of `rates` for a reader."""
        produced, consumed = self.produced(one.key[1:]), self.consumed((one.key, one.source))
        from tests.pipeline.model_stalls import is_stalled

        if is_stalled(self, one):
            consumed = 0.0
        velocity = None
        if produced is not None and consumed is not None:
            velocity = produced - consumed
            if abs(velocity) <= max(1.0, 0.01 * max(produced, consumed)):
                velocity = 0.0
        catch_up = None
        if one.lag == 0:
            catch_up = 0.0
        elif one.lag is not None and velocity is not None and velocity < 0:
            catch_up = one.lag / -velocity
        if produced == 0 and not consumed:
            trend = "idle"
        elif velocity is None:
            trend = "unknown"
        else:
            trend = "growing" if velocity > 0 else "shrinking" if velocity < 0 else "steady"
        return {
            **named(one.key),
            "window_ms": self.window_ms,
            "produced_per_second": produced,
            "consumed_per_second": consumed,
            "velocity": velocity,
            "lag": one.lag,
            "catch_up_seconds": catch_up,
            "trend": trend,
        }

    def rates(self) -> Iterator[Row]:
        """Yield the rows of `rates`."""
        return (self.rate(one) for one in self.standings)


def named(key: Key) -> Row:
    """Return the key as columns."""
    return dict(zip(("group", "topic", "partition"), key, strict=True))
