"""OffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any

import pytest

from coordinator_server.group.classic.state import GroupState
from protocol.apis.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitValue
from tests.unit.group.context import (
    GroupContext,
    commit,
    commit_answer,
    fetch,
    offset_delete,
    offsets,
    subscription,
)

E = ErrorCode


@pytest.mark.parametrize("version", range(2, 10))
def test_a_standalone_commit_makes_a_group(version: int) -> None:
    """Without generation the group comes to be: Empty, without a type, one record."""
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
    """With a generation no group is made; unknown topics are told apart."""
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
    """The rest goes on; with nothing left no group is made."""
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
    """Members of this generation (not while completing), and anybody while the group is Empty."""
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
    """A stranger with too long metadata is a stranger first."""
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
    """The limit counts UTF-16 units, as Java does."""
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
    """Negative, huge and falling offsets are accepted; twice in a request, the second counts."""
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
    """Entries of one topic are merged in the answer only if something is unknown, as in Kafka."""
    context = GroupContext()
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition()])
        for name in named
    ]
    response = commit_answer(context.broker, topics=topics).response
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == answered


def test_topics_without_partitions() -> None:
    """A topic without partitions is left out of the answer, unless nobody knows it."""
    context = GroupContext()
    topics = [OffsetCommitRequestTopic(name=name) for name in ("one", "nope")]
    response = commit_answer(context.broker, topics=topics).response
    assert [(topic.name, topic.partitions) for topic in response.topics] == [("nope", [])]


def test_a_commit_is_one_batch() -> None:
    """All accepted partitions go into the log together."""
    context = GroupContext()
    commit(context.broker, *(("many", partition, 1) for partition in range(100)))
    assert context.broker.batches == [100]


def test_commits_keep_a_member_alive() -> None:
    """A commit renews the session in Stable; refused ones do not."""
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
    """Nothing is stored, the accepted partitions get the mapped error, no group is left behind."""
    context = GroupContext()
    context.broker.append_error = lambda: append_error
    errors = commit(context.broker, ("many", 0, 1), ("many", 1, 1, "x" * 5000), ("nope", 0, 1))
    assert errors == [error, E.OFFSET_METADATA_TOO_LARGE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert context.broker.group is None


def test_a_retention_of_its_own_is_stored() -> None:
    """v2..4 may ask for a time to live: the record says when it is over, as version 1."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1), version=4, retention_time_ms=500)
    value_bytes = context.broker.log[-1][1]
    assert value_bytes is not None
    assert value_bytes[:2] == b"\0\1"
    value = context.broker.offsets["one"][0]
    assert value.expire_timestamp == context.broker.now_ms + 500


def test_a_plain_commit_is_written_as_version_4() -> None:
    """With the leader epoch and the time of the commit."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    assert (context.broker.log[-1][1] or b"")[:2] == b"\0\4"
    assert context.broker.offsets["one"][0] == OffsetCommitValue(
        offset=1, leader_epoch=-1, metadata="", commit_timestamp=context.broker.now_ms
    )


def test_debug_events_are_made_only_when_asked_for() -> None:
    """`offsets.committed` costs nothing when nobody listens."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    assert context.broker.event_names().count("offsets.committed") == 1
    assert context.broker.task is not None
    context.broker.task.effects.debug = False
    commit(context.broker, ("one", 0, 2))
    assert context.broker.event_names().count("offsets.committed") == 1


@pytest.mark.parametrize("version", range(1, 8))
def test_fetch_named_partitions(version: int) -> None:
    """Without a commit it is offset -1 and no error, even for topics and groups unknown."""
    context = GroupContext()
    for expected in (-1, 7):
        response = fetch(context.broker, "three", 0, 2, -1, version=version)
        (topic,) = response.topics
        assert [one.committed_offset for one in topic.partitions] == [expected, -1, -1]
        assert {one.error_code for one in topic.partitions} == {E.NONE}
        assert {one.committed_leader_epoch for one in topic.partitions} == {-1}
        commit(context.broker, ("three", 0, 7))
    assert fetch(context.broker, "nope", 0, version=version).topics[0].name == "nope"


