"""Cases of APIs for topics and their records."""

from __future__ import annotations

from tests.conformance import batches
from tests.conformance.access.case import Case, Cell, Fields, Request
from tests.conformance.access.connection import to_text
from tests.conformance.access.world import (
    TOPICS,
    UNKNOWN_ID,
    WRITTEN,
    World,
    own_producers,
    own_topics,
)

_MIXED = (*TOPICS, "absent-1", "absent-2")
_OWN = ("@-1", "@-2", "@-3")
_OWN_MIXED = (*_OWN, "@-absent-1", "@-absent-2")
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def _plain_records() -> str:
    return to_text(batches.build(-1, -1, -1, transactional=False))


def _produce(cell: Cell, world: World) -> Fields:
    data = [{"index": 0, "records": _plain_records()}]
    topics = [
        {"name": one, "topicId": world.topic_id(one), "partitionData": data} for one in cell.topics
    ]
    return {"acks": -1, "timeoutMs": 5000, "topicData": topics}


def _produce_without_answer(cell: Cell, world: World) -> Fields:
    return _produce(cell, world) | {"acks": 0}


def _produce_in_transaction(cell: Cell, world: World) -> Fields:
    transactional_id = cell.transactional_ids[0]
    producer = world.producer(transactional_id)
    records = batches.build(producer["producerId"], producer["producerEpoch"], 0)
    fields = _produce(cell, world)
    for topic in fields["topicData"]:
        topic["partitionData"] = [{"index": 0, "records": to_text(records)}]
    return fields | {"transactionalId": transactional_id}


def _fetch(cell: Cell, world: World) -> Fields:
    partitions = [{"partition": one, "fetchOffset": 0, "partitionMaxBytes": 1000} for one in (0, 1)]
    topics = [
        {"topic": one, "topicId": world.topic_id(one), "partitions": partitions}
        for one in cell.topics
    ]
    return {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 100_000, "topics": topics}


def _fetch_in_session(cell: Cell, world: World) -> Fields:
    return _fetch(cell, world) | {"sessionId": 0, "sessionEpoch": 0}


def _fetch_as_follower(cell: Cell, world: World) -> Fields:
    state = {"replicaId": 7, "replicaEpoch": 1}
    return _fetch(cell, world) | {"replicaId": 7, "replicaState": state}


def _list_offsets(timestamp: int) -> Request:
    def request(cell: Cell, world: World) -> Fields:
        partitions = [
            {"partitionIndex": one, "timestamp": timestamp, "currentLeaderEpoch": -1}
            for one in (0, 1)
        ]
        return {
            "replicaId": -1,
            "timeoutMs": 5000,
            "topics": [{"name": one, "partitions": partitions} for one in cell.topics],
        }

    return request


def _metadata(*, creates: bool = False) -> Request:
    def request(cell: Cell, world: World) -> Fields:
        return {
            "topics": [{"name": one} for one in cell.topics],
            "allowAutoTopicCreation": creates,
            "includeClusterAuthorizedOperations": 8 <= cell.version <= 10,
            "includeTopicAuthorizedOperations": cell.version >= 8,
        }

    return request


def _metadata_by_id(cell: Cell, world: World) -> Fields:
    ids = [*(world.topic_id(one) for one in cell.topics), UNKNOWN_ID]
    return {
        "topics": [{"topicId": one, "name": None} for one in ids],
        "allowAutoTopicCreation": False,
        "includeTopicAuthorizedOperations": True,
    }


def _metadata_of_all(cell: Cell, world: World) -> Fields:
    topics: list[Fields] | None = [] if cell.version == 0 else None
    return {
        "topics": topics,
        "allowAutoTopicCreation": False,
        "includeClusterAuthorizedOperations": 8 <= cell.version <= 10,
        "includeTopicAuthorizedOperations": cell.version >= 8,
    }


def _metadata_of_none(cell: Cell, world: World) -> Fields:
    return {
        "topics": [],
        "allowAutoTopicCreation": False,
        "includeClusterAuthorizedOperations": 8 <= cell.version <= 10,
    }


def _create_topics(cell: Cell, world: World) -> Fields:
    topics = [
        {"name": one, "numPartitions": 2, "replicationFactor": 1, "configs": []}
        for one in cell.topics
    ]
    topics[0]["configs"] = [{"name": "retention.ms", "value": "100000"}]
    return {"topics": topics, "timeoutMs": 10_000, "validateOnly": cell.version % 2 == 0}


def _create_odd_topics(cell: Cell, world: World) -> Fields:
    twice = [{"name": cell.topics[0], "numPartitions": 1, "replicationFactor": 1}] * 2
    others = [{"name": one, "numPartitions": 1, "replicationFactor": 1} for one in cell.topics[1:]]
    bad = {"name": "not/a/topic", "numPartitions": 1, "replicationFactor": 1}
    return {"topics": [*twice, *others, bad], "timeoutMs": 10_000, "validateOnly": True}


def _delete_topics(cell: Cell, world: World) -> Fields:
    return {
        "topicNames": cell.topics,
        "topics": [{"name": one} for one in cell.topics],
        "timeoutMs": 10_000,
    }


def _delete_topics_by_id(cell: Cell, world: World) -> Fields:
    ids = [*(world.topic_id(one) for one in cell.topics), UNKNOWN_ID]
    return {"topics": [{"topicId": one} for one in ids], "timeoutMs": 10_000}


def _delete_odd_topics(cell: Cell, world: World) -> Fields:
    """Return a request with a topic listed twice, one with name and id, and two without a name."""
    first, second, third = cell.topics
    return {
        "topics": [
            {"name": first},
            {"name": first},
            {"name": second, "topicId": world.topic_id(second)},
            {"name": None, "topicId": _NO_ID},
            {"name": None, "topicId": world.topic_id(third)},
        ],
        "timeoutMs": 10_000,
    }


