"""Random groups for assignors: each step changes the previous group and keeps its assignment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from coordinator_server.core.groups.consumer.target import ASSIGNORS
from coordinator_server.core.groups.modern.assignor_spec import Assignment, GroupSpec, MemberSpec
from coordinator_server.core.groups.share.assignors.simple import simple
from coordinator_server.steps import run_all

TOPICS_MAX = 8
INVERSE_OF_31 = pow(31, -1, 2**32)
OURS = {**ASSIGNORS, "simple": simple}


def assigned(assignor: str, spec: GroupSpec) -> Assignment:
    """Return the assignment of our assignor, with all steps run at once."""
    return run_all(OURS[assignor](spec))


class Case(NamedTuple):
    """A group, and the assignor for it.

    `is_ordered`: Kafka's hash tables have the same order as our loops, so that only the assignment
    itself can differ.
    """

    assignor: str
    spec: GroupSpec
    is_ordered: bool


class Evolving:
    """A group that changes step by step. Topics are numbers; ids are made for each step."""

    def __init__(self, chosen: random.Random, members_max: int, partitions_max: int) -> None:
        self._chosen = chosen
        self._members_max = members_max
        self._partitions_max = partitions_max
        self._is_homogeneous = chosen.random() < 0.5
        self._random_ids = [chosen.randbytes(16) for _ in range(TOPICS_MAX)]
        self._made = 0
        self.counts = {
            topic: chosen.randint(0, partitions_max) for topic in range(chosen.randint(1, 4))
        }
        self._sizes: dict[int, int] = {}
        """The partition counts of deleted topics."""
        self.members: dict[str, tuple[str | None, frozenset[int]]] = {}
        self.owned: dict[str, dict[int, frozenset[int]]] = {}
        for _ in range(chosen.randint(1, members_max)):
            self._join()

    def _some_topics(self) -> frozenset[int]:
        if self._is_homogeneous:
            return frozenset(self.counts)
        return frozenset(topic for topic in self.counts if self._chosen.random() < 0.6)

    def _join(self) -> None:
        self._made += 1
        name = self._chosen.choice(("m", "M", "\ue000", "\U0001f600")) + str(self._made)
        instance = f"i{self._chosen.random()}" if self._chosen.random() < 0.3 else None
        self.members[name] = instance, self._some_topics()

    def step(self) -> None:
        """Change the group in a random way."""
        chosen = self._chosen
        match chosen.choice(("join", "join", "leave", "topic", "grow", "drop", "read", "shuffle")):
            case "join":
                for _ in range(min(chosen.randint(1, 3), self._members_max - len(self.members))):
                    self._join()
            case "leave" if len(self.members) > 1:
                gone = chosen.sample(list(self.members), chosen.randint(1, len(self.members) // 2))
                for name in gone:
                    del self.members[name]
                    self.owned.pop(name, None)
            case "topic":
                known = set(self.counts).union(*self.owned.values())
                free = [topic for topic in range(TOPICS_MAX) if topic not in known]
                if free:
                    self.counts[free[0]] = chosen.randint(0, self._partitions_max)
                    self._read_anew(0.7)
            case "grow":
                topic = chosen.choice(list(self.counts))
                self.counts[topic] = min(self.counts[topic] + 2, self._partitions_max)
            case "drop" if len(self.counts) > 1:
                self._drop(chosen.choice(list(self.counts)))
            case "read":
                self._read_anew(0.3)
            case "shuffle":
                names = list(self.members)
                chosen.shuffle(names)
                self.members = {name: self.members[name] for name in names}

    def _drop(self, topic: int) -> None:
        """Delete a topic, but keep its last assignment."""
        self._sizes[topic] = self.counts.pop(topic)
        for name, (instance, topics) in self.members.items():
            self.members[name] = instance, topics - {topic}

    def _read_anew(self, share: float) -> None:
        for name, (instance, _) in self.members.items():
            if self._is_homogeneous or self._chosen.random() < share:
                self.members[name] = instance, self._some_topics()

    def ids(self, kind: str) -> dict[int, bytes]:
        """Return topic ids: `random`, or ids that a hash table of Java keeps in ascending order.

        The table is one of topic ids (`topics`) or of partitions (`partitions`), whose hash is 31
        times the topic's hash plus the partition.
        """
        if kind == "random":
            return dict(enumerate(self._random_ids))
        ids, start = {}, 0
        for topic in range(TOPICS_MAX):
            code = topic if kind == "topics" else start * INVERSE_OF_31 % 2**32
            # In Java, the hash code of a topic id is the XOR of its four 32-bit words, so this
            # topic id has the hash code `code`.
            ids[topic] = (topic << 96 | code ^ topic).to_bytes(16, "big")
            start += self.counts.get(topic, self._sizes.get(topic, 0))
        return ids

    def spec(self, ids: dict[int, bytes], *, has_assignable: bool = False) -> GroupSpec:
        """Return the group in the form for an assignor."""
        members = {
            name: MemberSpec(
                frozenset(ids[topic] for topic in topics),
                {ids[topic]: owned for topic, owned in self.owned.get(name, {}).items()},
                instance,
            )
            for name, (instance, topics) in self.members.items()
        }
        counts = {ids[topic]: count for topic, count in self.counts.items()}
        is_homogeneous = len({topics for _, topics in self.members.values()}) == 1
        assignable = None
        if has_assignable:
            assignable = {
                topic_id: frozenset(p for p in range(count) if self._chosen.random() < 0.8)
                for topic_id, count in counts.items()
            }
        return GroupSpec(members, counts, is_homogeneous, assignable)

    def take(self, assignment: Assignment, ids: dict[int, bytes]) -> None:
        """Set the assignment for the next step."""
        topics = {topic_id: topic for topic, topic_id in ids.items()}
        self.owned = {
            name: {topics[topic_id]: owned for topic_id, owned in assignment.get(name, {}).items()}
            for name in self.members
        }


def evolving(seed: int, count: int, members_max: int, partitions_max: int) -> Iterator[Evolving]:
    """Yield `count` steps of random groups, each of which is replaced after some steps."""
    chosen = random.Random(seed)
    group = Evolving(chosen, members_max, partitions_max)
    for _ in range(count):
        yield group
        if chosen.random() < 0.08:
            group = Evolving(chosen, members_max, partitions_max)
        else:
            group.step()
