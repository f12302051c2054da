"""Members of classic groups, which record whole answers. Metadata and assignments are texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.calls import CLIENT_ID, Calls
from tests.conformance.connection import Conn, Pending
from tests.conformance.subscriptions import Raw, subscription


class Member:
    """A consumer with two connections, because a parked answer blocks its connection.

    `c` sends JoinGroup and SyncGroup; `h` sends all other requests. With the protocol type
    consumer, metadata is the name of a topic and is sent as a subscription to that topic, unless it
    is `Raw`.
    """

    def __init__(
        self,
        t: Calls,
        name: str,
        v: int = 5,
        inst: str | None = None,
        session: int = 30_000,
        rebalance: int = 60_000,
        ptype: str = "consumer",
        protos: Sequence[tuple[str, bytes]] | None = None,
        group: str | None = None,
        sync_v: int = 3,
        client_id: str = CLIENT_ID,
    ) -> None:
        self.t = t
        self.name = name
        self.v = v
        self.inst = inst
        self.session = session
        self.rebalance = rebalance
        self.ptype = ptype
        self.protos = protos or [("range", b"meta-" + name.encode())]
        self.group = group or t.g
        self.sync_v = sync_v
        self.client_id = client_id
        self.id = ""
        self.gen = -1
        self.leader = False
        self.proto: str | None = None
        self.assignments: Mapping[str, bytes] = {}
        self.seen: list[str] = []
        self._joining: Conn | None = None
        self._rest: Conn | None = None

    @property
    def c(self) -> Conn:
        """Return the connection of JoinGroup and SyncGroup."""
        if self._joining is None or self._joining.closed:
            self._joining = self.t.conn()
        return self._joining

    @property
    def h(self) -> Conn:
        """Return the connection for all requests except JoinGroup and SyncGroup."""
        if self._rest is None or self._rest.closed:
            self._rest = self.t.conn()
        return self._rest

    def learn_id(self, member_id: str) -> None:
        """Store the member id."""
        self.id = member_id

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Store the values of a JoinGroup response."""
        self.gen = answer["generation_id"]
        self.leader = answer["leader"] == answer["member_id"]
        self.proto = answer.get("protocol_name")
        self.seen = [one["member_id"] for one in answer["members"] or []]

    # ---- requests

    def join(
        self, v: int | None = None, note: str = "", conn: Conn | None = None, **fields: Any
    ) -> Pending:
        """Send JoinGroup and return it, without waiting for the answer."""
        version = self.v if v is None else v
        body = {
            "group_id": self.group,
            "session_timeout_ms": self.session,
            "rebalance_timeout_ms": self.rebalance,
            "member_id": self.id,
            "group_instance_id": self.inst,
            "protocol_type": self.ptype,
            "protocols": [{"name": name, "metadata": data} for name, data in self.protos],
            **fields,
        }
        if self.ptype == "consumer":
            body["protocols"] = [
                {**one, "metadata": _wrapped(one["metadata"])} for one in body["protocols"]
            ]
        label = self._label("JoinGroup", version, note)
        return self.t.send(
            conn or self.c, "JoinGroup", version, body, label, self.client_id, member=self
        )

    def join_now(self, v: int | None = None, note: str = "", **fields: Any) -> Any:
        """Send JoinGroup; wait for the answer, record and return it."""
        return self.t.got(self.join(v, note, **fields))

    def get_id(self) -> None:
        """Get a member id if the version requires one (MEMBER_ID_REQUIRED)."""
        if self.v >= 4 and not self.inst and not self.id:
            self.t.got(self.join(note="(ask for id)"))

    def sync(
        self,
        v: int | None = None,
        note: str = "",
        assign: Mapping[str, bytes] | None = None,
        conn: Conn | None = None,
        **fields: Any,
    ) -> Pending:
        """Send SyncGroup and return it, without waiting for the answer.

        By default a leader assigns `asg-A` to member A.
        """
        version = self.sync_v if v is None else v
        if assign is None:
            names = {one: self.t.subst.get(one, one) for one in self.seen if self.leader}
            assign = {
                member_id: self.assignments.get(name, f"asg-{name}".encode())
                for member_id, name in names.items()
            }
        body = {
            "group_id": self.group,
            "generation_id": self.gen,
            "member_id": self.id,
            "group_instance_id": self.inst,
            "protocol_type": self.ptype,
            "protocol_name": self.proto,
            "assignments": [
                {"member_id": member_id, "assignment": data} for member_id, data in assign.items()
            ],
            **fields,
        }
        label = self._label("SyncGroup", version, note)
        return self.t.send(conn or self.c, "SyncGroup", version, body, label)

    def sync_now(self, v: int | None = None, note: str = "", **fields: Any) -> Any:
        """Send SyncGroup; wait for the answer, record and return it."""
        return self.t.got(self.sync(v, note, **fields))

    def hb(self, v: int = 3, note: str = "", **fields: Any) -> Any:
        """Send Heartbeat; record and return the answer."""
        body = {
            "group_id": self.group,
            "generation_id": self.gen,
            "member_id": self.id,
            "group_instance_id": self.inst,
            **fields,
        }
        return self.t.call(self.h, "Heartbeat", v, body, self._label("Heartbeat", v, note))

    def leave(self, v: int = 2, note: str = "", **fields: Any) -> Any:
        """Send LeaveGroup; record and return the answer."""
        body: dict[str, Any] = {"group_id": self.group}
        if v < 3:
            body["member_id"] = self.id
        else:
            body["members"] = [{"member_id": self.id, "group_instance_id": self.inst}]
        label = self._label("LeaveGroup", v, note)
        return self.t.call(self.h, "LeaveGroup", v, body | fields, label)

    def commit(
        self, offsets: Sequence[tuple[Any, ...]], v: int = 7, note: str = "", **options: Any
    ) -> Any:
        """Send OffsetCommit as this member; record and return the answer."""
        identity: dict[str, Any] = {"gen": self.gen, "member": self.id, "inst": self.inst} | options
        label = self._label("OffsetCommit", v, note)
        return self.t.commit(offsets, v, group=self.group, conn=self.h, label=label, **identity)

    def _label(self, api: str, version: int, note: str) -> str:
        return f"{self.name} {api} v{version}" + (f" {note}" if note else "")


def _wrapped(metadata: bytes) -> bytes:
    return metadata if isinstance(metadata, Raw) else subscription([metadata.decode()], version=0)
