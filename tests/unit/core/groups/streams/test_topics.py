"""Topics of a topology: missing topics, created topics, and partition counts."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.streams.status import StatusCode
from protocol.apis.streams_group_heartbeat import StreamsTopology
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer
from tests.harness.topologies import internal, subtopology, topology
from tests.unit.core.groups.streams.context import (
    StreamsContext,
    statuses,
)

MISSING_SOURCES, WRONG, MISSING_INTERNAL = (
    StatusCode.MISSING_SOURCE_TOPICS,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    StatusCode.MISSING_INTERNAL_TOPICS,
)
CONFIGS = {"cleanup.policy": "compact"}
COUNTS_WORDS = topology(
    subtopology("0", "three", sinks=["repartition"]),
    subtopology(
        "1",
        repartitions=["repartition"],
        changelogs=[internal("changelog", replicas=1, configs=CONFIGS)],
    ),
)


def joined_with(asked: StreamsTopology) -> tuple[StreamsContext, Answer]:
    """Return a member with a topology, and the response to its heartbeat."""
    context = StreamsContext()
    return context, context.member("m", asked).join()


def test_internal_topics_are_created() -> None:
    """The first response reports missing internal topics; the next response has the tasks."""
    context = StreamsContext()
    member = context.member("m", COUNTS_WORDS)
    assert statuses(member.join()) == {
        MISSING_INTERNAL: "Internal topics are missing: changelog, repartition"
    }
    assert (context.state, member.epoch, member.active) == ("NotReady", 2, {})
    topics = context.broker.topics
    assert (topics.counts["repartition"], topics.counts["changelog"]) == (3, 3)
    assert (topics.configs["repartition"], topics.configs["changelog"]) == ({}, CONFIGS)
    assert statuses(member.own()) == {}
    assert (context.state, member.epoch) == ("Stable", 3)
    assert member.active == {"0": [0, 1, 2], "1": [0, 1, 2]}
    context.check()


def test_what_cannot_be_created_is_told_and_not_tried_again_at_once() -> None:
    """A failed creation is reported and retried after two heartbeat intervals, as in Kafka."""
    wrong = {"no.such.config": "1"}
    names = ["a", "b", "c", "d"]
    asked = topology(
        subtopology("0", "one", changelogs=[internal(name, configs=wrong) for name in names])
    )
    context = StreamsContext()
    member = context.member("m", asked)
    missing = "Internal topics are missing: a, b, c and 1 additional topics"
    assert statuses(member.join()) == {MISSING_INTERNAL: missing}
    reason = "Unknown topic config name: no.such.config"
    told = f"; Creation failed: a ({reason}), b ({reason}), c ({reason}) and 1 more."
    assert statuses(member.own()) == {MISSING_INTERNAL: missing + told}
    assert statuses(member.own()) == {MISSING_INTERNAL: missing + told}
    context.broker.advance(10_000)
    assert statuses(member.own()) == {MISSING_INTERNAL: missing}


def test_a_topic_that_is_being_created_is_not_created_twice() -> None:
    """A topic that is being created for one member is not created again for another."""
    context = StreamsContext()
    errors = context.broker.creation_errors
    assert errors.begin(["changelog", "other"], 0) == {"changelog", "other"}
    member = context.member("m", COUNTS_WORDS)
    member.join()
    assert "changelog" not in context.broker.topics.counts
    assert "repartition" in context.broker.topics.counts
    errors.end({"changelog", "other"}, {}, 0)
    member.own()
    assert "changelog" in context.broker.topics.counts


def test_too_many_partitions_are_refused_as_a_whole() -> None:
    """A topology with too many internal partitions is refused, and no topic is created."""
    huge = internal("huge", partitions=2**31 - 1)
    asked = topology(subtopology("0", "one", sinks=["huge"]), subtopology("1", repartitions=[huge]))
    context = StreamsContext()
    member = context.member("m", asked)
    member.join()
    assert "huge" not in context.broker.topics.counts
    reason = "Excessively large number of partitions per request."
    assert f"Creation failed: huge ({reason})." in statuses(member.own())[MISSING_INTERNAL]


def test_missing_source_topics() -> None:
    """Missing source topics are reported until they exist."""
    context = StreamsContext()
    member = context.member("m", topology(subtopology("0", "lost", "three", "gone")))
    assert statuses(member.join()) == {
        MISSING_SOURCES: "Source topics gone, lost are missing.",
    }
    assert context.state == "NotReady"
    context.change_topics(gone=1, lost=2)
    assert statuses(member.own()) == {}
    assert member.active == {"0": [0, 1, 2]}
    context.change_topics(lost=0)
    assert MISSING_SOURCES in statuses(member.own())
    assert context.state == "NotReady"
    assert member.own(active={}).response.status != []
    assert member.active == {}
    context.check()


def test_an_internal_topic_of_another_size() -> None:
    """An internal topic with a wrong partition count is reported to the application."""
    context = StreamsContext({"three": 3, "changelog": 2})
    asked = topology(subtopology("0", "three", changelogs=["changelog"]))
    assert statuses(context.member("m", asked).join()) == {
        WRONG: "Existing topic changelog has different number of partitions: expected 3, found 2"
    }
    described = context.describe()
    assert described.topology is not None
    assert described.topology.subtopologies is not None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            topology(subtopology("0", "two", "three", joined=[([0, 1], [])])),
            "Following topics do not have the same number of partitions: [{three=3, two=2}]",
        ),
        (
            topology(
                subtopology("0", "one", sinks=["r"]),
                subtopology("1", "three", repartitions=[internal("r", 2)], joined=[([0], [0])]),
            ),
            "Number of partitions [2] of repartition topic [r] doesn't match "
            "number of partitions [3] of the source topic.",
        ),
        (
            topology(
                subtopology("0", "one", sinks=["r", "s"]),
                subtopology(
                    "1",
                    repartitions=[internal("r", 2), internal("s", 4)],
                    joined=[([], [0, 1])],
                ),
            ),
            "Following topics do not have the same number of partitions: [{r=2, s=4}]",
        ),
    ],
    ids=["sources", "a source and a fixed one", "two fixed ones"],
)
def test_joined_topics_of_different_sizes(asked: StreamsTopology, message: str) -> None:
    """Joined topics with different partition counts are reported."""
    context, answer = joined_with(asked)
    assert statuses(answer) == {WRONG: message}
    assert context.state == "NotReady"


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        (
            topology(
                subtopology("0", "one", sinks=["r"]),
                subtopology("1", "three", repartitions=["r"], joined=[([0], [0])]),
            ),
            {"r": 3},
        ),
        (
            topology(
                subtopology("0", "two", sinks=["r"]),
                subtopology("1", "three", sinks=["s"]),
                subtopology("2", repartitions=["r", "s"], joined=[([], [0, 1]), ([], [])]),
            ),
            {"r": 3, "s": 3},
        ),
        (
            topology(
                subtopology("0", "two", sinks=["r"]),
                subtopology("1", repartitions=["r", internal("s", 4)], joined=[([], [0, 1])]),
                subtopology("2", "one", sinks=["s"]),
            ),
            None,
        ),
        (
            topology(
                subtopology("0", repartitions=["r"], sinks=["s"]),
                subtopology("1", repartitions=["s"], changelogs=["c"]),
                subtopology("2", "three", sinks=["r", "s"]),
            ),
            {"r": 3, "s": 3, "c": 3},
        ),
        (
            topology(
                subtopology("0", repartitions=[internal("r", 5)], sinks=["s"]),
                subtopology("1", "two", sinks=["r"], changelogs=["c"]),
                subtopology("2", "three", repartitions=["s"], changelogs=["d"]),
            ),
            {"r": 5, "s": 5, "c": 2, "d": 5},
        ),
    ],
    ids=["as the source", "as the largest", "as the fixed one", "in rounds", "fixed"],
)
def test_how_many_partitions(asked: StreamsTopology, counts: dict[str, int] | None) -> None:
    """Internal topics get the partition counts that their consumers need."""
    context, answer = joined_with(asked)
    if counts is None:
        # Topic r would have two partitions, but is joined with a topic that needs four.
        counts = {"r": 4, "s": 4}
    assert list(statuses(answer)) == [MISSING_INTERNAL]
    known = context.broker.topics.counts
    assert {name: known[name] for name in counts} == counts


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            topology(
                subtopology("0", repartitions=["r"], sinks=["s"]),
                subtopology("1", repartitions=["s"], sinks=["r"]),
            ),
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved.",
        ),
        (
            topology(subtopology("0", repartitions=["r"])),
            "Failed to compute number of partitions for all repartition topics, because "
            "a repartition source topic is never used as a sink topic.",
        ),
        (topology(subtopology("0")), "No source topics found for subtopology 0"),
    ],
    ids=["a loop", "no sink", "no source"],
)
def test_a_topology_that_can_never_run(asked: StreamsTopology, message: str) -> None:
    """A topology that can never run is refused, and nothing is recorded."""
    context, answer = joined_with(asked)
    assert answer.response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer.response.error_message == message
    assert context.broker.log == []
    assert context.broker.any_group is None


@pytest.mark.parametrize(
    "asked",
    [
        topology(subtopology("0", "one"), epoch=-1),
        topology(subtopology("0", "one"), subtopology("0", "two")),
        topology(subtopology("0", "one", joined=[([1], [])])),
        topology(subtopology("0", "one", joined=[([-1], [])])),
        topology(subtopology("0", "one", changelogs=["c", "c"])),
        topology(
            subtopology("0", "one", sinks=["r"]),
            subtopology("1", repartitions=[internal("r", -1)]),
        ),
        topology(subtopology("0", "one", sinks=["lost"], repartitions=["r"], joined=[([], [0])])),
    ],
    ids=["epoch", "twice", "joined", "joined before", "topic twice", "negative", "no sink"],
)
def test_a_topology_that_makes_no_sense(asked: StreamsTopology) -> None:
    """An inconsistent topology fails the request, as in Kafka, and nothing is recorded."""
    context, answer = joined_with(asked)
    assert answer.error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.STREAMS_INVALID_TOPOLOGY)
    assert context.broker.log == []


def test_errors_of_many_topics_are_kept_to_a_number() -> None:
    """At most 1000 creation errors are stored: the errors that expire last."""
    context = StreamsContext()
    errors = context.broker.creation_errors
    names = [str(number) for number in range(1001)]
    assert len(errors.begin(names, 0)) == 1001
    for number, name in enumerate(names):
        errors.end({name}, {name: "no"}, 100 + number)
    assert len(errors.of(names, 0)) == 1000
    assert not errors.of(["0"], 0)
