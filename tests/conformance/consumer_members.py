"""Members of consumer groups (KIP-848) in scenarios, and descriptions of their groups.

A member sends ConsumerGroupHeartbeat with fields that the scenario chooses. Answers are recorded as
the name of an error, or [member epoch, assignment] with topics by name; null is an assignment that
the answer omits. Members choose their ids (member-a for A), so that their order for the `range`
assignor is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from protocol.errors import ErrorCode
from tests.conformance import timing
from tests.conformance.connection import Abort
from tests.conformance.stage import Stage

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""

LEAVE, LEAVE_FOR_A_WHILE = -1, -2

_OTHER_ID = bytes([7]) * 16


def error(code: int) -> str:
    """Return Kafka's name of an error code."""
    return ErrorCode(code).name


class ConsumerMember:
    """A member on a separate connection, with the last epoch and partitions that it got."""

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
        """Send ConsumerGroupHeartbeat with the given fields; record and return the answer."""
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
        """Send the first heartbeat, with epoch 0 and all fields; return the answer."""
        first = {**self.joining, "member_epoch": 0, "topic_partitions": []}
        return self.beat(note, **first | fields)

    def full(self, note: str = "says everything", **fields: Any) -> Any:
        """Send a heartbeat with all fields, like a client after an error; return the answer."""
        everything = {**self.joining, "topic_partitions": partitions_by_id(self.t, self.owned)}
        return self.beat(note, **everything | fields)

    def ack(self, note: str = "owns what it was told", **fields: Any) -> Any:
        """Send a heartbeat that reports the last assignment as owned; return the answer."""
        return self.beat(note, owned=self.owned, **fields)

    def own(self, owned: Owned, note: str = "", **fields: Any) -> Any:
        """Send a heartbeat that reports these partitions as owned; return the answer."""
        listed = {self.t.sub(topic): list(indexes) for topic, indexes in owned.items()}
        return self.beat(note or f"owns {listed}", owned=owned, **fields)

    def subscribe(self, *topics: str, note: str = "", **fields: Any) -> Any:
        """Send a heartbeat with another subscription; return the answer."""
        self.joining["subscribed_topic_names"] = list(topics)
        names = ", ".join(self.t.sub(one) for one in topics) or "nothing"
        label = note or f"subscribes to {names}"
        return self.beat(label, subscribed_topic_names=list(topics), **fields)

    def leave(self, note: str = "leaves", **fields: Any) -> Any:
        """Leave for good, with epoch -1; return the answer."""
        return self.beat(note, **{"member_epoch": LEAVE, "adopt": False} | fields)

    def leave_for_a_while(self, note: str = "leaves for a while", **fields: Any) -> Any:
        """Leave temporarily as a static member, with epoch -2; return the answer."""
        return self.beat(note, **{"member_epoch": LEAVE_FOR_A_WHILE, "adopt": False} | fields)

    def again(self, name: str, **options: Any) -> Self:
        """Return the restarted static member: it has another id and owns nothing."""
        same = {
            "instance_id": self.instance_id,
            "topics": self.joining["subscribed_topic_names"],
            "regex": self.joining.get("subscribed_topic_regex"),
            "assignor": self.joining["server_assignor"],
            "rebalance_timeout_ms": self.joining["rebalance_timeout_ms"],
        }
        return type(self)(self.t, name, **same | options)

    def joined(self, **fields: Any) -> Self:
        """Return this member after an unrecorded join and acknowledgement."""
        silently(self.t, self.join, **fields)
        silently(self.t, self.ack)
        return self

    def until(self, true: Callable[[], bool], seconds: float = 5.0, *others: Self) -> bool:
        """Acknowledge assignments, unrecorded, until a condition holds; return whether it did.

        The members are this one and `others`. A timeout is recorded.
        """
        end = timing.deadline(seconds)
        while not true():
            if time.monotonic() > end:
                self.t.rec(f"{self.name} waits", "in vain")
                return False
            self.t.nap(0.05)
            for member in (self, *others):
                silently(self.t, member.ack)
        return True

    def until_fenced(self, seconds: float = 5.0, *, acks: bool = False) -> bool:
        """Send heartbeats, unrecorded, until one is refused; return whether one was refused."""
        end = timing.deadline(seconds)
        while time.monotonic() < end:
            answer = silently(self.t, self.ack if acks else self.beat)
            if not isinstance(answer, dict) or answer["error_code"]:
                return True
            self.t.nap(0.05)
        self.t.rec(f"{self.name} waits", "in vain")
        return False

    def until_alone(self, *gone: Self, seconds: float = 5.0) -> None:
        """Send heartbeats, unrecorded, until none of the members `gone` is in the group."""
        end = timing.deadline(seconds)
        while {one.id for one in gone} & {one["member_id"] for one in described(self.t)["members"]}:
            if time.monotonic() > end:
                self.t.rec(f"{self.name} waits", "in vain")
                return
            self.t.nap(0.05)
            silently(self.t, self.ack)

    # ---- state

    @property
    def count(self) -> int:
        """Return the number of assigned partitions."""
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
    """Return members that differ only in their names, such as members(t, "ABC")."""
    return [ConsumerMember(t, name, *arguments, **options) for name in names]


