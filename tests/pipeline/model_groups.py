"""The model's tables about groups: generations, members, rebalances; see `model.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.pipeline.model import (
    Group,
    Model,
    Place,
    Row,
    day_of,
    id_text,
)
from tests.pipeline.story import HOUR_MS, MINUTE_MS, Commit, Generation, Modern, Told

STORM_GENERATIONS = 5
STORM_MS = 5 * MINUTE_MS
Owned = dict[str, list[int]]


@dataclass(frozen=True)
class Person:
    """A member of one generation or epoch."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    assigned: Owned | None
    leads: bool
    session_ms: int | None
    rebalance_ms: int
    epochs: Owned | None = None

    @property
    def who(self) -> str:
        """Return the id that identifies the member in later generations."""
        return self.instance or self.member_id

    @property
    def count(self) -> int | None:
        """Return the number of assigned partitions; None if unknown."""
        return None if self.assigned is None else sum(map(len, self.assigned.values()))


@dataclass(frozen=True)
class Made:
    """A generation, epoch or removal (`number` None) with all its members."""

    told: Told
    kind: str
    number: int | None
    protocol: str | None
    people: tuple[Person, ...]
    removed: bool
    assigned_ms: int | None = None

    @property
    def owners(self) -> dict[Place, str] | None:
        """Return the owner of each partition; None if an assignment is unknown."""
        if any(one.assigned is None for one in self.people):
            return None
        return {
            (topic, number): one.who
            for one in self.people
            for topic, numbers in (one.assigned or {}).items()
            for number in numbers
        }


def generations(model: Model) -> dict[str, list[Made]]:
    """Return all generations of every group, in order."""
    found: dict[str, list[Made]] = defaultdict(list)
    for one, said in model.of_kind(Generation):
        people = tuple(
            Person(
                member.member_id,
                member.instance,
                member.client_id,
                member.host,
                member.topics,
                member.assigned,
                member is said.members[0],
                member.message().session_timeout,
                member.message().rebalance_timeout,
            )
            for member in said.members
        )
        removed = said.number is None
        assert one.group is not None
        found[one.group].append(Made(one, "classic", said.number, said.protocol, people, removed))
    _add_modern(model, found)
    return found


def _add_modern(model: Model, found: dict[str, list[Made]]) -> None:
    """Add the epochs of KIP-848 and share groups with their members and assignments.

    The members of an epoch are those with a record before it; a member's assignment is the last one
    that it reported before the next epoch.
    """
    records = list(model.of_kind(Modern))
    names = {id_text(said.topic_id): said.topic for _, said in model.of_kind(Commit)}
    for one, said in records:
        assert one.group is not None
        if said.kind == "share":
            found[one.group].append(Made(one, "share", 5, None, (), removed=False))
        if said.kind != "epoch":
            continue
        of_group = [(at, what) for at, what in records if at.group == one.group]
        until = min(
            (
                at.log_offset
                for at, what in of_group
                if what.kind == "epoch" and at.log_offset > one.log_offset
            ),
            default=2**62,
        )
        members: dict[str | None, Any] = {}
        assigned: dict[str | None, Any] = {}
        epochs: dict[str | None, Any] = {}
        assigned_ms = None
        for at, what in of_group:
            if what.kind == "member" and at.log_offset < one.log_offset:
                members[what.member_id] = what.value
            if what.kind == "assignment" and at.log_offset < until and what.value is not None:
                assigned[what.member_id] = {
                    names.get(id_text(part.topic_id), id_text(part.topic_id)): part.partitions
                    for part in what.value.assigned_partitions
                }
                epochs[what.member_id] = {
                    names.get(id_text(part.topic_id), id_text(part.topic_id)): (
                        part.assignment_epochs
                    )
                    for part in what.value.assigned_partitions
                }
            if what.kind == "target" and what.value.assignment_epoch == said.value.epoch:
                assigned_ms = what.value.assignment_timestamp
        people = tuple(
            Person(
                name or "",
                value.instance_id,
                value.client_id,
                value.client_host,
                tuple(value.subscribed_topic_names),
                assigned.get(name),
                False,
                None,
                value.rebalance_timeout_ms,
                epochs.get(name),
            )
            for name, value in sorted(members.items())
            if value is not None
        )
        found[one.group].append(
            Made(one, "consumer", said.value.epoch, None, people, False, assigned_ms)
        )