def _delete_records(cell: Cell, world: World) -> Fields:
    partitions = [{"partitionIndex": one, "offset": 0} for one in (0, 1, 5)]
    topics = [{"name": one, "partitions": partitions} for one in cell.topics]
    return {"topics": topics, "timeoutMs": 5000}


def _epochs(cell: Cell, world: World) -> Fields:
    partitions = [{"partition": one, "currentLeaderEpoch": -1, "leaderEpoch": 0} for one in (0, 1)]
    return {
        "replicaId": -1,
        "topics": [{"topic": one, "partitions": partitions} for one in cell.topics],
    }


def _create_partitions(cell: Cell, world: World) -> Fields:
    topics = [{"name": one, "count": 3, "assignments": None} for one in cell.topics]
    return {"topics": topics, "timeoutMs": 10_000, "validateOnly": cell.version == 1}


def _create_partitions_twice(cell: Cell, world: World) -> Fields:
    names = [cell.topics[0], *cell.topics]
    topics = [{"name": one, "count": 3, "assignments": None} for one in names]
    return {"topics": topics, "timeoutMs": 10_000, "validateOnly": True}


def _producers(cell: Cell, world: World) -> Fields:
    names = [*cell.topics, "not/a/topic"]
    return {"topics": [{"name": one, "partitionIndexes": [0, 1, 5]} for one in names]}


def _topic_partitions(cell: Cell, world: World) -> Fields:
    return {"topics": [{"name": one} for one in cell.topics], "responsePartitionLimit": 2000}


def _few_topic_partitions(cell: Cell, world: World) -> Fields:
    return _topic_partitions(cell, world) | {"responsePartitionLimit": 3}


def _topic_partitions_from_cursor(cell: Cell, world: World) -> Fields:
    cursor = {"topicName": cell.topics[1], "partitionIndex": 1}
    return _topic_partitions(cell, world) | {"cursor": cursor}


def _all_topic_partitions(cell: Cell, world: World) -> Fields:
    return {"topics": [], "responsePartitionLimit": 2000}


def _log_dirs(cell: Cell, world: World) -> Fields:
    return {"topics": [{"topic": one, "partitions": [0, 1, 5]} for one in _MIXED]}


_ALL_TOPICS = (("topics", "name"),)

CASES = [
    Case("Produce", _produce, topics=(*WRITTEN, "absent-1", "absent-2")),
    Case("Produce.no-answer", _produce_without_answer, topics=WRITTEN, versions=(3, 9, 13)),
    Case(
        "Produce.transactional",
        _produce_in_transaction,
        topics=WRITTEN,
        transactional_ids=("@",),
        prepare=(own_producers,),
    ),
    Case("Fetch", _fetch, topics=_MIXED),
    Case("Fetch.session", _fetch_in_session, topics=_MIXED, versions=(7, 12, 13, 18)),
    Case("Fetch.follower", _fetch_as_follower, topics=_MIXED, versions=(4, 12, 13, 15, 18)),
    Case("ListOffsets", _list_offsets(-1), topics=_MIXED),
    Case("ListOffsets.earliest", _list_offsets(-2), topics=_MIXED, versions=(1, 11)),
    Case("Metadata", _metadata(), topics=(*TOPICS, "@-absent-1", "@-absent-2")),
    Case("Metadata.created", _metadata(creates=True), topics=_OWN, versions=(0, 1, 4, 9, 10, 13)),
    Case("Metadata.by-id", _metadata_by_id, topics=TOPICS, versions=(10, 11, 12, 13)),
    Case(
        "Metadata.all",
        _metadata_of_all,
        topics=TOPICS,
        versions=(0, 1, 4, 8, 9, 10, 12, 13),
        shown=_ALL_TOPICS,
    ),
    Case("Metadata.none", _metadata_of_none, topics=TOPICS, versions=(1, 8, 9, 10, 13)),
    Case("CreateTopics", _create_topics, topics=(*_OWN, "topic-1")),
    Case(
        "CreateTopics.odd",
        _create_odd_topics,
        topics=(*_OWN, "topic-1", "__cluster_metadata", "not-a-topic"),
        versions=(2, 5, 7),
    ),
    Case("DeleteTopics", _delete_topics, topics=_OWN_MIXED, prepare=(own_topics,)),
    Case(
        "DeleteTopics.by-id",
        _delete_topics_by_id,
        topics=_OWN,
        prepare=(own_topics,),
        versions=(6,),
    ),
    Case(
        "DeleteTopics.odd",
        _delete_odd_topics,
        topics=_OWN,
        prepare=(own_topics,),
        versions=(6,),
    ),
    Case("DeleteRecords", _delete_records, topics=_MIXED),
    Case("OffsetForLeaderEpoch", _epochs, topics=_MIXED),
    Case("CreatePartitions", _create_partitions, topics=_OWN_MIXED, prepare=(own_topics,)),
    Case("CreatePartitions.twice", _create_partitions_twice, topics=_MIXED, versions=(0, 3)),
    Case("DescribeProducers", _producers, topics=_MIXED),
    Case("DescribeTopicPartitions", _topic_partitions, topics=_MIXED),
    Case("DescribeTopicPartitions.few", _few_topic_partitions, topics=_MIXED),
    Case("DescribeTopicPartitions.cursor", _topic_partitions_from_cursor, topics=_MIXED),
    Case("DescribeTopicPartitions.all", _all_topic_partitions, topics=TOPICS, shown=_ALL_TOPICS),
    Case("DescribeLogDirs", _log_dirs, topics=TOPICS),
]
