"""A short life of a group by raw requests, whose acknowledgements form a ledger.

`live-app` has member A, then A and B, then B alone, then none. `live-simple` is committed by an
admin client.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata

from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.support import address_of, wait_for

TOPIC = "live"
APP, SIMPLE = "live-app", "live-simple"
RECORDS = {0: 10, 1: 8, 2: 4}
SESSION_MS = 60_000


@dataclass
class Ledger:
    """The records and commits that the broker acknowledged."""

    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    generations: list[tuple[int, dict[str, list[int]]]] = field(default_factory=list)
    """The number of each generation, and its members with their partitions, in order."""
    names: dict[str, str] = field(default_factory=dict)
    """The letter of each member id."""


class Life:
    """The steps of the life. Members are letters, and each has its own connection."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._address = address_of(bootstrap)
        self._clients: dict[str, Client] = {}
        self._ids: dict[str, str] = {}
        self.ledger = Ledger()

    def live(self) -> Ledger:
        """Run all steps and return the ledger."""
        self._produce()
        wait_for(self._has_coordinator, "the group has a coordinator", 60, 0.1)
        first = self._join("A")
        self._share_out(1, first.leader, {"A": [0, 1, 2]})
        self._commit("A", 1, {0: 3, 1: 2, 2: 1})
        leader = self._join_both("A", "B")
        self._share_out(2, leader, {"A": [0], "B": [1, 2]})
        self._commit("A", 2, {0: 5})
        self._commit("B", 2, {1: 4})
        self._leave("A")
        alone = self._join("B")
        self._share_out(3, alone.leader, {"B": [0, 1, 2]})
        self._commit("B", 3, {0: 6})
        self._leave("B")
        self.ledger.generations.append((4, {}))
        self._commit_by_hand()
        for client in self._clients.values():
            client.close()
        return self.ledger

    def _produce(self) -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        topics = {TOPIC: {"num_partitions": len(RECORDS), "replication_factor": 1}}
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()
        producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap)
        for partition, count in RECORDS.items():
            for number in range(count):
                producer.send(TOPIC, b"value %d" % number, partition=partition)
        producer.flush()
        producer.close()

    def _has_coordinator(self) -> bool:
        """Return whether the group's coordinator is loaded.

        FindCoordinator creates the offsets topic, and the response to JoinGroup shows that it is
        loaded.
        """
        found = self._client("A").ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[APP]))
        if found.coordinators[0].error_code != ErrorCode.NONE:
            return False
        answer = self._ask_to_join("A")
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._ids["A"] = answer.member_id
        return bool(answer.error_code == ErrorCode.MEMBER_ID_REQUIRED)

    def _client(self, member: str) -> Client:
        if member not in self._clients:
            self._clients[member] = Client(self._address, SESSION_MS / 1000)
        return self._clients[member]

    def _ask_to_join(self, member: str) -> Any:
        subscription = ConsumerProtocolSubscription(
            topics=[TOPIC], user_data=None, owned_partitions=[]
        )
        offered = JoinGroupRequestProtocol(
            name="range", metadata=encode_subscription(subscription, 1)
        )
        return self._client(member).ask(
            JoinGroupRequest(
                group_id=APP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self._ids.get(member, ""),
                protocol_type="consumer",
                protocols=[offered],
            )
        )

    def _join(self, member: str) -> Any:
        """Join the group, with the member id from the first response."""
        answer = self._ask_to_join(member)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._ids[member] = answer.member_id
            answer = self._ask_to_join(member)
        assert answer.error_code == ErrorCode.NONE, answer
        self.ledger.names[answer.member_id] = member
        return answer

    def _join_both(self, old: str, new: str) -> str:
        """Join a new member, then rejoin the old one after its heartbeat; return the leader."""
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(self._join(new)))
        waiting.start()
        self._wait_for_rebalance(old, 1)
        leader: str = self._join(old).leader
        waiting.join(SESSION_MS / 1000)
        assert [one.leader for one in answers] == [leader]
        return leader

    def _wait_for_rebalance(self, member: str, generation: int) -> None:
        beat = HeartbeatRequest(group_id=APP, generation_id=generation, member_id=self._ids[member])
        wait_for(
            lambda: self._client(member).ask(beat).error_code == ErrorCode.REBALANCE_IN_PROGRESS,
            "a rebalance",
        )

    def _share_out(self, generation: int, leader: str, shares: Mapping[str, list[int]]) -> None:
        """Send the leader's assignment first, then check that each member gets its part."""
        encoded = [
            SyncGroupRequestAssignment(member_id=self._ids[member], assignment=_encoded(partitions))
            for member, partitions in shares.items()
        ]
        leading = self.ledger.names[leader]
        for member in sorted(shares, key=lambda one: one != leading):
            answer = self._client(member).ask(
                SyncGroupRequest(
                    group_id=APP,
                    generation_id=generation,
                    member_id=self._ids[member],
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=encoded if member == leading else [],
                )
            )
            assert answer.error_code == ErrorCode.NONE, answer
            assert answer.assignment == _encoded(shares[member])
        self.ledger.generations.append((generation, dict(shares)))

    def _commit(self, member: str, generation: int, offsets: Mapping[int, int]) -> None:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=member
            )
            for number, offset in offsets.items()
        ]
        answer = self._client(member).ask(
            OffsetCommitRequest(
                group_id=APP,
                member_id=self._ids[member],
                generation_id_or_member_epoch=generation,
                topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
            ),
            9,
        )
        assert {one.error_code for one in answer.topics[0].partitions} == {ErrorCode.NONE}
        self.ledger.committed |= {(APP, number): offset for number, offset in offsets.items()}

    def _leave(self, member: str) -> None:
        answer = self._client(member).ask(
            LeaveGroupRequest(group_id=APP, members=[MemberIdentity(member_id=self._ids[member])])
        )
        assert answer.error_code == ErrorCode.NONE, answer

    def _commit_by_hand(self) -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        place = kafka.TopicPartition(TOPIC, 0)
        admin.alter_group_offsets(SIMPLE, {place: OffsetAndMetadata(2, "by hand", -1)})
        admin.close()
        self.ledger.committed[SIMPLE, 0] = 2


def _encoded(partitions: list[int]) -> bytes:
    parts = [TopicPartition(topic=TOPIC, partitions=partitions)]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts), 1)
