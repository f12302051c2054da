"""A broker without sockets that leads share partitions, with a persister in memory.

Its helpers send client requests and show responses in short form: records as ranges, errors as
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from coordinator_server.coordinator.share_partition_manager import SharePartitionManager
from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.apis.share_fetch import (
    FetchAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from tests.harness.broker import MemoryBroker
from tests.harness.client import Client, SentRequest
from tests.harness.memory_persister import MemoryPersister
from tests.harness.records import batch

UNKNOWN_TOPIC = b"?" * 16
GROUPS = ("g", "other", "third")
Said = tuple[str, int, int, int, int | list[int]]
"""Topic, partition, first and last offset, and the acknowledge type or types."""


class ShareRequests(MemoryBroker):
    """A broker with share groups, and requests of their consumers."""

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that the broker leads."""
        return self.broker.share_partitions

    def configure(self, configs: Mapping[str, str | None]) -> None:
        """Set configs of all groups; None removes a config."""
        group_configs = self.broker.group_configs
        changed = {**group_configs.own(GROUPS[0]), **configs}
        kept = {name: value for name, value in changed.items() if value is not None}
        group_configs.set(dict.fromkeys(GROUPS, kept))

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic, or an unknown id if there is no such topic."""
        topic = self.topics.topic(name)
        return UNKNOWN_TOPIC if topic is None else topic.topic_id

    def produce(self, name: str, *sizes: int, index: int = 0, **fields: Any) -> None:
        """Append batches of these sizes, and wake waiting fetches."""
        partition = self.topics.partition(name, index)
        assert partition is not None
        for size in sizes:
            partition.append(batch(*[b"v"] * size, **fields), self.clock.now_ms())
        self.turn()

    def fetch(
        self,
        *partitions: tuple[str, int],
        member: str | None = "A",
        group: str | None = "g",
        epoch: int = 0,
        said: tuple[Said, ...] = (),
        forgotten: tuple[tuple[str, int], ...] = (),
        client: Client | None = None,
        meanwhile: tuple[int, Callable[[], object]] | None = None,
        version: int = 2,
        **fields: Any,
    ) -> SentRequest:
        """Send a ShareFetch that waits 500 ms by default; return its call.

        `meanwhile` is (N, function): the function is called after step N of the request.
        """
        fields = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
        } | fields
        topics: list[ShareFetchTopic] = []
        for name, index in dict.fromkeys((*partitions, *(one[:2] for one in said))):
            topics.append(
                ShareFetchTopic(
                    topic_id=self.topic_id(name),
                    partitions=[
                        ShareFetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                FetchAcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=_types(kind),
                                )
                                for topic, number, first, last, kind in said
                                if (topic, number) == (name, index)
                            ],
                        )
                    ],
                )
            )
        request = ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=[
                ShareForgottenTopic(topic_id=self.topic_id(name), partitions=[index])
                for name, index in forgotten
            ],
            **fields,
        )
        if meanwhile is None:
            return self.send(request, version, client=client)
        sent, steps = self.begin(request, version, client=client)
        for number, _ in enumerate(steps):
            if number == meanwhile[0]:
                meanwhile[1]()
        return sent

    def fetched(self, *partitions: tuple[str, int], **fields: Any) -> dict[str, Any]:
        """Return the result of a fetch that does not wait, in the short form of `brief`."""
        return self.brief(self.fetch(*partitions, **fields))

    def acknowledge(
        self,
        *said: Said,
        member: str | None = "A",
        group: str | None = "g",
        epoch: int = 1,
        version: int = 2,
        renews: bool = False,
        named: tuple[tuple[str, int], ...] = (),
    ) -> SentRequest:
        """Send a ShareAcknowledge; `named` are partitions without acknowledgements."""
        request = ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=[
                AcknowledgeTopic(
                    topic_id=self.topic_id(name),
                    partitions=[
                        AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=_types(kind),
                                )
                                for topic, number, first, last, kind in said
                                if (topic, number) == (name, index)
                            ],
                        )
                    ],
                )
                for name, index in dict.fromkeys((*named, *(one[:2] for one in said)))
            ],
        )
        return self.send(request, version)

    def acknowledged(self, *said: Said, **fields: Any) -> dict[str, int] | int:
        """Return the errors of an acknowledgement by partition, or the top-level error."""
        (response,) = self.acknowledge(*said, **fields).replies
        if response.error_code:
            return int(response.error_code)
        return {
            f"{self.name(topic.topic_id)}-{one.partition_index}": one.error_code
            for topic in response.responses
            for one in topic.partitions
        }

    def name(self, topic_id: bytes) -> str:
        """Return the name of a topic."""
        topic = self.topics.topic_by_id(topic_id)
        return "?" if topic is None else topic.name

    def brief(self, call: SentRequest) -> dict[str, Any]:
        """Return a response in short form: the acquired ranges or an error by partition.

        "=7" is the error of an acknowledgement, and "error" the top-level error.
        """
        (response,) = call.replies
        if response.error_code:
            return {"error": response.error_code}
        found: dict[str, Any] = {}
        for topic in response.responses:
            for one in topic.partitions:
                name = f"{self.name(topic.topic_id)}-{one.partition_index}"
                found[name] = one.error_code or [
                    (each.first_offset, each.last_offset, each.delivery_count)
                    for each in one.acquired_records
                ]
                if one.acknowledge_error_code:
                    found[f"{name}="] = one.acknowledge_error_code
                assert bool(one.records) == bool(one.acquired_records)
        return found


class ShareBroker(ShareRequests):
    """A broker with topics "t" (two partitions) and "u", which group "g" reads from the start."""

    def __init__(self, **overrides: Any) -> None:
        super().__init__(**overrides)
        self.configure({"share.auto.offset.reset": "earliest"})
        self.persister = MemoryPersister()
        self.given_up: list[GivenUpRecords] = []
        self.shared.share_persister.built = cast("Any", self.persister)
        manager = self.share_partitions
        manager.gave_up = lambda _, records: self.given_up.append(records)
        for name, count in (("t", 2), ("u", 1)):
            self.topics.create(name, count, {})
            for index in range(count):
                self.initialize(name, index)

    def key(self, name: str, index: int = 0, group_id: str = "g") -> SharePartitionKey:
        """Return the key of a share partition."""
        return SharePartitionKey(group_id, self.topic_id(name), index)

    def initialize(self, name: str, index: int = 0, group_id: str = "g") -> None:
        """Initialize a share partition in the persister."""
        self.persister.initialize(self.key(name, index, group_id), 2, -1, lambda error: None)


def _types(kind: int | list[int]) -> list[int]:
    return [kind] if isinstance(kind, int) else kind
