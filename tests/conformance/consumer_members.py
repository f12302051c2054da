"""Members of consumer groups (KIP-848) in a scenario, and what can be seen of their group.

A member sends ConsumerGroupHeartbeat with the fields that the scenario chooses. Recorded answers
are short: the name of an error, or [member epoch, assignment], with topics by name; an assignment
that the answer leaves out is null. Members bring ids of their own (member-a for A), so that the
order is known in which the `range` assignor serves them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from protocol.errors import ErrorCode
from tests.conformance.recorded.suite import harness
from tests.conformance.stage import Stage

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""

LEAVE, LEAVE_FOR_A_WHILE = -1, -2

_OTHER_ID = bytes([7]) * 16


def error(code: int) -> str:
    """Kafka's name of an error code."""
    return ErrorCode(code).name


class ConsumerMember:
    """One member with a connection of its own; epoch and partitions are those it was told last."""

    def __init__(
        self,
        t: Stage,
        name: str,
        topics: Sequence[str] | None = None,
        *,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = "range",
        rack_id: str | None = None,
        rebalance_timeout_ms: int = 30_000,
        member_id: str | None = None,
        version: int = 1,
        group: str | None = None,
    ) -> None:
        self.t = t
        self.name = name
        self.version = version
        self.group = t.g if group is None else group
        self.id = f"member-{name.lower()}" if member_id is None else member_id
        if self.id:
            t.name_it(self.id, name)
        self.instance_id = instance_id
        names = [t.t3] if topics is None and regex is None else topics
        self.joining: dict[str, Any] = {
            "rack_id": rack_id,
            "rebalance_timeout_ms": rebalance_timeout_ms,
            "subscribed_topic_names": None if names is None else list(names),
            "server_assignor": assignor,
        }
        if regex is not None:
            self.joining["subscribed_topic_regex"] = regex
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        self.connection = t.conn()

    # ---- requests

    def beat(
        self,
        note: str = "",
        *,
        owned: Owned | None = None,
        version: int | None = None,
        adopt: bool = True,
        **fields: Any,
    ) -> Any:
        """ConsumerGroupHeartbeat with id and epoch, and the fields that are given."""
        used = self.version if version is None else version
        body = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if owned is not None:
            body["topic_partitions"] = partitions_by_id(self.t, owned)
        label = " ".join(filter(None, (self.name, note or "beats")))
        if used != 1:
            label += f" v{used}"
        answer = self.t.quiet("ConsumerGroupHeartbeat", used, body | fields, self.connection)
        if isinstance(answer, dict):
            self._meet(answer)
            self.t.rec(label, shown(self.t, answer))
            if adopt:
                self._adopt(answer)
        else:
            self.t.rec(label, answer)
            self.connection = self.t.conn()
        return answer

    def join(self, note: str = "joins", **fields: Any) -> Any:
        """The first heartbeat: epoch 0 and everything that it has to say."""
        first = {**self.joining, "member_epoch": 0, "topic_partitions": []}
        return self.beat(note, **first | fields)

    def full(self, note: str = "says everything", **fields: Any) -> Any:
        """A heartbeat with all fields, as a client sends it after an error."""
        everything = {**self.joining, "topic_partitions": partitions_by_id(self.t, self.owned)}
        return self.beat(note, **everything | fields)

    def ack(self, note: str = "owns what it was told", **fields: Any) -> Any:
        """A heartbeat that lists the partitions of the last assignment as owned."""
        return self.beat(note, owned=self.owned, **fields)

    def own(self, owned: Owned, note: str = "", **fields: Any) -> Any:
        """A heartbeat that lists these partitions as owned."""
        listed = {self.t.sub(topic): list(indexes) for topic, indexes in owned.items()}
        return self.beat(note or f"owns {listed}", owned=owned, **fields)

    def subscribe(self, *topics: str, note: str = "", **fields: Any) -> Any:
        """A heartbeat with other topics."""
        self.joining["subscribed_topic_names"] = list(topics)
        names = ", ".join(self.t.sub(one) for one in topics) or "nothing"
        label = note or f"subscribes to {names}"
        return self.beat(label, subscribed_topic_names=list(topics), **fields)

    def leave(self, note: str = "leaves", **fields: Any) -> Any:
        """Leave for good: epoch -1."""
        return self.beat(note, **{"member_epoch": LEAVE, "adopt": False} | fields)

    def leave_for_a_while(self, note: str = "leaves for a while", **fields: Any) -> Any:
        """Leave as a static member that comes back: epoch -2."""
        return self.beat(note, **{"member_epoch": LEAVE_FOR_A_WHILE, "adopt": False} | fields)

    def again(self, name: str, **options: Any) -> Self:
        """The same static member after a restart: another id, nothing owned."""
        same = {
            "instance_id": self.instance_id,
            "topics": self.joining["subscribed_topic_names"],
            "regex": self.joining.get("subscribed_topic_regex"),
            "assignor": self.joining["server_assignor"],
            "rebalance_timeout_ms": self.joining["rebalance_timeout_ms"],
        }
        return type(self)(self.t, name, **same | options)

    def joined(self, **fields: Any) -> Self:
        """This member, after an unrecorded join and an acknowledgement."""
        silently(self.t, self.join, **fields)
        silently(self.t, self.ack)
        return self

    def until(self, true: Callable[[], bool], seconds: float = 5.0, *others: Self) -> bool:
        """Unrecorded acknowledgements, also of others, until something is true.

        It is recorded when that never comes.
        """
        end = time.monotonic() + seconds * harness.SCALE
        while not true():
            if time.monotonic() > end:
                self.t.rec(f"{self.name} waits", "in vain")
                return False
            self.t.nap(0.05)
            for member in (self, *others):
                silently(self.t, member.ack)
        return True

    def until_fenced(self, seconds: float = 5.0, *, acks: bool = False) -> bool:
        """Unrecorded heartbeats until one is refused."""
        end = time.monotonic() + seconds * harness.SCALE
        while time.monotonic() < end:
            answer = silently(self.t, self.ack if acks else self.beat)
            if not isinstance(answer, dict) or answer["error_code"]:
                return True
            self.t.nap(0.05)
        self.t.rec(f"{self.name} waits", "in vain")
        return False

    def until_alone(self, *gone: Self, seconds: float = 5.0) -> None:
        """Unrecorded heartbeats until the group shows none of the others."""
        end = time.monotonic() + seconds * harness.SCALE
        while {one.id for one in gone} & {one["member_id"] for one in described(self.t)["members"]}:
            if time.monotonic() > end:
                self.t.rec(f"{self.name} waits", "in vain")
                return
            self.t.nap(0.05)
            silently(self.t, self.ack)

    # ---- what it knows

    @property
    def count(self) -> int:
        """How many partitions it has been told to own."""
        return sum(len(indexes) for indexes in self.owned.values())

    def _meet(self, answer: dict[str, Any]) -> None:
        member_id = answer.get("member_id")
        if not self.id and member_id:
            self.id = member_id
        if member_id:
            self.t.name_member(member_id, self.name)

    def _adopt(self, answer: dict[str, Any]) -> None:
        if answer["error_code"]:
            return
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            self.owned = _by_topic(self.t, answer["assignment"]["topic_partitions"])


