"""Send the requests of a scenario on its connections, and query the states of its groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance import timing, wire
from tests.conformance.connection import (
    NO_RESPONSE,
    Abort,
    Conn,
    Learner,
    Pending,
    Setup,
)
from tests.conformance.environment import Environment
from tests.conformance.recording import Recording

CLIENT_ID = "conf"
_MEMBER_ID_REQUIRED = 79
_PAUSE_SECONDS = 0.03


class Calls(Recording):
    """A recording with connections.

    A request that is not parked is sent on `ctl`, unless another connection is given.
    """

    def __init__(self, env: Environment, name: str) -> None:
        super().__init__(env, name)
        self.conns: list[Conn] = []
        self._control: Conn | None = None

    # ---- connections

    def conn(self) -> Conn:
        """Open and return a connection to the broker."""
        return self.connected((self.env.host, self.env.port), "CONNECT")

    def connected(self, address: tuple[str, int], label: str) -> Conn:
        """Open and return a connection to an address; a failure is recorded with a label."""
        timeout = min(timing.ANSWER_SECONDS * timing.scale, self.left())
        try:
            connection = Conn(*address, timeout=timeout)
        except OSError as error:
            self.rec(label, type(error).__name__)
            raise Abort from error
        self.conns.append(connection)
        return connection

    @property
    def ctl(self) -> Conn:
        """Return the connection for requests that are not sent by a member."""
        if self._control is None or self._control.closed:
            self._control = self.conn()
        return self._control

    def close(self) -> None:
        """Close all connections."""
        for connection in self.conns:
            connection.close()

    # ---- requests

    def send(
        self,
        conn: Conn,
        api: str,
        ver: int,
        body: Mapping[str, Any],
        label: str | None = None,
        client_id: str | None = CLIENT_ID,
        member: Learner | None = None,
    ) -> Pending:
        """Send a request and return it, without waiting for its answer."""
        conn.corr += 1
        pending = Pending(conn, api, ver, body, label or f"{api} v{ver}", member)
        conn.pendings.append(pending)
        conn.send_frame(wire.enc_request(api, ver, conn.corr, client_id, body))
        return pending

    def got(self, *pendings: Pending, timeout: float = timing.ANSWER_SECONDS) -> Any:
        """Wait for all answers, record them in the given order, and return them.

        A single answer is returned without a list.
        """
        end = timing.deadline(timeout)
        for pending in pendings:
            if not pending.poll(max(0.001, min(end - time.monotonic(), self.left()))):
                pending.raw = NO_RESPONSE
        for pending in pendings:
            self._learn(pending)
        answers = [self._report(pending, pending.label) for pending in pendings]
        if any(pending.raw == NO_RESPONSE for pending in pendings):
            raise Abort
        return answers[0] if len(answers) == 1 else answers

    def parked(self, *pendings: Pending, window: float | None = None) -> None:
        """Record for each request that it has no answer yet, or the answer."""
        end = time.monotonic() + (window or timing.PARKED_SECONDS * timing.scale)
        for pending in pendings:
            if pending.poll(max(0.001, end - time.monotonic())):
                self._learn(pending)
        for pending in pendings:
            if pending.raw is None:
                self.rec(pending.label, "parked")
            else:
                self._report(pending, f"{pending.label} (not parked)")

    def _report(self, pending: Pending, label: str) -> Any:
        pending.reported = True
        answer = pending.raw
        return self.rec(label, self.norm(answer) if isinstance(answer, dict) else answer)

    def _learn(self, pending: Pending) -> None:
        member, answer = pending.member, pending.raw
        if member is None or not isinstance(answer, dict) or pending.api != "JoinGroup":
            return
        code = answer.get("error_code")
        if code in (0, _MEMBER_ID_REQUIRED) and answer.get("member_id"):
            self.name_member(answer["member_id"], member.name)
            member.learn_id(answer["member_id"])
        if code == 0:
            member.learn(answer)

    def call(
        self,
        conn: Conn,
        api: str,
        ver: int,
        body: Mapping[str, Any],
        label: str | None = None,
        client_id: str | None = CLIENT_ID,
    ) -> Any:
        """Send a request, wait for the answer, and record it; return it decoded, not normalised."""
        pending = self.send(conn, api, ver, body, label, client_id)
        self.got(pending)
        return pending.raw

    def ask(self, api: str, ver: int, body: Mapping[str, Any], label: str | None = None) -> Any:
        """Like `call`, return the answer to a request on the connection `ctl`."""
        return self.call(self.ctl, api, ver, body, label)

    def quiet(self, api: str, ver: int, body: Mapping[str, Any], conn: Conn | None = None) -> Any:
        """Like `ask`, return the answer to a request, but record only a missing answer."""
        try:
            return self.silently(self.call, conn or self.ctl, api, ver, body)
        except Abort:
            self.rec(f"{api} v{ver}", NO_RESPONSE)
            raise

    def raw(self, api: str, ver: int, body: Mapping[str, Any]) -> Any:
        """Like `quiet`, return the answer to a request; a missing answer ends the scenario."""
        answer = self.quiet(api, ver, body)
        if not isinstance(answer, dict):
            self.rec(f"{api} v{ver}", answer)
            raise Abort
        return answer

    def silently(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function unrecorded and return its result."""
        was, self.recording = self.recording, False
        try:
            return call(*arguments, **options)
        finally:
            self.recording = was

    def setup(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function unrecorded, pause, and return the function's result.

        Raises Setup if an answer is missing.
        """

        def prepare() -> Any:
            result = call(*arguments, **options)
            self.nap(_PAUSE_SECONDS * timing.scale)
            return result

        try:
            return self.silently(prepare)
        except Abort as error:
            raise Setup("no answer") from error

    # ---- groups

    def describe(self, group: str | None = None) -> Any:
        """Return DescribeGroups of a group, unrecorded."""
        answer = self.quiet("DescribeGroups", 5, {"groups": [self._named(group)]})
        if isinstance(answer, dict) and answer.get("groups"):
            return answer["groups"][0]
        return {"group_state": f"?{answer}", "members": []}

    def state(self, group: str | None = None, label: str = "state") -> Any:
        """Record and return the group's state after two equal descriptions.

        DescribeGroups and ListGroups follow Kafka's committed log with a delay of some
        milliseconds.
        """
        group = self._named(group)
        self.nap(0.05 * timing.scale)
        described = self.describe(group)
        for _ in range(6):
            self.nap(_PAUSE_SECONDS * timing.scale)
            before, described = described, self.describe(group)
            if before == described:
                break
        code = described.get("error_code")
        shown = {"state": described.get("group_state"), "error": wire.ERRORS.get(code, code)}
        for name, field in (("type", "protocol_type"), ("proto", "protocol_data")):
            if described.get(field):
                shown[name] = described[field]
        members = [self._member(one) for one in described.get("members") or []]
        if members:
            shown["members"] = sorted(members, key=str)
        shown["listed"] = self.listed(group)
        return self.rec(label, shown)

    def _member(self, described: Mapping[str, Any]) -> list[Any]:
        member = self.norm(described)
        fields = ("member_id", "group_instance_id", "member_metadata", "member_assignment")
        return [member.get(field) for field in fields]

    def listed(self, group: str) -> str | None:
        """Return state, protocol type and type of a group that ListGroups has, or None."""
        answer = self.quiet("ListGroups", 5, {})
        groups = answer.get("groups") or [] if isinstance(answer, dict) else []
        fields = ("group_state", "protocol_type", "group_type")
        for one in groups:
            if one["group_id"] == group:
                return "/".join(str(one.get(field)) for field in fields)
        return None

    def until(self, *states: str, timeout: float = 4.0, group: str | None = None) -> Any:
        """Wait, unrecorded, until the group is in one of the states; return that state."""
        end = timing.deadline(timeout)
        while True:
            state = self.describe(group).get("group_state")
            if state in states:
                return state
            if time.monotonic() > end:
                self.rec(f"until {'/'.join(states)}", f"still {state}")
                raise Abort
            self.nap(0.02)

    # ---- offsets

    def fetch(
        self,
        topics: list[tuple[str, list[int]]] | None = None,
        v: int = 7,
        group: str | None = None,
        label: str | None = None,
        **fields: Any,
    ) -> Any:
        """Send OffsetFetch (version 0 to 7); record and return the answer.

        Without topics, fetch the offsets of all topics.
        """
        wanted = None
        if topics is not None:
            wanted = [{"name": name, "partition_indexes": indexes} for name, indexes in topics]
        return self.ask(
            "OffsetFetch", v, {"group_id": self._named(group), "topics": wanted, **fields}, label
        )

    def offs(self, group: str | None = None, label: str = "offsets") -> Any:
        """Record and return a group's committed offsets.

        Each is [offset, leader epoch, metadata, any error].
        """
        answer = self.quiet("OffsetFetch", 7, {"group_id": self._named(group), "topics": None})
        if not isinstance(answer, dict) or "topics" not in answer:
            return self.rec(label, str(answer))
        shown: dict[str, Any] = {}
        for topic in answer["topics"] or []:
            for one in topic["partitions"]:
                offset = [one["committed_offset"], one["committed_leader_epoch"]]
                offset.append(self.norm(one["metadata"]))
                if one["error_code"]:
                    offset.append(wire.ERRORS.get(one["error_code"]))
                shown[f"{self.sub(topic['name'])}-{one['partition_index']}"] = offset
        error = wire.ERRORS.get(answer["error_code"], answer["error_code"])
        return self.rec(label, dict(sorted([("error", error), *shown.items()])))

    def commit(
        self,
        offsets: Sequence[tuple[Any, ...]],
        v: int = 7,
        group: str | None = None,
        gen: int = -1,
        member: str = "",
        inst: str | None = None,
        conn: Conn | None = None,
        label: str | None = None,
        **fields: Any,
    ) -> Any:
        """Send OffsetCommit of (topic, partition, offset[, metadata[, leader epoch]]).

        Record and return the answer.
        """
        body = {
            "group_id": self._named(group),
            "generation_id_or_member_epoch": gen,
            "member_id": member,
            "group_instance_id": inst,
            "topics": commit_topics(offsets),
            **fields,
        }
        return self.call(conn or self.ctl, "OffsetCommit", v, body, label)

    def _named(self, group: str | None) -> str:
        return self.g if group is None else group


def commit_topics(offsets: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the topics of OffsetCommit or TxnOffsetCommit."""
    topics: dict[str, list[dict[str, Any]]] = {}
    defaults: list[Any] = ["", -1]
    for topic, partition, offset, *more in offsets:
        metadata, leader_epoch = [*more, *defaults[len(more) :]]
        topics.setdefault(topic, []).append(
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_metadata": metadata,
                "committed_leader_epoch": leader_epoch,
            }
        )
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
