"""OffsetCommit: who may commit, and the records."""

from typing import Any

import pytest

from coordinator_server.core.groups.classic.state import GroupState
from coordinator_server.core.groups.offsets import CommittedOffset
from protocol.apis.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import (
    GroupContext,
    commit,
    commit_answer,
    offsets,
)

E = ErrorCode


@pytest.mark.parametrize("version", range(2, 10))
def test_a_standalone_commit_makes_a_group(version: int) -> None:
    """A commit without a generation creates an Empty group without a type, with one record."""
    context = GroupContext()
    assert commit(context.broker, ("one", 0, 41, "note"), version=version) == [E.NONE]
    described = context.broker.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")
    assert offsets(context.broker) == {("one", 0): (41, "note")}
    assert len(context.broker.log) == 1


@pytest.mark.parametrize(
    ("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)]
)
def test_a_generation_of_an_unknown_group(version: int, error: ErrorCode) -> None:
    """A commit with a generation creates no group; unknown topics have their own error."""
    context = GroupContext()
    errors = commit(
        context.broker,
        ("one", 0, 1),
        ("nope", 0, 1),
        version=version,
        generation_id_or_member_epoch=0,
    )
    assert errors == [error, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert context.broker.group is None


def test_unknown_topics_and_partitions_are_refused_alone() -> None:
    """OffsetCommit refuses only unknown topics and partitions.

    If all of them are unknown, no group is created.
    """
    context = GroupContext()
    broker = context.broker
    assert commit(broker, ("nope", 0, 1), ("one", 1, 1)) == [E.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert broker.group is None
    assert commit(broker, ("nope", 0, 1), ("three", -1, 1), ("three", 2, 1))[-1] is E.NONE
    assert offsets(broker) == {("three", 2): (1, "")}


@pytest.mark.parametrize(
    ("state", "changes", "error"),
    [
        ("empty", {}, E.UNKNOWN_MEMBER_ID),
        ("empty", {"generation_id_or_member_epoch": -1}, E.NONE),
        ("empty", {"generation_id_or_member_epoch": -1, "member_id": ""}, E.NONE),
        ("empty", {"member_id": ""}, E.UNKNOWN_MEMBER_ID),
        ("completing", {}, E.REBALANCE_IN_PROGRESS),
        ("completing", {"generation_id_or_member_epoch": 0}, E.ILLEGAL_GENERATION),
        ("stable", {}, E.NONE),
        ("stable", {"generation_id_or_member_epoch": 2}, E.ILLEGAL_GENERATION),
        ("stable", {"generation_id_or_member_epoch": -1}, E.ILLEGAL_GENERATION),
        ("stable", {"member_id": ""}, E.UNKNOWN_MEMBER_ID),
        ("stable", {"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ("stable", {"generation_id_or_member_epoch": -1, "member_id": ""}, E.UNKNOWN_MEMBER_ID),
        (
            "stable",
            {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": "i"},
            E.UNKNOWN_MEMBER_ID,
        ),
        ("preparing", {}, E.NONE),
    ],
)
def test_who_may_commit(state: str, changes: dict[str, Any], error: ErrorCode) -> None:
    """Members of the generation may commit outside of the sync phase, any client in Empty."""
    context = GroupContext()
    if state == "empty":
        member = context.empty()
    elif state == "preparing":
        (member,), _, _ = context.preparing("A")
    else:
        (member,) = getattr(context, state)("A")
    assert member.commit(("one", 0, 7), **changes) == [error]
    assert bool(offsets(context.broker)) is (error is E.NONE)


def test_the_member_error_wins_over_the_size_of_metadata() -> None:
    """An unknown member gets UNKNOWN_MEMBER_ID even if the metadata is too long."""
    context = GroupContext()
    context.stable("A")
    errors = commit(
        context.broker,
        ("one", 0, 1, "m" * 5000),
        ("nope", 0, 1),
        member_id="ghost",
        generation_id_or_member_epoch=1,
    )
    assert errors == [E.UNKNOWN_MEMBER_ID, E.UNKNOWN_TOPIC_OR_PARTITION]


def test_long_metadata_is_refused_for_its_partition() -> None:
    """Metadata is limited per partition, in UTF-16 units as in Java."""
    context = GroupContext()
    errors = commit(
        context.broker,
        ("many", 0, 1, "ü" * 4096),
        ("many", 1, 1, "ü" * 4097),
        ("many", 2, 1, "😀" * 2048),
        ("many", 3, 1, "😀" * 2049),
        ("many", 4, 1, None),
    )
    too_large = E.OFFSET_METADATA_TOO_LARGE
    assert errors == [E.NONE, too_large, E.NONE, too_large, E.NONE]
    assert offsets(context.broker)["many", 4] == (1, "")
    assert commit(context.broker, ("many", 5, 1, "x" * 4097)) == [too_large]


def test_any_offset_is_stored_and_the_last_one_wins() -> None:
    """Negative, huge and falling offsets are accepted.

    If a request has two offsets for a partition, the second offset is stored.
    """
    context = GroupContext()
    commit(context.broker, ("many", 0, -1), ("many", 1, 2**63 - 1), ("many", 2, 9), ("many", 2, 3))
    commit(context.broker, ("many", 1, 5, "lower"))
    assert offsets(context.broker) == {
        ("many", 0): (-1, ""),
        ("many", 1): (5, "lower"),
        ("many", 2): (3, ""),
    }
    context.broker.check_replay_law()


@pytest.mark.parametrize(
    ("named", "answered"),
    [
        (["one", "nope", "one"], [("nope", 1), ("one", 2)]),
        (["one", "one"], [("one", 1), ("one", 1)]),
        (["nope", "nope"], [("nope", 2)]),
    ],
)
def test_topics_named_twice(named: list[str], answered: list[tuple[str, int]]) -> None:
    """Entries of one topic are merged only if something in the request is unknown, as in Kafka."""
    context = GroupContext()
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition()])
        for name in named
    ]
    response = commit_answer(context.broker, topics=topics).response
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == answered


def test_topics_without_partitions() -> None:
    """A topic without partitions is left out of the response, unless it is unknown."""
    context = GroupContext()
    topics = [OffsetCommitRequestTopic(name=name) for name in ("one", "nope")]
    response = commit_answer(context.broker, topics=topics).response
    assert [(topic.name, topic.partitions) for topic in response.topics] == [("nope", [])]


def test_a_commit_is_one_batch() -> None:
    """All accepted partitions of a commit are one batch."""
    context = GroupContext()
    commit(context.broker, *(("many", partition, 1) for partition in range(100)))
    assert context.broker.batches == [100]


def test_commits_keep_a_member_alive() -> None:
    """An accepted commit renews the session in Stable; a refused commit does not."""
    context = GroupContext()
    (a,) = context.stable("A")
    for offset in range(5):
        context.broker.advance(9_000)
        assert a.commit(("one", 0, offset)) == [E.NONE]
    context.broker.advance(9_000)
    a.commit(("one", 0, 9), generation_id_or_member_epoch=0)
    context.broker.advance(1_000)
    assert context.state == GroupState.EMPTY


@pytest.mark.parametrize(
    ("append_error", "error"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_FETCH_SIZE, E.UNKNOWN_SERVER_ERROR),
        (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.INVALID_TIMESTAMP, E.INVALID_TIMESTAMP),
    ],
)
def test_a_commit_that_cannot_be_written(append_error: ErrorCode, error: ErrorCode) -> None:
    """If a commit cannot be written, it gets the coordinator error and creates no group."""
    context = GroupContext()
    context.broker.append_error = lambda: append_error
    errors = commit(context.broker, ("many", 0, 1), ("many", 1, 1, "x" * 5000), ("nope", 0, 1))
    assert errors == [error, E.OFFSET_METADATA_TOO_LARGE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert context.broker.group is None


def test_a_retention_of_its_own_is_stored() -> None:
    """The retention of v2 to v4 is stored as an expiry time, in a record of version 1."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1), version=4, retention_time_ms=500)
    value_bytes = context.broker.log[-1][1]
    assert value_bytes is not None
    assert value_bytes[:2] == b"\0\1"
    value = context.broker.offsets["one"][0]
    assert value.expire_timestamp == context.broker.now_ms + 500


def test_a_retention_beyond_all_time_is_over_at_once() -> None:
    """A retention that overflows Java's long expires at the next check."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1), version=4, retention_time_ms=2**63 - 1)
    assert context.broker.offsets["one"][0].expire_timestamp < -1
    context.broker.expire_offsets()
    assert context.broker.group is None


def test_a_plain_commit_is_written_as_version_4() -> None:
    """A plain commit is a record of version 4 with leader epoch and commit time."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    assert (context.broker.log[-1][1] or b"")[:2] == b"\0\4"
    topic = context.broker.topics.topic("one")
    assert topic is not None
    assert context.broker.offsets["one"][0] == CommittedOffset(
        offset=1,
        leader_epoch=-1,
        metadata="",
        commit_timestamp=context.broker.now_ms,
        topic_id=topic.topic_id,
    )


def test_debug_events_are_made_only_when_asked_for() -> None:
    """The event `offsets.committed` is created only at debug level."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    assert context.broker.event_names().count("offsets.committed") == 1
    assert context.broker.task is not None
    context.broker.task.effects.debug = False
    commit(context.broker, ("one", 0, 2))
    assert context.broker.event_names().count("offsets.committed") == 1


def test_a_shared_answer_is_not_changed_by_a_failed_write() -> None:
    """A failed write does not change the shared response of the next equal commit."""
    context = GroupContext()
    assert commit(context.broker, ("one", 0, 1)) == [E.NONE]
    errors = iter([E.KAFKA_STORAGE_ERROR])
    sound, context.broker.append_error = context.broker.append_error, lambda: next(errors)
    refused = commit(context.broker, ("one", 0, 2))
    context.broker.append_error = sound
    assert refused == [E.NOT_COORDINATOR]
    assert commit(context.broker, ("one", 0, 3)) == [E.NONE]


def test_a_failed_write_is_told_beside_metadata_that_is_too_long() -> None:
    """Too long metadata and a failed write have separate errors per partition."""
    context = GroupContext()
    context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
    too_long = "x" * 5000
    got = commit(context.broker, ("three", 0, 2, too_long), ("three", 1, 2, "short"))
    assert got == [E.OFFSET_METADATA_TOO_LARGE, E.NOT_COORDINATOR]
