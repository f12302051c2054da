"""Our assignors are compared with Kafka's own classes on thousands of groups."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec, Partitions
from tests.oracle.kafka_process import SECONDS, java
from tests.unit.core.groups.consumer.assignors.evolving import Case, assigned, evolving

PROGRAM = Path(__file__).with_name("Assign.java")


@pytest.mark.nightly
def test_range_and_uniform_assign_as_kafkas_do() -> None:
    """Range and uniform assign like Kafka's classes.

    Where our order differs from that of Kafka's hash tables, the balance and the number of kept
    partitions are the same; otherwise the assignments are equal.
    """
    cases = [*consumer_cases()]
    counts = Counter(case.assignor for case in cases)
    assert counts["uniform"] >= 3000
    assert counts["range"] >= 2000
    assert not compare(cases)


@pytest.mark.nightly
def test_simple_assigns_as_kafkas_does() -> None:
    """The simple assignor assigns like Kafka's class.

    Small share groups, with the order of Kafka's hash tables, get equal assignments. In large
    groups each member's number of partitions differs by at most one, and in total about as many
    partitions are kept.
    """
    small, large = [*small_share_cases()], [*large_share_cases()]
    assert len(small) >= 2000
    assert len(large) >= 1000
    failed = compare(small)
    # For members that own unassignable partitions, Kafka's assignor throws NoSuchElementException.
    assert all("NoSuchElementException" in error for error in failed.values()), failed
    assert all(case.spec.assignable is not None for case in map(small.__getitem__, failed))
    assert len(failed) < 100

    stayed: Counter[str] = Counter()
    for case, theirs in zip(large, answers(large), strict=True):
        own, expected = (
            quality(plain(one, case.spec), case.spec)
            for one in (assigned("simple", case.spec), assignment_of(theirs))
        )
        assert own.sizes.keys() == expected.sizes.keys()
        for topic_ids, sizes in own.sizes.items():
            pairs = zip(sizes, expected.sizes[topic_ids], strict=True)
            assert all(abs(one - another) <= 1 for one, another in pairs), case
        assert abs(own.holders.total() - expected.holders.total()) <= 1, case
        stayed.update(own=own.kept, theirs=expected.kept)
    assert abs(stayed["own"] - stayed["theirs"]) < stayed["theirs"] / 1000


def consumer_cases() -> Iterator[Case]:
    """Yield small and large groups; some have ids in the order of Kafka's hash tables."""
    for seed, count, members_max, partitions_max, kind in (
        (1, 3000, 8, 12, "topics"),
        (2, 500, 60, 90, "topics"),
        (3, 2000, 12, 20, "random"),
        (4, 500, 60, 90, "random"),
    ):
        for step, group in enumerate(evolving(seed, count, members_max, partitions_max)):
            ids = group.ids(kind)
            assignor = "uniform" if step % 3 else "range"
            spec = group.spec(ids)
            yield Case(assignor, spec, kind == "topics" or not spec.is_homogeneous)
            group.take(assigned(assignor, spec), ids)


def small_share_cases() -> Iterator[Case]:
    """Yield groups of up to 16 entries, for which our order is that of Kafka's hash tables."""
    for step, group in enumerate(evolving(5, 2500, 16, 2)):
        ids = group.ids("partitions")
        spec = group.spec(ids, has_assignable=step % 4 == 0)
        yield Case("simple", spec, is_ordered=True)
        group.take(assigned("simple", spec), ids)


def large_share_cases() -> Iterator[Case]:
    """Yield groups with more partitions than members, and the reverse."""
    for seed, members_max, partitions_max in ((6, 12, 20), (7, 60, 30)):
        for group in evolving(seed, 500, members_max, partitions_max):
            ids = group.ids("random")
            spec = group.spec(ids)
            yield Case("simple", spec, is_ordered=False)
            group.take(assigned("simple", spec), ids)


def answers(cases: Iterable[Case]) -> list[Any]:
    """Return the answers of Kafka's assignors."""
    lines = "".join(json.dumps(to_json(case)) + "\n" for case in cases)
    done = subprocess.run(
        java(str(PROGRAM)), input=lines, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(cases: Sequence[Case]) -> dict[int, str]:
    """Compare both assignors on each case; return Kafka's failures by case number."""
    failed: dict[int, str] = {}
    for number, (case, answer) in enumerate(zip(cases, answers(cases), strict=True)):
        own = plain(assigned(case.assignor, case.spec), case.spec)
        if "" in answer:
            failed[number] = answer[""]
            continue
        expected = plain(assignment_of(answer), case.spec)
        if case.is_ordered:
            assert own == expected, case
        else:
            assert quality(own, case.spec) == quality(expected, case.spec), case
    return failed


def to_json(case: Case) -> dict[str, Any]:
    """Return a case as the Java program reads it."""
    spec = case.spec
    return {
        "assignor": case.assignor,
        "homogeneous": spec.is_homogeneous,
        "counts": {topic_id.hex(): count for topic_id, count in spec.partition_counts.items()},
        "assignable": None if spec.assignable is None else as_hex(spec.assignable),
        "members": {
            name: {
                "instance": member.instance_id,
                "topics": sorted(topic_id.hex() for topic_id in member.topic_ids),
                "partitions": as_hex(member.partitions),
            }
            for name, member in spec.members.items()
        },
    }


def as_hex(partitions: Partitions) -> dict[str, list[int]]:
    """Return sorted partitions by hexadecimal topic id."""
    return {topic_id.hex(): sorted(of_topic) for topic_id, of_topic in sorted(partitions.items())}


def assignment_of(answer: Mapping[str, Mapping[str, list[int]]]) -> Assignment:
    """Parse an answer of the Java program."""
    return {
        name: {bytes.fromhex(one): frozenset(of_topic) for one, of_topic in partitions.items()}
        for name, partitions in answer.items()
    }


def plain(assignment: Assignment, spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the assignment with an entry for every member."""
    assert set(assignment) <= set(spec.members), assignment
    return {name: dict(assignment.get(name, {})) for name in spec.members}


class Quality(NamedTuple):
    """The properties of an assignment that do not depend on order.

    `sizes` are the sorted numbers of partitions per member, by subscription; `kept` is the number
    of partitions that stay with their member; `holders` counts the members of each partition.
    """

    sizes: Mapping[frozenset[bytes], list[int]]
    kept: int
    holders: Counter[tuple[bytes, int]]


def quality(assignment: Assignment, spec: GroupSpec) -> Quality:
    """Return the order-independent properties of an assignment."""
    sizes: dict[frozenset[bytes], list[int]] = {}
    kept, holders = 0, Counter[tuple[bytes, int]]()
    for name, member in spec.members.items():
        partitions = assignment[name]
        sizes.setdefault(member.topic_ids, []).append(sum(map(len, partitions.values())))
        for topic_id, of_topic in partitions.items():
            kept += len(of_topic & member.partitions.get(topic_id, frozenset()))
            holders.update((topic_id, partition) for partition in of_topic)
    for of_class in sizes.values():
        of_class.sort()
    return Quality(sizes, kept, holders)
