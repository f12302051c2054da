"""Classic members that meet consumer groups: real subscriptions, and short records.

`members.Member` sends the same requests, but records complete answers, and its metadata is a text.
Here a JoinGroup is recorded as an error or [generation, protocol, leader, members], a SyncGroup as
an error or the partitions by topic, and other requests as errors.

In a classic group the client id `c-M` determines the order of member ids, and c-* sorts before
member-* of consumers. In a consumer group the broker would generate an id without the client's
name, but it accepts an unknown `member_id` from a member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance import timing
from tests.conformance.connection import Pending, Setup
from tests.conformance.consumer_members import error, silently
from tests.conformance.stage import Stage
from tests.conformance.subscriptions import Shares, assignment, partitions, subscription

MEMBER_ID_REQUIRED = 79


class ClassicMember:
    """A member; `id`, `generation` and `owned` are the last values that it got."""

    def __init__(
        self,
        t: Stage,
        name: str,
        topics: Sequence[str] | None = None,
        *,
        instance_id: str | None = None,
        protocols: Sequence[str] = ("range",),
        metadata: bytes | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
        member_id: str = "",
        subscription_version: int = 3,
        rack_id: str | None = None,
    ) -> None:
        self.t = t
        self.name = name
        self.topics = [t.t3] if topics is None else list(topics)
        self.instance_id = instance_id
        self.protocols = list(protocols)
        self.metadata = metadata
        self.protocol_type = protocol_type
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.version = version
        self.subscription_version = subscription_version
        self.rack_id = rack_id
        self.id, self.generation = member_id, -1
        self.protocol: str | None = None
        self.leads = False
        self.seen: list[str] = []
        self.owned: dict[str, list[int]] = {}
        if member_id:
            t.name_it(member_id, name)
        self._joining, self._rest = t.conn(), t.conn()

    # ---- JoinGroup

    def join(
        self, *, version: int | None = None, owned: Shares | None = None, **fields: Any
    ) -> Any:
        """Send a JoinGroup and return it, without waiting for the answer."""
        used = self.version if version is None else version
        held = self.owned if owned is None else owned
        metadata = self.metadata
        if metadata is None:
            metadata = subscription(
                self.topics, self.subscription_version, held, self.generation, self.rack_id
            )
        body = {
            "group_id": self.t.g,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": one, "metadata": metadata} for one in self.protocols],
        }
        client_id = f"c-{self.name}"
        return self.t.send(self._joining, "JoinGroup", used, body | fields, "", client_id, self)

    def answered(self, pending: Pending, note: str = "joins") -> Any:
        """Wait for the answer to a JoinGroup; record and return it."""
        silently(self.t, self.t.got, pending)
        return self._joined(pending.raw, note)

    def join_now(self, note: str = "joins", **options: Any) -> Any:
        """Send a JoinGroup with an immediate answer; record and return the answer.

        A new member gets its id first.
        """
        pending = self.join(**options)
        silently(self.t, self.t.got, pending)
        raw = pending.raw
        if isinstance(raw, dict) and raw["error_code"] == MEMBER_ID_REQUIRED and not self._asked:
            self._asked = True
            return self.join_now(note, **options)
        return self._joined(raw, note)

    _asked = False

    def parked(self, pending: Pending, note: str = "joins") -> None:
        """Record that a JoinGroup is parked, or its answer."""
        if pending.poll(timing.PARKED_SECONDS * timing.scale):
            silently(self.t, self.t.got, pending)
            self._joined(pending.raw, f"{note} (not parked)")
        else:
            self.t.rec(f"{self.name} {note}", "parked")

    def _joined(self, raw: Any, note: str) -> Any:
        label = f"{self.name} {note}"
        if not isinstance(raw, dict):
            return self.t.rec(label, raw)
        if raw["error_code"]:
            return self.t.rec(label, error(raw["error_code"]))
        named = sorted(self.t.sub(one["member_id"], "member_id") for one in raw["members"])
        leader = self.t.sub(raw["leader"], "leader")
        protocol = raw["protocol_name"]
        return self.t.rec(label, [raw["generation_id"], protocol, leader, named])

    # ---- other requests

    def sync(
        self, shares: Mapping[str, Shares] | None = None, *, version: int = 5, **fields: Any
    ) -> Any:
        """Send a SyncGroup and return it; the leader passes the assignments by member name."""
        ids = {self.t.sub(one): one for one in self.seen}
        assignments = [
            {"member_id": ids.get(name, name), "assignment": assignment(share)}
            for name, share in (shares or {}).items()
        ]
        body = {
            "group_id": self.t.g,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignments": assignments,
        }
        return self.t.send(self._joining, "SyncGroup", version, body | fields)

    def synced(self, pending: Pending, note: str = "syncs") -> Any:
        """Wait for the answer to a SyncGroup; record and return it."""
        silently(self.t, self.t.got, pending)
        raw, label = pending.raw, f"{self.name} {note}"
        if not isinstance(raw, dict):
            return self.t.rec(label, raw)
        if raw["error_code"]:
            return self.t.rec(label, error(raw["error_code"]))
        self.owned = partitions(raw["assignment"])
        shown = {self.t.sub(topic): indexes for topic, indexes in sorted(self.owned.items())}
        return self.t.rec(label, shown)

    def sync_now(
        self, note: str = "syncs", shares: Mapping[str, Shares] | None = None, **options: Any
    ) -> Any:
        """Send a SyncGroup with an immediate answer; record and return the answer."""
        return self.synced(self.sync(shares, **options), note)

    def rejoin(self, note: str = "joins again") -> None:
        """Rejoin and sync with the owned partitions, as a client does, and record both answers."""
        self.join_now(note)
        self.sync_now()

    def beat(self, note: str = "beats", *, version: int = 4, **fields: Any) -> Any:
        """Send a Heartbeat; record and return the error."""
        body = {
            "group_id": self.t.g,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }
        answer = self.t.quiet("Heartbeat", version, body | fields, self._rest)
        shown = error(answer["error_code"]) if isinstance(answer, dict) else answer
        return self.t.rec(f"{self.name} {note}", shown)

    def leave(self, note: str = "leaves", *, version: int = 5, **fields: Any) -> Any:
        """Send LeaveGroup; record and return the error.

        From version 3 on the recorded form is [error, errors of members].
        """
        body: dict[str, Any] = {"group_id": self.t.g}
        if version < 3:
            body["member_id"] = self.id
        else:
            body["members"] = [{"member_id": self.id, "group_instance_id": self.instance_id}]
        answer = self.t.quiet("LeaveGroup", version, body | fields, self._rest)
        label = f"{self.name} {note}"
        if not isinstance(answer, dict):
            return self.t.rec(label, answer)
        if version < 3:
            return self.t.rec(label, error(answer["error_code"]))
        each = [error(one["error_code"]) for one in answer["members"]]
        return self.t.rec(label, [error(answer["error_code"]), each])

    # ---- JoinGroup responses

    def learn_id(self, member_id: str) -> None:
        """Store the member id."""
        self.id = member_id

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Store the values of a JoinGroup response."""
        self.generation = answer["generation_id"]
        self.leads = answer["leader"] == answer["member_id"]
        self.protocol = answer.get("protocol_name")
        self.seen = [one["member_id"] for one in answer["members"] or []]