def test_fetch_by_group() -> None:
    """Since v8 the answer is per group; an empty list is not all topics."""
    context = GroupContext()
    commit(context.broker, ("three", 1, 7, "m"))
    wanted = OffsetFetchRequestTopics(name="three", partition_indexes=[1])
    for topics, found in (([wanted], 1), ([], 0), (None, 1)):
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        response = context.broker.send(OffsetFetchRequest(groups=[group]), 9).response
        assert (response.groups[0].group_id, len(response.groups[0].topics)) == ("g", found)


def test_commit_and_fetch_in_one_drain() -> None:
    """A fetch shows what is in the log, not what is still to be written."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    with context.broker.one_drain():
        commit_answer(context.broker, ("one", 0, 2))
        request = OffsetFetchRequest(group_id="g", topics=None)
        answer = context.broker.send(request, 7)
    assert answer.response.topics[0].partitions[0].committed_offset == 1


def test_offset_delete_of_a_standalone_group() -> None:
    """Stored offsets get tombstones, others nothing; the group stays when all are gone."""
    context = GroupContext()
    broker = context.broker
    commit(broker, ("one", 0, 1), ("three", 0, 2), ("three", 1, 3))
    response = offset_delete(broker, ("one", 0), ("three", 2), ("three", 9), ("nope", 0))
    errors = [
        (topic.name, one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ]
    assert errors == [
        ("three", 9, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("three", 2, E.NONE),
        ("nope", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("one", 0, E.NONE),
    ]
    assert len(broker.log) == 4
    offset_delete(broker, ("three", 0), ("three", 1))
    assert offsets(broker) == {}
    assert context.state == GroupState.EMPTY
    broker.check_replay_law()


def test_offset_delete_refused_as_a_whole() -> None:
    """Unknown group, members of another protocol type, a group that has moved away."""
    context = GroupContext()
    broker = context.broker
    assert offset_delete(broker, ("one", 0)).error_code == E.GROUP_ID_NOT_FOUND
    assert offset_delete(broker).error_code == E.GROUP_ID_NOT_FOUND
    context.stable("A", protocol_type="connect")
    for topic in ("one", "nope"):
        response = offset_delete(broker, (topic, 0))
        assert (response.error_code, response.topics) == (E.NON_EMPTY_GROUP, [])
    broker.unload()
    assert offset_delete(broker, ("one", 0)).error_code == E.NOT_COORDINATOR


def test_offset_delete_needs_a_group_id() -> None:
    """ "" is a group for commits, but not here."""
    context = GroupContext()
    offset_delete(context.broker, ("one", 0))
    request: Any = context.broker.answers[-1].request
    request.group_id = ""
    assert context.broker.send(request, 0).error is E.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("metadata", "one", "three"),
    [
        (subscription("one"), E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE),
        (b"\x7f", E.GROUP_SUBSCRIBED_TO_TOPIC, E.GROUP_SUBSCRIBED_TO_TOPIC),
    ],
)
def test_offset_delete_of_subscribed_topics(
    metadata: bytes, one: ErrorCode, three: ErrorCode
) -> None:
    """Topics that a member reads are kept; all are when the subscription cannot be read."""
    context = GroupContext()
    (a,) = context.stable("A", protocols=[("range", metadata)])
    a.commit(("one", 0, 1), ("three", 0, 2))
    response = offset_delete(context.broker, ("one", 0), ("three", 0))
    assert [topic.partitions[0].error_code for topic in response.topics] == [one, three]
    a.leave()
    response = offset_delete(context.broker, ("one", 0), ("three", 0))
    assert [topic.partitions[0].error_code for topic in response.topics] == [E.NONE, E.NONE]


def test_offset_delete_that_cannot_be_written() -> None:
    """The mapped error as a whole, and the offsets stay."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    context.broker.append_error = lambda: E.KAFKA_STORAGE_ERROR
    assert offset_delete(context.broker, ("one", 0)).error_code == E.NOT_COORDINATOR
    assert offsets(context.broker) == {("one", 0): (1, "")}


def test_offset_delete_sees_the_commits_before_it() -> None:
    """A commit of the same drain is deleted, not missed."""
    context = GroupContext()
    with context.broker.one_drain():
        commit_answer(context.broker, ("one", 0, 1))
        offset_delete(context.broker, ("one", 0))
    assert offsets(context.broker) == {}