def members(t: Stage, names: str, *arguments: Any, **options: Any) -> list[ConsumerMember]:
    """Several members that differ only in their names: members(t, "ABC")."""
    return [ConsumerMember(t, name, *arguments, **options) for name in names]


def statics(t: Stage, names: str, *arguments: Any, **options: Any) -> list[ConsumerMember]:
    """Members A, B, .. with the instance ids i-A, i-B, .."""
    return [
        ConsumerMember(t, name, *arguments, instance_id=f"i-{name}", **options) for name in names
    ]


def stable(t: Stage, *group: ConsumerMember) -> None:
    """Unrecorded: these join, and the group comes to rest with all partitions given out."""
    for member in group:
        silently(t, member.join)
    settle(t, *group)


def reach(t: Stage, state: str, a: ConsumerMember, b: ConsumerMember | None = None) -> None:
    """Unrecorded: bring the group into a state; A is a member unless it is Empty.

    Reconciling and Assigning take a second member, B: it has joined and A owes it partitions, or it
    has left again and no target has been computed since.
    """
    silently(t, a.join)
    silently(t, a.ack)
    if state == "Empty":
        silently(t, a.leave)
        return
    if state == "Stable":
        return
    assert b is not None, state
    silently(t, b.join)
    if state == "Reconciling":
        silently(t, a.beat)
        return
    assert state == "Assigning", state
    settle(t, a, b)
    silently(t, b.leave)


def settle(t: Stage, *group: ConsumerMember, seconds: float = 5.0) -> None:
    """Unrecorded: all beat and acknowledge until they are at one epoch and nothing changes."""
    end = time.monotonic() + seconds * harness.SCALE
    calm = 0
    while calm < 2:
        if time.monotonic() > end:
            t.rec("settle", "never")
            return
        before = [(member.epoch, str(member.owned)) for member in group]
        for member in group:
            silently(t, member.ack)
        after = [(member.epoch, str(member.owned)) for member in group]
        same = before == after and len({member.epoch for member in group}) == 1
        calm = calm + 1 if same else 0