def standing_groups(model: Model) -> dict[str, Group]:
    """Return the existing groups: the last generation or epoch of each."""
    found = {}
    for name, made in generations(model).items():
        last = made[-1]
        if last.removed or last.kind == "share":
            continue
        modern = last.kind == "consumer"
        topics = {topic for one in last.people for topic in one.topics}
        places = {
            (topic, number)
            for one in last.people
            for topic, numbers in (one.assigned or {}).items()
            for number in numbers
        }
        state_ms = None if modern else last.told.at_ms
        found[name] = Group(
            modern, len(last.people), state_ms, frozenset(topics), frozenset(places)
        )
    return found


def group_generations(model: Model) -> Iterator[Row]:
    """Yield the rows of `group_generations`: one row per record."""
    for name, all_made in generations(model).items():
        for made in all_made:
            counts = [one.count for one in made.people]
            known = not made.removed
            total = None if None in counts else sum(one or 0 for one in counts)
            classic = made.kind == "classic" and not made.removed
            event = "generation" if made.people else "empty"
            yield {
                "group": name,
                "group_type": made.kind,
                "event": "tombstone" if made.removed else event,
                "generation": made.number,
                "protocol_type": "consumer" if classic else None,
                "protocol": made.protocol,
                "leader": next((one.member_id for one in made.people if one.leads), None),
                "members": len(made.people) if known else None,
                "partitions": total if known else None,
                "state_timestamp_ms": made.told.at_ms if classic else None,
                "assigned_ms": made.assigned_ms,
                "log_partition": made.told.log_partition,
                "log_offset": made.told.log_offset,
                "log_timestamp_ms": made.told.at_ms,
                "day": day_of(made.told.at_ms),
            }


def group_members(model: Model) -> Iterator[Row]:
    """Yield the rows of `group_members`: one row per member and generation."""
    for name, all_made in generations(model).items():
        for made in all_made:
            for one in made.people:
                yield {
                    "group": name,
                    "generation": made.number,
                    "member_id": one.member_id,
                    "group_instance_id": one.instance,
                    "client_id": one.client_id,
                    "client_host": one.host,
                    "is_leader": one.leads,
                    "session_timeout_ms": one.session_ms,
                    "rebalance_timeout_ms": one.rebalance_ms,
                    "subscribed_topics": list(one.topics),
                    "assigned": None
                    if one.assigned is None
                    else [
                        {"topic": topic, "partitions": numbers}
                        for topic, numbers in one.assigned.items()
                    ],
                    "assigned_count": one.count,
                    "assignment_epochs": None
                    if one.epochs is None
                    else [
                        {"topic": topic, "epochs": numbers} for topic, numbers in one.epochs.items()
                    ],
                    "log_partition": made.told.log_partition,
                    "log_offset": made.told.log_offset,
                    "problem": None,
                }


def rebalances(model: Model) -> Iterator[Row]:
    """Yield the rows of `rebalances`; a group's first record without members is not one."""
    for name, all_made in generations(model).items():
        before: Made | None = None
        made_: list[tuple[Made, Made | None]] = []
        last_number: int | None = None
        for made in all_made:
            again = before is not None and not made.removed and made.number == last_number
            last_number = made.number
            if again or made.kind == "share":
                continue
            if not made.removed and (made.number or made.people):
                made_.append((made, before))
            before = made
        times = [made.told.at_ms for made, _ in made_]
        for made, one_before in made_:
            yield {**_compared(name, made, one_before), **_around(model, name, made, times)}


