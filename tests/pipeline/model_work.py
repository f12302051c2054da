"""The model's tables `member_skew`, `abandoned_groups` and `commit_hygiene`; see `model.py`."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.pipeline.model import ABANDONED_MS, Key, Model, Place, Row
from tests.pipeline.model_groups import Made, Person, generations
from tests.pipeline.story import Commit, Generation, Strange, Told


def member_skew(model: Model) -> Iterator[Row]:
    """Yield the rows of `member_skew`: members of current generations."""
    rated = {row_key(row): row for row in model.rates()}
    for name, all_made in generations(model).items():
        made = all_made[-1]
        if made.removed or not made.people:
            continue
        hot = _hot_places(model, name, made)
        rows = [_work(name, one, rated, hot) for one in made.people]
        yield from _judged(rows)


def row_key(row: Row) -> Key:
    """Return group, topic and partition of a row."""
    return row["group"], row["topic"], row["partition"]


def _places(person: Person) -> list[Place]:
    return [(topic, one) for topic, many in (person.assigned or {}).items() for one in many]


def _hot_places(model: Model, name: str, made: Made) -> set[Place]:
    """Return partitions with a much greater load than the others of their topic."""
    loads: dict[str, dict[Place, float]] = defaultdict(dict)
    for place in made.owners or {}:
        load = model.produced(place)
        if load is not None:
            loads[place[0]][place] = load
    hot = set()
    for of_topic in loads.values():
        middle = statistics.median(of_topic.values())
        away = statistics.median(abs(one - middle) for one in of_topic.values())
        limit = middle + 3 * max(away, 0.1 * middle)
        total = sum(of_topic.values())
        hot |= {
            place
            for place, load in of_topic.items()
            if load * len(of_topic) > 3 * total or load > limit
        }
    return hot


def _work(name: str, one: Person, rated: dict[Key, Row], hot: set[Place]) -> Row:
    rows = [rated[name, *place] for place in _places(one) if (name, *place) in rated]

    def total(column: str) -> Any:
        known = [row[column] for row in rows if row[column] is not None]
        return sum(known) if known else (0 if one.count == 0 else None)

    def decimal(column: str) -> float | None:
        return None if (found := total(column)) is None else float(found)

    return {
        "group": name,
        "member_id": one.member_id,
        "client_id": one.client_id,
        "client_host": one.host,
        "partitions": one.count,
        "load_per_second": decimal("produced_per_second"),
        "lag": total("lag"),
        "consumed_per_second": decimal("consumed_per_second"),
        "hot": any(place in hot for place in _places(one)),
    }


def variation(values: list[Any]) -> float | None:
    """Return the population standard deviation divided by the mean."""
    known = [one for one in values if one is not None]
    mean = sum(known) / len(known) if known else 0
    return statistics.pstdev(known) / mean if mean else None


def gini(values: list[int]) -> float | None:
    """Return the Gini coefficient: half the mean difference of all pairs, divided by the mean.

    The result is 0 if all values are equal, and None if their sum is 0.
    """
    if not values or not sum(values):
        return None
    apart = sum(abs(one - other) for one in values for other in values)
    return apart / (2 * len(values) * sum(values))


def _judged(rows: list[Row]) -> Iterator[Row]:
    counts = [row["partitions"] for row in rows]
    loads = [row["load_per_second"] for row in rows]
    known = [load for load in loads if load is not None]
    mean = sum(known) / len(known) if known else None
    paces = {}
    for row in rows:
        if row["load_per_second"]:
            consumed = row["consumed_per_second"] or 0.0
            paces[row["member_id"]] = max(0.0, min(1.0, consumed / row["load_per_second"]))
    for row in rows:
        pace = paces.get(row["member_id"])
        slow = (
            (row["lag"] or 0) > 0
            and mean is not None
            and pace is not None
            and row["load_per_second"] <= 1.5 * mean
            and pace < 0.5 * max(paces.values())
        )
        idle = row["partitions"] == 0
        fewest = min(one for one in counts if one is not None) if any(
            one is not None for one in counts) else None  # fmt: skip
        rules = {
            "assignment_skew": fewest is not None
            and row["partitions"] is not None
            and row["partitions"] - fewest > 1,
            "key_skew": row.pop("hot"),
            "slow_member": slow,
            "too_many_members": idle and len(rows) > sum(one or 0 for one in counts),
            "idle": idle,
        }
        yield {
            **row,
            "group_members": len(rows),
            "group_idle_members": counts.count(0),
            "partitions_cv": variation(counts),
            "load_cv": variation(loads),
            "load_max_over_mean": max(known) / mean if mean else None,
            "lag_gini": gini([one["lag"] for one in rows if one["lag"] is not None]),
            "verdicts": [verdict for verdict, holds in rules.items() if holds],
        }


# Models of the tables `abandoned_groups` and `commit_hygiene`.


def abandoned_groups(model: Model) -> Iterator[Row]:
    """Yield the rows of `abandoned_groups`: groups with at least one reason."""
    made = generations(model)
    rates = {row_key(row): row for row in model.rates()}
    for name in sorted({*made, *(key[0] for key in model.living)}):
        states = [one for one in model.standings if one.key in model.living and one.key[0] == name]
        last = made[name][-1] if name in made else None
        if not states and (last is None or last.removed):
            continue
        members = len(last.people) if last and not last.removed and last.kind != "share" else None
        commit_ms = max((one.commit_ms for one in states if one.commit_ms), default=None)
        changed_ms = last.told.at_ms if last is not None else None
        silent_ms = model.at_ms - max(one for one in (commit_ms, changed_ms) if one is not None)
        grows = any(
            (one.commit_ms or 0) <= model.begin_ms
            and (one.lag or 0) > 0
            and (rates[one.key]["produced_per_second"] or 0) > 0
            for one in states
        )
        family = litter_family(name)
        rules = {
            "empty_and_silent": not members and silent_ms >= ABANDONED_MS,
            "topic_gone": bool(states) and all(one.state == "NO_TOPIC" for one in states),
            "lag_grows_without_members": not members and grows,
            "litter_name": not members and family is not None,
        }
        reasons = [reason for reason, holds in rules.items() if holds]
        if not reasons:
            continue
        client = _last_client(made.get(name, []))
        lags = [one.lag for one in states if one.lag is not None]
        yield {
            "group": name,
            "reasons": reasons,
            "litter_family": family,
            "members": members,
            "last_commit_ms": commit_ms,
            "empty_since_ms": changed_ms if members == 0 else None,
            "silent_ms": silent_ms,
            "last_client_id": None if client is None else client.client_id,
            "last_client_host": None if client is None else client.host,
            "partitions": len(states),
            "lag": sum(lags) if lags else None,
            "log_bytes": _kept_bytes(model, name),
        }


def litter_family(name: str) -> str | None:
    """Return the generated name without its random part; None for other names."""
    found = re.fullmatch(r"console-consumer-\d+", name)
    return None if found is None else "console-consumer-*"


def _last_client(made: list[Made]) -> Person | None:
    people = [(one, person) for one in made for person in one.people]
    order = max(
        people,
        key=lambda pair: (pair[0].told.log_offset, pair[1].leads, pair[1].member_id),
        default=None,
    )
    return None if order is None else order[1]


def _kept_bytes(model: Model, name: str) -> int:
    """Return the bytes of a group's records that compaction keeps."""
    last: dict[Any, int] = {}
    for one in model.log:
        if one.group != name or isinstance(one.said, Strange):
            continue
        said = one.said
        if isinstance(said, Commit):
            last[said.topic, said.partition] = 0 if said.offset is None else one.record_bytes
        elif isinstance(said, Generation):
            last["group"] = 0 if said.number is None else one.record_bytes
        else:
            last[said.kind, said.member_id] = 0 if said.value is None else one.record_bytes
    return sum(last.values())


