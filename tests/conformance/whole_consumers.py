"""Members of consumer groups (KIP-848) that record whole answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.conformance import timing
from tests.conformance.stage import Stage


class WholeConsumer:
    """A member with the last epoch and partitions that it got; the id of A is member-a."""

    def __init__(
        self,
        t: Stage,
        name: str,
        topics: Sequence[str] | None = None,
        *,
        instance_id: str | None = None,
        assignor: str | None = None,
        regex: str | None = None,
        version: int = 1,
        rebalance_timeout_ms: int = 30_000,
        rack_id: str | None = None,
    ) -> None:
        self.t = t
        self.name = name
        self.version = version
        self.instance_id = instance_id
        self.id = f"member-{name.lower()}"
        t.name_it(self.id, name)
        self.epoch = 0
        self.owned: list[dict[str, Any]] = []
        self._first: dict[str, Any] = {
            "member_epoch": 0,
            "instance_id": instance_id,
            "rebalance_timeout_ms": rebalance_timeout_ms,
            "server_assignor": assignor,
            "rack_id": rack_id,
            "topic_partitions": [],
            "subscribed_topic_names": [t.t3] if topics is None and regex is None else topics,
        }
        if version >= 1:
            self._first["subscribed_topic_regex"] = regex
        self._connection = t.conn()

    def hb(self, note: str = "", **fields: Any) -> Any:
        """Send ConsumerGroupHeartbeat; record and return the answer."""
        body = {
            "group_id": self.t.g,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            **fields,
        }
        label = f"{self.name} ConsumerGroupHeartbeat v{self.version} {note}".strip()
        answer = self.t.call(self._connection, "ConsumerGroupHeartbeat", self.version, body, label)
        if isinstance(answer, dict) and not answer.get("error_code"):
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = answer["assignment"]["topic_partitions"]
        return answer

    def join(self, note: str = "", **fields: Any) -> Any:
        """Send the first heartbeat; return the answer."""
        return self.hb(f"join {note}".strip(), **self._first | fields)

    def ack(self, note: str = "owns what it was told", **fields: Any) -> Any:
        """Send a heartbeat that reports the last assignment as owned; return the answer."""
        return self.hb(note, topic_partitions=self.owned, **fields)

    def leave(self, epoch: int = -1, note: str = "leave") -> Any:
        """Send a heartbeat that leaves the group; return the answer."""
        return self.hb(note, member_epoch=epoch)

    @property
    def count(self) -> int:
        """Return the number of partitions."""
        return sum(len(topic["partitions"]) for topic in self.owned)


def settle_all(t: Stage, *group: WholeConsumer) -> None:
    """Let all members acknowledge, unrecorded, until epochs are equal and nothing changes."""

    def acknowledge() -> None:
        end = time.monotonic() + timing.ANSWER_SECONDS
        calm = 0
        while calm < 2 and time.monotonic() < end:
            before = [(one.epoch, str(one.owned)) for one in group]
            for one in group:
                one.ack()
            after = [(one.epoch, str(one.owned)) for one in group]
            calm = calm + 1 if before == after and len({one.epoch for one in group}) == 1 else 0
            t.nap(0.02)

    t.setup(acknowledge)


def view(t: Stage, label: str = "describe") -> Any:
    """Record and return ConsumerGroupDescribe, and the group's state and types from ListGroups."""
    answer = t.quiet("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})
    if not isinstance(answer, dict):
        return t.rec(label, answer)
    shown = t.norm(answer)["groups"][0]
    del shown["group_id"]
    for member in shown["members"]:
        for field in ("assignment", "target_assignment"):
            topics = member[field]["topic_partitions"]
            member[field] = {topic["topic_name"]: topic["partitions"] for topic in topics}
    shown["listed"] = t.listed(t.g)
    return t.rec(label, shown)
