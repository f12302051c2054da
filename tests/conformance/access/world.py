"""The resources that exist before the first request: topics, groups, producers, ACLs.

The user "admin", who may do everything, creates them. Cells only read shared resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from coordinator_server.security.acl import Acl
from protocol.json_form import uuid_to_text
from tests.conformance import batches
from tests.conformance.access.case import Cell, Fields
from tests.conformance.access.connection import Connection, to_text
from tests.support import wait_for

TOPICS = ("topic-1", "topic-2", "topic-3")
"""Topics with two partitions, and two records in the first one. No cell changes them."""
WRITTEN = ("written-1", "written-2", "written-3")
"""Topics for writing."""
SIMPLE = ("simple-1", "simple-2", "simple-3")
"""Groups without members and with committed offsets of all `TOPICS`."""
CONSUMERS = ("consumer-1", "consumer-2", "consumer-3")
SHARES = ("share-1", "share-2", "share-3")
STREAMS = ("streams-1", "streams-2", "streams-3")
"""Groups with a member that reads the topic of the same number."""
MANY = 200
TIMEOUT_MS = 900_000
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"
_RETRIABLE = (3, 5, 6, 14, 15, 16, 51)


class World:
    """A broker with the resources that the user "admin" has created there."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        admin = wait_for(partial(_connected, address), "the listener for users")
        assert admin is not None
        self.admin = admin
        self.topic_ids: dict[str, str] = {}
        self.producers: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        """Close the connection."""
        self.admin.close()

    def topic_id(self, name: str) -> str:
        """Return the id of a topic, or an unused id for an unknown name."""
        return self.topic_ids.get(name) or uuid_to_text(uuid5(NAMESPACE_OID, name).bytes)

    def producer(self, transactional_id: str) -> Fields:
        """Return the producer id and epoch of a transactional id."""
        producer_id, epoch = self.producers.get(transactional_id, (12345, 0))
        return {"producerId": producer_id, "producerEpoch": epoch}

    def ask_until(
        self, api: str, version: int, fields: Fields, errors: Callable[[Any], Iterable[int]]
    ) -> Any:
        """Repeat the request until the broker returns no loading error; return the response.

        Raises AssertionError for any other error.
        """

        def attempt() -> Any:
            answer = self.admin.must(api, version, fields)
            codes = set(errors(answer))
            assert codes <= {0, *_RETRIABLE}, (api, fields, answer)
            return None if codes - {0} else answer

        return wait_for(attempt, api, step_seconds=0.05)

    # --- resources that many requests of the suite use --------------------------------------------

    def make_shared(self) -> None:
        """Create topics and groups that several requests of the suite use, and group members."""
        self.create_topics([*TOPICS, *WRITTEN], 2)
        for name in TOPICS:
            self.produce(name)
        for key_type in (0, 1):  # Kafka now creates the coordinator's topic
            fields = {"keyType": key_type, "coordinatorKeys": ["any"]}
            self.ask_until(
                "FindCoordinator",
                4,
                fields,
                lambda answer: [one["errorCode"] for one in answer["coordinators"]],
            )
        for group in SIMPLE:
            self.commit(group, TOPICS)
        for number, topic in enumerate(TOPICS):
            self._join("ConsumerGroupHeartbeat", 1, CONSUMERS[number], topic)
            self._join("ShareGroupHeartbeat", 1, SHARES[number], topic)
            self._join_streams(STREAMS[number], topic)

    def create_topics(self, names: Sequence[str], partitions: int = 1) -> None:
        """Create topics and store their ids."""
        for start in range(0, len(names), MANY):
            some = names[start : start + MANY]
            topics = [
                {"name": one, "numPartitions": partitions, "replicationFactor": 1} for one in some
            ]
            answer = self.admin.must("CreateTopics", 7, {"topics": topics, "timeoutMs": 30_000})
            for one in answer["topics"]:
                assert not one["errorCode"], one
                self.topic_ids[one["name"]] = one["topicId"]
            asked = {"topics": [{"name": one} for one in some]}
            self.ask_until(
                "Metadata", 9, asked, lambda answer: [one["errorCode"] for one in answer["topics"]]
            )

    def produce(self, topic: str) -> None:
        """Produce two records to the first partition."""
        records = to_text(batches.build(-1, -1, -1, 2, transactional=False))
        data = [{"name": topic, "partitionData": [{"index": 0, "records": records}]}]
        self.ask_until(
            "Produce",
            9,
            {"acks": -1, "timeoutMs": 5000, "topicData": data},
            lambda answer: [answer["responses"][0]["partitionResponses"][0]["errorCode"]],
        )

    def commit(self, group: str, topics: Sequence[str]) -> None:
        """Commit offsets for a group without members."""
        entries = [
            {
                "name": one,
                "partitions": [
                    {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": "m"}
                ],
            }
            for one in topics
        ]
        self.ask_until(
            "OffsetCommit",
            9,
            {"groupId": group, "topics": entries},
            lambda answer: [
                part["errorCode"] for one in answer["topics"] for part in one["partitions"]
            ],
        )

    def _join(self, api: str, version: int, group: str, topic: str) -> None:
        fields = {
            "groupId": group,
            "memberId": f"member-of-{group}",
            "memberEpoch": 0,
            "rebalanceTimeoutMs": TIMEOUT_MS,
            "subscribedTopicNames": [topic],
            "topicPartitions": [],
        }
        self.ask_until(api, version, fields, lambda answer: [answer["errorCode"]])

    def _join_streams(self, group: str, topic: str) -> None:
        self.ask_until(
            "StreamsGroupHeartbeat",
            0,
            streams_fields(group, [topic], f"member-of-{group}"),
            lambda answer: [answer["errorCode"]],
        )

    # --- ACLs -------------------------------------------------------------------------------------

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create ACLs, and wait until the broker applies the last one."""
        for start in range(0, len(acls), 1000):
            creations = [
                {
                    "resourceType": one.resource_type,
                    "resourceName": one.name,
                    "resourcePatternType": one.pattern_type,
                    "principal": one.principal,
                    "host": one.host,
                    "operation": one.operation,
                    "permissionType": one.permission,
                }
                for one in acls[start : start + 1000]
            ]
            answer = self.admin.must("CreateAcls", 3, {"creations": creations})
            for asked, one in zip(creations, answer["results"], strict=True):
                assert not one["errorCode"], (asked, one)
        last = acls[-1]
        wanted = {
            "resourceTypeFilter": last.resource_type,
            "resourceNameFilter": last.name,
            "patternTypeFilter": last.pattern_type,
            "principalFilter": last.principal,
            "hostFilter": last.host,
            "operation": last.operation,
            "permissionType": last.permission,
        }
        wait_for(lambda: self.admin.must("DescribeAcls", 3, wanted)["resources"], "the ACLs")

    # --- producers --------------------------------------------------------------------------------

    def init_producer(self, transactional_id: str) -> None:
        """Get a producer id for a transactional id."""
        fields = {"transactionalId": transactional_id, "transactionTimeoutMs": TIMEOUT_MS}
        answer = self.ask_until("InitProducerId", 4, fields, lambda one: [one["errorCode"]])
        self.producers[transactional_id] = (answer["producerId"], answer["producerEpoch"])

    def add_partitions(self, transactional_id: str, topics: Sequence[str]) -> None:
        """Add the first partitions of topics to the transaction."""
        producer = self.producer(transactional_id)
        fields = {
            "v3AndBelowTransactionalId": transactional_id,
            "v3AndBelowProducerId": producer["producerId"],
            "v3AndBelowProducerEpoch": producer["producerEpoch"],
            "v3AndBelowTopics": [{"name": one, "partitions": [0]} for one in topics],
        }
        self.ask_until(
            "AddPartitionsToTxn",
            3,
            fields,
            lambda answer: [
                part["partitionErrorCode"]
                for one in answer["resultsByTopicV3AndBelow"]
                for part in one["resultsByPartition"]
            ],
        )

    def add_offsets(self, transactional_id: str, group: str) -> None:
        """Add a group's offsets to the transaction."""
        fields = {
            "transactionalId": transactional_id,
            "groupId": group,
            **self.producer(transactional_id),
        }
        self.ask_until("AddOffsetsToTxn", 3, fields, lambda answer: [answer["errorCode"]])


def _connected(address: tuple[str, int]) -> Connection | None:
    with suppress(ConnectionRefusedError):
        return Connection(address, "admin")
    return None


def streams_fields(group: str, topics: Sequence[str], member: str, **more: Any) -> Fields:
    """Return the fields with which a member joins a streams group that reads topics."""
    subtopology = {
        "subtopologyId": "0",
        "sourceTopics": list(topics),
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
        **more,
    }
    return {
        "groupId": group,
        "memberId": member,
        "memberEpoch": 0,
        "endpointInformationEpoch": 0,
        "rebalanceTimeoutMs": TIMEOUT_MS,
        "processId": "process",
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
        "activeTasks": [],
        "standbyTasks": [],
        "warmupTasks": [],
        "clientTags": [],
    }


# --- resources that one cell uses ---------------------------------------------------------------


def own_topics(world: World, cells: Sequence[Cell]) -> None:
    """Create the cells' own topics, except for those called "absent"."""
    names = [
        name
        for cell in cells
        for name in cell.topics
        if cell.own_name in name and "absent" not in name
    ]
    world.create_topics(list(dict.fromkeys(names)))


def own_offsets(world: World, cells: Sequence[Cell]) -> None:
    """Commit offsets for the cells' own groups, except for those called "absent"."""
    for cell in cells:
        for group in cell.groups:
            if cell.own_name in group and "absent" not in group:
                world.commit(group, TOPICS)


def own_producers(world: World, cells: Sequence[Cell]) -> None:
    """Get a producer id for each transactional id, except for those called "absent"."""
    for cell in cells:
        for one in cell.transactional_ids:
            if "absent" not in one:
                world.init_producer(one)


def own_transactions(world: World, cells: Sequence[Cell]) -> None:
    """Call `own_producers`, then begin a transaction per producer in the topics for writing."""
    own_producers(world, cells)
    for cell in cells:
        for one in cell.transactional_ids:
            if "absent" not in one:
                world.add_partitions(one, WRITTEN)
