"""Members of consumer and share groups that keep a broker busy while it is killed.

Each member remembers its acknowledged requests. Members keep their id and epoch when the broker
dies: after its restart the broker must know both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import confluent_kafka

from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.apis.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.errors import ErrorCode
from tests.faults.client import Client, GoneError
from tests.faults.workers import PARTITIONS, RETRIED, TOPIC, Worker

COMMIT_VERSION = 9
REBALANCE_TIMEOUT_MS = 60_000
ACCEPT = 1
BEATS_OF_A_GUEST = 6

Address = Callable[[], tuple[str, int]]


class Commits:
    """Acknowledged offset commits of a consumer group by partition, shared by all members."""

    def __init__(self) -> None:
        self._numbers = count()
        self._lock = threading.Lock()
        self.sent = -1
        self.acknowledged = dict.fromkeys(range(PARTITIONS), -1)

    def next(self) -> int:
        """Return a number higher than all numbers returned before."""
        with self._lock:
            self.sent = next(self._numbers)
            return self.sent


class ConsumerMember(Worker):
    """A consumer group member that heartbeats, revokes partitions when asked to, and commits.

    `known` is the epoch and the partitions of the last response. A guest leaves after some
    heartbeats and rejoins, so that epochs rise and partitions move.
    """

    def __init__(
        self, address: Address, group: str, number: int, commits: Commits, *, is_guest: bool
    ) -> None:
        super().__init__(address, f"member {number} of {group}")
        self.group = group
        self.member_id = f"member-{number}"
        self.known: tuple[int, frozenset[int]] = (0, frozenset())
        self._commits = commits
        self._is_guest = is_guest
        self._beats = 0
        self._topic_id = b""

    def connected(self, client: Client) -> None:
        """Report the owned partitions again, because the last response may be lost."""
        if self.known[0]:
            self._beat(client)

    def step(self, client: Client) -> None:
        """Join, leave, or heartbeat and commit."""
        if not self.known[0]:
            self._join(client)
        elif self._is_guest and self._beats >= BEATS_OF_A_GUEST:
            self._leave(client)
        elif self._beat(client):
            self._commit(client)

    def _join(self, client: Client) -> None:
        self._send(
            client,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )

    def _leave(self, client: Client) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=-1
        )
        error = client.ask(request).error_code
        if error in RETRIED:
            time.sleep(0.005)
            return
        # UNKNOWN_MEMBER_ID means that the response to an earlier leave was lost.
        assert error in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID), error
        self.known, self._beats = (0, frozenset()), 0

    def _beat(self, client: Client) -> bool:
        epoch, owned = self.known
        listed = []
        if owned:
            topic = OwnedTopicPartitions(topic_id=self._topic_id, partitions=sorted(owned))
            listed.append(topic)
        return self._send(client, member_epoch=epoch, topic_partitions=listed)

    def _send(self, client: Client, **fields: Any) -> bool:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, **fields
        )
        answer = client.ask(request)
        if answer.error_code in RETRIED:
            time.sleep(0.005)
            return False
        if self._is_guest and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.known, self._beats = (0, frozenset()), 0
            return False  # the response to this member's LeaveGroup was lost
        assert answer.error_code == ErrorCode.NONE, (self.name, self.known, answer)
        assert answer.member_epoch >= self.known[0], (self.name, self.known, answer)
        owned = self.known[1]
        if answer.assignment is not None:
            owned = frozenset()
            for one in answer.assignment.topic_partitions:
                self._topic_id, owned = one.topic_id, frozenset(one.partitions)
        self.known = answer.member_epoch, owned
        self._beats += 1
        self.acknowledged += 1
        time.sleep(0.002)
        return True

    def _commit(self, client: Client) -> None:
        """Commit the next number for all owned partitions."""
        epoch, owned = self.known
        if not owned:
            return
        number = self._commits.next()
        partitions = [
            OffsetCommitRequestPartition(partition_index=one, committed_offset=number)
            for one in sorted(owned)
        ]
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        for one in client.ask(request, COMMIT_VERSION).topics[0].partitions:
            if one.error_code == ErrorCode.NONE:
                self._commits.acknowledged[one.partition_index] = number
            else:
                assert one.error_code in RETRIED, (self.name, self.known, one)


class ConfluentConsumer(threading.Thread):
    """A librdkafka consumer that commits the records that it has read.

    `acknowledged` counts successful commits, `committed` holds the last commit of each partition.
    """

    def __init__(self, address: Address, group: str, number: int) -> None:
        super().__init__(name=f"confluent {number} of {group}", daemon=True)
        host, port = address()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"{host}:{port}",
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._finished = threading.Event()
        self.acknowledged = -1
        self.failure: BaseException | None = None
        self.read: set[tuple[int, int]] = set()
        self.committed: dict[int, int] = {}

    def run(self) -> None:
        """Read and commit until `finish` is called."""
        try:
            self._consumer.subscribe([TOPIC])
            while not self._finished.is_set():
                messages = self._consumer.consume(50, timeout=0.1)
                good = [one for one in messages if one.error() is None]
                self.read |= {(one.partition(), one.offset()) for one in good}
                if good:
                    self._commit()
            self._consumer.close()
        except BaseException as error:
            self.failure = error

    def _commit(self) -> None:
        try:
            committed = self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # the group reads these records again
        for one in committed:
            if one.error is None and one.offset >= 0:
                self.committed[one.partition] = one.offset
        self.acknowledged += 1

    def finish(self) -> None:
        """End the loop."""
        self._finished.set()


class Deliveries:
    """Records acknowledged by the members of a share group, as (partition, offset).

    `unsure` holds acknowledgements without a response: the broker may have applied them before the
    kill.
    """

    def __init__(self) -> None:
        self.acknowledged: set[tuple[int, int]] = set()
        self.unsure: set[tuple[int, int]] = set()


class ShareMember(Worker):
    """A share group member that fetches from all partitions and accepts all records."""

    def __init__(
        self, address: Address, group: str, number: int, topic_id: bytes, deliveries: Deliveries
    ) -> None:
        super().__init__(address, f"share member {number} of {group}")
        self.group = group
        self.member_id = f"member-{number}"
        self.epoch = 0
        self._topic_id = topic_id
        self._deliveries = deliveries
        self._session_epoch = 0

    def connected(self, client: Client) -> None:
        """Begin a new share session, because each connection has its own."""
        self._session_epoch = 0

    def step(self, client: Client) -> None:
        """Send a heartbeat, fetch, and accept the records."""
        if not self._beat(client):
            return
        acquired = self._fetch(client)
        if acquired:
            self._accept(client, acquired)

    def _beat(self, client: Client) -> bool:
        names = None if self.epoch else [TOPIC]
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=names,
        )
        answer = client.ask(request)
        if answer.error_code in RETRIED:
            time.sleep(0.005)
            return False
        assert answer.error_code == ErrorCode.NONE, (self.name, self.epoch, answer)
        self.epoch = answer.member_epoch
        return True

    def _fetch(self, client: Client) -> list[tuple[int, int, int]]:
        """Return the acquired records as (partition, first offset, last offset)."""
        topics = []
        if self._session_epoch == 0:
            partitions = [
                ShareFetchPartition(partition_index=one, acknowledgement_batches=[])
                for one in range(PARTITIONS)
            ]
            topics.append(ShareFetchTopic(topic_id=self._topic_id, partitions=partitions))
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=50,
            min_bytes=1,
            max_records=100,
            batch_size=100,
            topics=topics,
        )
        answer = client.ask(request)
        assert answer.error_code in {ErrorCode.NONE, *RETRIED}, (self.name, answer)
        if answer.error_code:
            return []
        self._session_epoch += 1
        acquired = []
        for topic in answer.responses:
            for one in topic.partitions:
                for records in one.acquired_records:
                    first, last = records.first_offset, records.last_offset
                    for offset in range(first, last + 1):
                        place = one.partition_index, offset
                        assert place not in self._deliveries.acknowledged, (self.name, place)
                    acquired.append((one.partition_index, first, last))
        return acquired

    def _accept(self, client: Client, acquired: list[tuple[int, int, int]]) -> None:
        partitions: dict[int, list[AcknowledgementBatch]] = {}
        for partition, first, last in acquired:
            batch = AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
            )
            partitions.setdefault(partition, []).append(batch)
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        AcknowledgePartition(partition_index=one, acknowledgement_batches=batches)
                        for one, batches in partitions.items()
                    ],
                )
            ],
        )
        places = {(one, at) for one, first, last in acquired for at in range(first, last + 1)}
        try:
            answer = client.ask(request)
        except GoneError:
            self._deliveries.unsure |= places
            raise
        assert answer.error_code == ErrorCode.NONE, (self.name, answer)
        self._session_epoch += 1
        taken: set[int] = set()
        for one in answer.responses[0].partitions:
            assert one.error_code in {ErrorCode.NONE, *RETRIED}, (self.name, one)
            if one.error_code == ErrorCode.NONE:
                taken.add(one.partition_index)
        self._deliveries.acknowledged |= {place for place in places if place[0] in taken}
        self.acknowledged += 1