def silently(t: Stage, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Do something unrecorded; unlike `setup` it does not wait afterwards."""
    was, t.recording = t.recording, False
    try:
        return call(*arguments, **options)
    finally:
        t.recording = was


def shown(t: Stage, answer: dict[str, Any]) -> Any:
    """An answer to a heartbeat as it is recorded."""
    if answer["error_code"]:
        return error(answer["error_code"])
    return [answer["member_epoch"], shown_assignment(t, answer["assignment"])]


def shown_assignment(t: Stage, assignment: dict[str, Any] | None) -> dict[str, list[int]] | None:
    """An assignment as it is recorded: partitions by topic."""
    if assignment is None:
        return None
    topics = _by_topic(t, assignment["topic_partitions"])
    return dict(sorted((t.sub(name), indexes) for name, indexes in topics.items()))


def look(t: Stage, label: str = "group", group: str | None = None) -> Any:
    """Record what ConsumerGroupDescribe shows in short: epochs of group and target, members."""
    seen = described(t, group)
    if seen["error_code"]:
        return t.rec(label, error(seen["error_code"]))
    names = {1: "", 0: " (classic)", -1: " (unknown)"}
    found = {
        t.sub(one["member_id"], "member_id") + names[one["member_type"]]: [
            one["member_epoch"],
            shown_assignment(t, one["assignment"]),
            shown_assignment(t, one["target_assignment"]),
        ]
        for one in seen["members"]
    }
    epochs = [seen["group_epoch"], seen["assignment_epoch"]]
    return t.rec(label, [seen["group_state"], epochs, seen["assignor_name"], found])


def look_closely(t: Stage, label: str = "members", group: str | None = None) -> Any:
    """Record what ConsumerGroupDescribe shows of the members: all but epochs and partitions."""
    seen = described(t, group)
    fields = ("instance_id", "rack_id", "client_id", "subscribed_topic_regex", "member_type")
    found = {}
    for one in seen["members"]:
        about = {field: one[field] for field in fields}
        about["topics"] = sorted(t.sub(name) for name in one["subscribed_topic_names"])
        if about["subscribed_topic_regex"]:
            about["subscribed_topic_regex"] = one["subscribed_topic_regex"].replace(
                t.env.run, "<run>"
            )
        found[t.sub(one["member_id"], "member_id")] = about
    return t.rec(label, found)


def described(t: Stage, group: str | None = None, version: int = 1) -> Any:
    """ConsumerGroupDescribe of one group, unrecorded."""
    asked = {"group_ids": [t.g if group is None else group]}
    return t.raw("ConsumerGroupDescribe", version, asked)["groups"][0]


def listed(t: Stage, label: str = "listed", group: str | None = None) -> Any:
    """Record what ListGroups shows of the group: [state, protocol type, type]; null if nothing."""
    wanted = t.g if group is None else group
    found = [one for one in t.raw("ListGroups", 5, {})["groups"] if one["group_id"] == wanted]
    fields = ("group_state", "protocol_type", "group_type")
    return t.rec(label, [found[0][field] for field in fields] if found else None)


def balance(t: Stage, *group: ConsumerMember, label: str = "balance") -> None:
    """Record how many partitions each has, whoever it is, and that none is given out twice."""
    counts = sorted(member.count for member in group)
    every = [
        (topic, index)
        for member in group
        for topic, indexes in member.owned.items()
        for index in indexes
    ]
    t.rec(label, [counts, "none twice" if len(every) == len(set(every)) else "some twice"])


def wait_for_members(t: Stage, names: Collection[str], seconds: float = 6.0) -> None:
    """Wait, unrecorded, until the group shows exactly these members."""
    end = time.monotonic() + seconds * harness.SCALE
    while True:
        found = sorted(t.sub(one["member_id"], "member_id") for one in described(t)["members"])
        if found == sorted(names):
            return
        if time.monotonic() > end:
            t.rec("members", found)
            raise harness.Abort
        t.nap(0.05)


def partitions_by_id(t: Stage, owned: Owned) -> list[dict[str, Any]]:
    """Partitions as requests name them."""
    return [
        {"topic_id": topic_id(t, name), "partitions": list(indexes)}
        for name, indexes in owned.items()
    ]


def topic_id(t: Stage, name: str) -> bytes:
    """The id of a topic of the run or of the scenario; one that nobody has for other names."""
    return _ids(t).get(name, _OTHER_ID)


def _ids(t: Stage) -> dict[str, bytes]:
    symbols = {symbol: name for name, symbol in t.env.topic_syms.items()}
    shared = {
        symbols[f"<{symbol[4:-1]}>"]: one_id
        for one_id, symbol in t.env.topic_ids.items()
        if symbol.startswith("<id:")
    }
    return shared | t.own_topics


def _by_topic(t: Stage, topics: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    names = {one_id: name for name, one_id in _ids(t).items()}
    return {
        names.get(one["topic_id"], "<unknown topic>"): sorted(one["partitions"]) for one in topics
    }