def _compared(name: str, made: Made, before: Made | None) -> Row:
    """Return the columns on members and partitions that changed."""
    row: Row = {
        "group": name,
        "generation": made.number,
        "generation_before": None if before is None else before.number,
        "at_ms": made.told.at_ms,
        "members_before": None if before is None else len(before.people),
        "members": len(made.people),
    }
    now = {one.who: one for one in made.people}
    owners = made.owners
    if before is None:
        unknown = ("joined", "left", "restarted", "moved", "moved_share", "stickiness")
        places = None if owners is None else len(owners)
        changed = {"leader_changed": None, "protocol_changed": None}
        return {**row, **dict.fromkeys(unknown), "partitions": places, **changed}
    then = {one.who: one for one in before.people}
    back = _pairs([then[who] for who in then if who not in now],
                  [now[who] for who in now if who not in then])  # fmt: skip
    restarted = [*back] + [
        who
        for who, one in now.items()
        if one.instance and who in then and then[who].member_id != one.member_id
    ]
    return {
        **row,
        "joined": sorted(set(now) - set(then) - set(back)),
        "left": sorted(set(then) - set(now) - set(back.values())),
        "restarted": sorted(restarted),
        **_moves(owners, before.owners, back),
        **_changes(made, before, back),
    }


def _pairs(gone: list[Person], come: list[Person]) -> dict[str, str]:
    """Return the restarted dynamic members: new id -> old id."""
    pairs = {}
    clients: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in sorted(gone, key=lambda person: person.who):
        if one.instance is None:
            clients[one.client_id, one.host].append(one.who)
    for one in sorted(come, key=lambda person: person.who):
        waiting = clients[one.client_id, one.host]
        if one.instance is None and waiting:
            pairs[one.who] = waiting.pop(0)
    return pairs


def _moves(
    owners: dict[Place, str] | None, before: dict[Place, str] | None, back: dict[str, str]
) -> Row:
    if owners is None or before is None:
        return dict.fromkeys(("partitions", "moved", "moved_share", "stickiness"))
    now = {place: back.get(who, who) for place, who in owners.items()}
    both = set(now) | set(before)
    moved = sum(1 for place in set(now) & set(before) if now[place] != before[place])
    pairs = set(now.items()) | set(before.items())
    kept = set(now.items()) & set(before.items())
    return {
        "partitions": len(both),
        "moved": moved,
        "moved_share": moved / len(both) if both else None,
        "stickiness": len(kept) / len(pairs) if pairs else None,
    }


def _changes(made: Made, before: Made, back: dict[str, str]) -> Row:
    """Return the changes of leader and protocol; null if one side has none."""
    leaders = [next((one.who for one in side.people if one.leads), None) for side in (made, before)]
    leader = None
    if None not in leaders:
        leader = back.get(str(leaders[0]), leaders[0]) != leaders[1]
    protocol = None
    if made.protocol is not None and before.protocol is not None:
        protocol = made.protocol != before.protocol
    return {"leader_changed": leader, "protocol_changed": protocol}


def _around(model: Model, name: str, made: Made, times: list[int]) -> Row:
    """Return storm, frequency, and the columns from `__group_events`."""
    at_ms = made.told.at_ms
    # For each span of STORM_MS that contains this generation: how many generations the span
    # contains.
    stretches = (sum(1 for one in times if begin <= one <= begin + STORM_MS)
                 for begin in times if begin <= at_ms <= begin + STORM_MS)  # fmt: skip
    events = [
        one
        for one in model.story.events
        if (one.group, one.generation) == (name, made.number)
        and (not model.past or one.ended_ms <= model.at_ms)
    ]
    event = min(events, key=lambda one: abs(one.ended_ms - at_ms), default=None)
    return {
        "storm": max(stretches) >= STORM_GENERATIONS,
        "per_hour": float(sum(1 for one in times if at_ms - HOUR_MS < one <= at_ms)),
        "trigger": None if event is None else event.trigger,
        "reason": None if event is None else event.reason,
        "duration_ms": None if event is None else event.ended_ms - event.started_ms,
        "log_partition": made.told.log_partition,
        "log_offset": made.told.log_offset,
        "day": day_of(at_ms),
    }
