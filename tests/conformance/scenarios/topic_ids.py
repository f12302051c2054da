"""OffsetCommit and OffsetFetch of version 10, which have topic ids (KIP-848).

The order of topics and partitions is recorded as well, because unknown topics have a special place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance import batches
from tests.conformance.stage import Area, Stage

AREA = Area("topic_ids")
VERSION = 10

ZERO = bytes(16)
UNKNOWN = bytes([7]) * 16
OTHER = bytes([6]) * 16

Asked = Sequence[tuple[bytes, Sequence[int]]]
"""Topic ids with partitions."""


class Topics:
    """The ids of a run's topics, and their symbols in a transcript."""

    def __init__(self, t: Stage) -> None:
        self._t = t
        self._symbols = {ZERO: "zero", UNKNOWN: "unknown", OTHER: "other", **t.env.topic_ids}
        ids = {symbol: topic_id for topic_id, symbol in t.env.topic_ids.items()}
        self.one, self.three = ids["<id:t1>"], ids["<id:t3>"]

    def create(self, name: str, symbol: str) -> bytes:
        """Create a topic, unrecorded, and return its id once the broker knows it."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        body = {"topics": [{**topic, "assignments": [], "configs": []}], "timeout_ms": 9000}
        created = self._t.raw("CreateTopics", 7, {**body, "validate_only": False})
        topic_id: bytes = created["topics"][0]["topic_id"]
        self._symbols[topic_id] = symbol
        self._wait(topic_id, error=0)
        return topic_id

    def delete(self, name: str, topic_id: bytes) -> None:
        """Delete a topic, unrecorded, and wait until the broker no longer knows it."""
        body = {"topics": [{"name": name, "topic_id": ZERO}], "timeout_ms": 9000}
        self._t.raw("DeleteTopics", 6, body)
        self._wait(topic_id, error=100)

    def _wait(self, topic_id: bytes, error: int) -> None:
        asked = {"topics": [{"name": None, "topic_id": topic_id}]}
        while self._t.raw("Metadata", 12, asked)["topics"][0]["error_code"] != error:
            self._t.nap(0.05)

    def commit(self, label: str, topics: Asked, **changes: Any) -> None:
        """Commit the offsets 100 + partition; record (id, [(partition, error)])."""
        wanted = [
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": one,
                        "committed_offset": 100 + one,
                        "committed_metadata": "m",
                    }
                    for one in partitions
                ],
            }
            for topic_id, partitions in topics
        ]
        body = {"group_id": self._t.g, "member_id": "", "topics": wanted, **changes}
        answer = self._t.raw("OffsetCommit", VERSION, body)
        self._t.rec(
            label,
            [
                [
                    self._symbols[topic["topic_id"]],
                    [[one["partition_index"], one["error_code"]] for one in topic["partitions"]],
                ]
                for topic in answer["topics"]
            ],
        )

    def fetch(self, label: str, *groups: tuple[str, Asked | None]) -> None:
        """Fetch offsets; record [error, (id, [(partition, offset, metadata, error)])] by group.

        All offsets of a group come in hash map order, so these are sorted.
        """
        wanted = [{"group_id": group, "topics": _named(topics)} for group, topics in groups]
        answer = self._t.raw("OffsetFetch", VERSION, {"groups": wanted, "require_stable": False})
        fields = ("partition_index", "committed_offset", "metadata", "error_code")
        recorded = []
        for (_, asked), group in zip(groups, answer["groups"], strict=True):
            topics: list[Any] = [
                [
                    self._symbols[topic["topic_id"]],
                    [[one[field] for field in fields] for one in topic["partitions"]],
                ]
                for topic in group["topics"]
            ]
            if asked is None:
                topics = sorted([symbol, sorted(partitions)] for symbol, partitions in topics)
            recorded.append([group["error_code"], *topics])
        self._t.rec(label, recorded)


def _named(topics: Asked | None) -> list[dict[str, Any]] | None:
    if topics is None:
        return None
    return [{"topic_id": one, "partition_indexes": list(indexes)} for one, indexes in topics]


@AREA.scenario
def commits(t: Stage) -> None:
    """Which offsets are stored, and which errors does OffsetCommit return, in which order?"""
    topics = Topics(t)
    one, three = topics.one, topics.three
    for label, asked in (
        ("known", [(one, [0]), (three, [2, 0])]),
        ("unknown id", [(UNKNOWN, [0, 1])]),
        ("zero id", [(ZERO, [0])]),
        ("zero and unknown id", [(ZERO, [0]), (UNKNOWN, [0])]),
        ("unknown partition", [(three, [0, 9, -1])]),
        ("unknown id between known ones", [(one, [0]), (UNKNOWN, [0]), (three, [0])]),
        ("two unknown ids first", [(OTHER, [1]), (UNKNOWN, [1]), (one, [0])]),
        ("unknown partition, then unknown id", [(three, [9]), (UNKNOWN, [1]), (one, [0])]),
        ("unknown id, then unknown partition", [(UNKNOWN, [1]), (three, [9, 0]), (one, [0])]),
        ("topic twice", [(three, [0]), (three, [1])]),
        ("partition twice", [(one, [0]), (one, [0])]),
        ("topic twice around an unknown id", [(three, [0]), (UNKNOWN, [0]), (three, [1])]),
        ("topic twice with an unknown partition", [(three, [0]), (three, [9])]),
        ("unknown id twice", [(UNKNOWN, [0]), (UNKNOWN, [1])]),
        ("no partitions", [(one, [])]),
        ("no partitions of an unknown id", [(UNKNOWN, [])]),
        ("no partitions of an unknown id beside a known one", [(UNKNOWN, []), (one, [0])]),
        ("no partitions beside an unknown id", [(one, []), (UNKNOWN, [0])]),
        ("nothing", []),
    ):
        topics.commit(label, asked)
    topics.fetch("all", (t.g, None))


@AREA.scenario
def refused_commits(t: Stage) -> None:
    """Which errors do known and unknown topic ids get if the caller may not commit?"""
    topics = Topics(t)
    asked = [(topics.one, [0]), (UNKNOWN, [0])]
    generation = {"generation_id_or_member_epoch": 3}
    topics.commit("generation of an unknown group", asked, **generation)
    topics.commit("the same, unknown id alone", [(UNKNOWN, [0])], **generation)
    (a,) = t.reach("stable", "A")
    topics.commit("stranger", asked, member_id="ghost", **generation)
    topics.commit("no member", asked)
    member = {"generation_id_or_member_epoch": a.gen, "member_id": a.id}
    topics.commit("member", asked, **member)
    topics.fetch("all", (t.g, None))


@AREA.scenario
def fetches(t: Stage) -> None:
    """Unknown ids come last in a fetch, each with an error; null topics return all offsets."""
    topics = Topics(t)
    one, three = topics.one, topics.three
    topics.commit("commit", [(one, [0]), (three, [1])])
    for label, asked in (
        ("known", [(one, [0]), (three, [0, 1, 9])]),
        ("unknown id", [(UNKNOWN, [0, 1])]),
        ("zero id", [(ZERO, [0])]),
        (
            "unknown ids between known ones",
            [(UNKNOWN, [0]), (one, [0]), (OTHER, [0]), (three, [1])],
        ),
        ("topic twice", [(three, [1]), (three, [0])]),
        ("partition twice", [(three, [1, 1])]),
        ("unknown id twice", [(UNKNOWN, [0]), (UNKNOWN, [0])]),
        ("no partitions", [(one, []), (UNKNOWN, [])]),
        ("nothing", []),
        ("all", None),
    ):
        topics.fetch(label, (t.g, asked))
    nobody = t.group("nobody")
    topics.fetch("unknown group", (nobody, [(one, [0]), (UNKNOWN, [0])]))
    topics.fetch("all of an unknown group", (nobody, None))
    topics.fetch("many groups", (t.g, [(one, [0])]), (nobody, None), (nobody, [(UNKNOWN, [1])]))
    topics.fetch("the same group twice", (t.g, [(one, [0])]), (t.g, [(OTHER, [0])]))


@AREA.scenario
def names_and_ids(t: Stage) -> None:
    """Offsets committed by id can be fetched by name, and the reverse."""
    topics = Topics(t)
    topics.commit("by id", [(topics.one, [0])])
    t.commit([(t.t3, 2, 7)], label="by name")
    t.offs(label="by name")
    topics.fetch("by id", (t.g, [(topics.one, [0]), (topics.three, [2])]))


@AREA.scenario
def deleted_topic(t: Stage) -> None:
    """A topic is deleted, and another topic is created with its name."""
    topics = Topics(t)
    name = t.g.replace(".", "-")
    first = topics.create(name, "first")
    topics.commit("commit", [(first, [0]), (topics.one, [0])])
    topics.delete(name, first)
    topics.commit("commit of the deleted id", [(first, [0]), (topics.one, [0])])
    topics.fetch("deleted id", (t.g, [(first, [0]), (topics.one, [0])]))
    topics.fetch("all", (t.g, None))
    second = topics.create(name, "second")
    topics.fetch("both ids", (t.g, [(second, [0]), (first, [0])]))
    topics.commit("commit of both ids", [(second, [0]), (first, [0])])
    topics.fetch("both ids again", (t.g, [(first, [0]), (second, [0])]))
    topics.delete(name, second)


@AREA.each(version=[9, 13])
def errors_of_one_produce(t: Stage, version: int) -> None:
    """Which errors does a Produce v{version} return for invalid, oversized and valid batches?

    Kafka answers in the order of a hash table of topic ids, which are random.
    """
    first = t.topic(3, suffix="c")
    limited = t.topic(3, "b", **{"max.message.bytes": "100"})
    last = t.topic(3, suffix="a")
    fits, large = batches.build(-1, -1, -1, 1, False), batches.build(-1, -1, -1, 60, False)
    damaged = fits[:20] + bytes([fits[20] ^ 1]) + fits[21:]
    asked = {
        first: {2: fits, 9: fits, 0: damaged},
        f"{t.g}-none": {1: fits, 0: fits},
        limited: {1: large, 0: fits, 7: fits},
        last: {2: fits, 1: fits, 0: fits},
    }
    topics = [
        {
            **({"name": name} if version < 13 else {"topic_id": t.own_topics.get(name, b"1" * 16)}),
            "partition_data": [{"index": index, "records": own[index]} for index in own],
        }
        for name, own in asked.items()
    ]
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 5000, "topic_data": topics}
    names = {topic_id: name for name, topic_id in t.own_topics.items()}
    shown = [
        [
            t.sub(names.get(one.get("topic_id"), one.get("name", "unknown"))).removeprefix(t.g),
            part["index"],
            ErrorCode(part["error_code"]).name,
            part["base_offset"],
        ]
        for one in t.raw("Produce", version, body)["responses"]
        for part in one["partition_responses"]
    ]
    t.rec("partitions", sorted(shown))