def commit_hygiene(model: Model) -> Iterator[Row]:
    """Yield the rows of `commit_hygiene`: commits and removals of the window."""
    found: dict[str, list[tuple[Told, Commit, int | None, bool]]] = defaultdict(list)
    for events in model.commits.values():
        before: int | None = None
        for one, said in events:
            if one.at_ms > model.begin_ms:
                assert one.group is not None
                found[one.group].append((one, said, before, one is events[-1][0]))
            before = said.offset
    made = generations(model)
    for name, recent in found.items():
        commits = [event for event in recent if event[1].offset is not None]
        holding = sum(1 for *_, last in commits if last)
        modern = any(one.kind == "consumer" for one in made.get(name, []))
        stale = sum(1 for one, said, *_ in commits if _is_stale(one, said, made.get(name, [])))
        texts = [len((said.metadata or "").encode()) for _, said, *_ in commits]
        yield {
            "group": name,
            "commits": len(commits),
            "commits_per_second": len(commits) / (model.window_ms / 1000),
            "noop_commits": sum(1 for _, said, before, _ in commits if said.offset == before),
            "rewinds": sum(
                1
                for _, said, before, _ in commits
                if before is not None and said.offset is not None and said.offset < before
            ),
            "tombstones": len(recent) - len(commits),
            "log_bytes": sum(one.record_bytes for one, *_ in recent),
            "write_amplification": len(commits) / holding if holding else None,
            "stale_commits": None if modern else stale,
            "max_metadata_bytes": max(texts, default=None),
        }


def _is_stale(one: Told, said: Commit, made: list[Made]) -> bool:
    """Return whether the partition had no owner in the last generation before the commit."""
    before = [each for each in made if each.told.log_offset < one.log_offset]
    if not before or not before[-1].people:
        return False
    owners = before[-1].owners
    return owners is not None and (said.topic, said.partition) not in owners
