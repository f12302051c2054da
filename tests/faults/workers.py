"""Workers that keep a broker busy while it is killed, and remember their acknowledged requests.

A worker has one connection and one thread; when the broker dies, it reconnects and continues.
`acknowledged` may be read from other threads at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode
from tests.faults.client import Client, GoneError

TOPIC = "faults"
PARTITIONS = 4
SESSION_TIMEOUT_MS = 6_000

RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


class Worker(threading.Thread):
    """A thread that repeats `step` on a connection until `finish` is called."""

    def __init__(self, address: Callable[[], tuple[str, int]], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._address = address
        self._finished = threading.Event()
        self.acknowledged = -1
        self.sent = -1
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Work until `finish` is called; keep a failed assertion for the main thread."""
        try:
            while not self._finished.is_set():
                try:
                    client = Client(self._address())
                except GoneError:
                    time.sleep(0.01)
                    continue
                try:
                    self.connected(client)
                    while not self._finished.is_set():
                        self.step(client)
                except GoneError:
                    pass
                finally:
                    client.close()
        except BaseException as error:
            self.failure = error

    def connected(self, client: Client) -> None:
        """Prepare a new connection."""

    def step(self, client: Client) -> None:
        """Send one request."""
        raise NotImplementedError

    def finish(self) -> None:
        """End the loop."""
        self._finished.set()


def commit(group: str, offset: int, member_id: str = "", generation_id: int = -1) -> Any:
    """Commit the same offset for every partition of the topic, and return the response."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index in range(PARTITIONS)
    ]
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
    )


class Committer(Worker):
    """A consumer without a group membership that commits 0, 1, 2, ..."""

    def __init__(self, address: Callable[[], tuple[str, int]], group: str) -> None:
        super().__init__(address, f"committer of {group}")
        self.group = group

    def step(self, client: Client) -> None:
        """Commit the next number for all partitions."""
        self.sent = self.acknowledged + 1
        answer = client.ask(commit(self.group, self.sent))
        errors = {one.error_code for one in answer.topics[0].partitions}
        if errors == {ErrorCode.NONE}:
            self.acknowledged = self.sent
        else:
            assert errors <= RETRIED, errors
            time.sleep(0.005)


class Member(Worker):
    """A group member that heartbeats and commits, and rejoins whenever necessary."""

    def __init__(self, address: Callable[[], tuple[str, int]], group: str, number: int) -> None:
        super().__init__(address, f"member {number} of {group}")
        self.group = group
        self.member_id = ""
        self.generation_id = -1
        self.is_stable = False

    def step(self, client: Client) -> None:
        """Join, or send a heartbeat and commit."""
        if not self.is_stable:
            self._join(client)
            return
        heartbeat = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation_id, member_id=self.member_id
        )
        if not self._accepted(client.ask(heartbeat).error_code):
            return
        self.sent = self.acknowledged + 1
        answer = client.ask(commit(self.group, self.sent, self.member_id, self.generation_id))
        if self._accepted(answer.topics[0].partitions[0].error_code):
            self.acknowledged = self.sent

    def _join(self, client: Client) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        joined = client.ask(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if not self._accepted(joined.error_code):
            return
        self.generation_id = joined.generation_id
        synced = client.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"a")
                    for one in joined.members
                ],
            )
        )
        self.is_stable = self._accepted(synced.error_code)

    def _accepted(self, error: int) -> bool:
        """Return whether a request succeeded; update the membership after an error."""
        if error == ErrorCode.NONE:
            return True
        if error in RETRIED:
            time.sleep(0.005)
            return False
        self.is_stable = False
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        else:
            assert error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION), error
        return False


class Producer(Worker):
    """Produces 0, 1, 2, ... as values to one partition, and remembers the offset of each."""

    def __init__(self, address: Callable[[], tuple[str, int]], partition: int) -> None:
        super().__init__(address, f"producer of {partition}")
        self.partition = partition
        self.offset_of: dict[int, int] = {}

    def step(self, client: Client) -> None:
        """Produce the next number with acks=all; a number without an acknowledgement is skipped."""
        self.sent += 1
        now_ms = time.time_ns() // 1_000_000
        value = str(self.sent).encode()
        records = build_batch([Record(0, now_ms, None, value)]).to_bytes()
        data = PartitionProduceData(index=self.partition, records=records)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        answer = client.ask(request, 11)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.NONE:
            self.offset_of[self.sent] = result.base_offset
            self.acknowledged = self.sent
        else:
            assert result.error_code in RETRIED, result
