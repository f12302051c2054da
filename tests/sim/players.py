"""Members of a small world: each verb is one request; players accept every response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coordinator_server.core.caller import Caller
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.harness.one_group import GROUP, Answer, OneGroupBroker
from tests.sim.votes import subscribe

E = ErrorCode
SESSION_MS = {"A": 6_000, "B": 10_000, "C": 10_000}
REBALANCE_MS = {"A": 10_000, "B": 7_000, "C": 7_000}


class Player:
    """A player without randomness: its requests follow from the responses that it got."""

    def __init__(
        self,
        broker: OneGroupBroker,
        name: str,
        version: int,
        instance_id: str | None,
        on_answer: Callable[[Answer], None],
    ) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.instance_id = instance_id
        self.on_answer = on_answer
        self.member_id = ""
        self.generation = -1
        self.members: tuple[str, ...] = ()
        """The members to which the player assigns partitions when it is the leader."""
        self.changes = 0
        self.offset = 0

    def verbs(self) -> Iterator[str]:
        """Yield the possible verbs; without a member id there are few."""
        yield "join"
        if self.member_id:
            yield "change"
            yield "leave"
            if self.instance_id is not None:
                yield "restart"
            if self.generation >= 0:
                yield from ("sync", "heartbeat", "commit")

    def act(self, verb: str) -> None:
        """Send the request of a verb."""
        requests: dict[str, Callable[[], tuple[Message, int]]] = {
            "join": self._join,
            "change": self._change,
            "restart": self._restart,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "commit": self._commit,
            "leave": self._leave,
        }
        request, version = requests[verb]()
        caller = Caller(self.name, "/127.0.0.1", version)
        self.broker.deliver(Answer(request, self._take, caller))

    def _join(self) -> tuple[Message, int]:
        metadata = subscribe(self.name, str(self.changes % 2))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS[self.name],
            rebalance_timeout_ms=REBALANCE_MS[self.name],
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return request, self.version

    def _change(self) -> tuple[Message, int]:
        self.changes += 1
        return self._join()

    def _restart(self) -> tuple[Message, int]:
        self._forget()
        return self._join()

    def _sync(self) -> tuple[Message, int]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=one, assignment=f"{self.generation}:{one}".encode()
                )
                for one in self.members
            ],
        )
        return request, 5

    def _heartbeat(self) -> tuple[Message, int]:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return request, 4

    def _commit(self) -> tuple[Message, int]:
        self.offset += 1
        partition = OffsetCommitRequestPartition(
            committed_offset=self.offset, committed_metadata=self.name
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=[partition])
                for name in ("one", "three")
            ],
        )
        return request, 8

    def _leave(self) -> tuple[Message, int]:
        one = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        return LeaveGroupRequest(group_id=GROUP, members=[one]), 4

    def _take(self, answer: Answer) -> None:
        """Update the player from a response.

        Errors change nothing: a player that ignores them is a zombie.
        """
        self.on_answer(answer)
        response: Any = answer.response
        if not isinstance(answer.request, JoinGroupRequest):
            return
        if response.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.member_id = response.member_id
        elif response.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self._forget()
        if response.error_code == E.NONE:
            self.generation = response.generation_id
            self.members = tuple(one.member_id for one in response.members)

    def _forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.members = ()