def statics(t: Stage, names: str, *arguments: Any, **options: Any) -> list[ConsumerMember]:
    """Return static members A, B, .. with the instance ids i-A, i-B, .."""
    return [
        ConsumerMember(t, name, *arguments, instance_id=f"i-{name}", **options) for name in names
    ]


def stable(t: Stage, *group: ConsumerMember) -> None:
    """Let the members join, unrecorded, until the group is stable and fully assigned."""
    for member in group:
        silently(t, member.join)
    settle(t, *group)


def reach(t: Stage, state: str, a: ConsumerMember, b: ConsumerMember | None = None) -> None:
    """Bring the group into a state, unrecorded; A is a member except in the state Empty.

    The states Reconciling and Assigning need a second member, B. In Reconciling, A must still
    revoke partitions for B. In Assigning, B has left and no new target has been computed.
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
    """Let all members acknowledge, unrecorded, until epochs are equal and nothing changes."""
    end = timing.deadline(seconds)
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
    """Call a function unrecorded and return its result; unlike `setup`, do not pause afterwards."""
    was, t.recording = t.recording, False
    try:
        return call(*arguments, **options)
    finally:
        t.recording = was


def shown(t: Stage, answer: dict[str, Any]) -> Any:
    """Return a heartbeat's answer in the recorded form."""
    if answer["error_code"]:
        return error(answer["error_code"])
    return [answer["member_epoch"], shown_assignment(t, answer["assignment"])]


def shown_assignment(t: Stage, assignment: dict[str, Any] | None) -> dict[str, list[int]] | None:
    """Return an assignment in the recorded form: partitions by topic."""
    if assignment is None:
        return None
    topics = _by_topic(t, assignment["topic_partitions"])
    return dict(sorted((t.sub(name), indexes) for name, indexes in topics.items()))


def look(t: Stage, label: str = "group", group: str | None = None) -> Any:
    """Record and return epochs and members from ConsumerGroupDescribe in short form."""
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
    """Record and return members from ConsumerGroupDescribe, without epochs and partitions."""
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
    """Return ConsumerGroupDescribe of one group, unrecorded."""
    asked = {"group_ids": [t.g if group is None else group]}
    return t.raw("ConsumerGroupDescribe", version, asked)["groups"][0]


def listed(t: Stage, label: str = "listed", group: str | None = None) -> Any:
    """Record and return [state, protocol type, type] of the group from ListGroups.

    A missing group is null.
    """
    wanted = t.g if group is None else group
    found = [one for one in t.raw("ListGroups", 5, {})["groups"] if one["group_id"] == wanted]
    fields = ("group_state", "protocol_type", "group_type")
    return t.rec(label, [found[0][field] for field in fields] if found else None)


def balance(t: Stage, *group: ConsumerMember, label: str = "balance") -> None:
    """Record the sorted partition counts of the members, and that no partition has two owners."""
    counts = sorted(member.count for member in group)
    every = [
        (topic, index)
        for member in group
        for topic, indexes in member.owned.items()
        for index in indexes
    ]
    t.rec(label, [counts, "none twice" if len(every) == len(set(every)) else "some twice"])


def wait_for_members(t: Stage, names: Collection[str], seconds: float = 6.0) -> None:
    """Wait, unrecorded, until the group has exactly these members."""
    end = timing.deadline(seconds)
    while True:
        found = sorted(t.sub(one["member_id"], "member_id") for one in described(t)["members"])
        if found == sorted(names):
            return
        if time.monotonic() > end:
            t.rec("members", found)
            raise Abort
        t.nap(0.05)


def partitions_by_id(t: Stage, owned: Owned) -> list[dict[str, Any]]:
    """Return partitions in the form of requests: indexes by topic id."""
    return [
        {"topic_id": topic_id(t, name), "partitions": list(indexes)}
        for name, indexes in owned.items()
    ]


def topic_id(t: Stage, name: str) -> bytes:
    """Return the id of a topic of the run or scenario; an unused id for any other name."""
    return _ids(t).get(name, _OTHER_ID)


def _ids(t: Stage) -> dict[str, bytes]:
    symbols = {symbol: name for name, symbol in t.env.topic_symbols.items()}
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