# ---- classic groups


def round_of(t: Stage, shares: Mapping[str, Shares], *group: ClassicMember) -> None:
    """Let these members, the last of them new, join and get their assignments, unrecorded."""
    *known, newcomer = group
    if not newcomer.id and newcomer.instance_id is None:
        silently(t, t.got, newcomer.join())  # the response to this join has the member id
    joins = [newcomer.join()]
    if known:
        silently(t, t.until, "PreparingRebalance")
    joins += [member.join() for member in known]
    silently(t, t.got, *joins)
    refused = [one.raw for one in joins if not isinstance(one.raw, dict) or one.raw["error_code"]]
    if refused:
        raise Setup(f"join: {refused}")
    leaders = [member for member in group if member.leads]
    followers = [member for member in group if not member.leads]
    for member, sync in [(one, one.sync(shares)) for one in leaders + followers]:
        silently(t, member.synced, sync)


def stable(t: Stage, shares: Mapping[str, Shares], *group: ClassicMember) -> None:
    """Create a Stable classic group with the given assignments by member name, unrecorded."""
    for size in range(1, len(group) + 1):
        round_of(t, shares, *group[:size])


def completing(t: Stage, *group: ClassicMember) -> None:
    """Create a classic group whose members have rejoined but not synced, unrecorded."""
    leader, *others = sorted(group, key=lambda member: not member.leads)
    joins = [leader.join()]
    if others:
        silently(t, t.until, "PreparingRebalance")
    joins += [member.join() for member in others]
    silently(t, t.got, *joins)
