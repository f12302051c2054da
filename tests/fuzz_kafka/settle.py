"""Let the members of groups send heartbeats until their assignments are complete.

Which of several equal members gets a partition depends on hash maps in Kafka. Such a difference is
explained only if both brokers then deliver complete assignments of equal sizes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from tests.fuzz_kafka.draw import Step
from tests.fuzz_kafka.fields import Body
from tests.fuzz_kafka.play import Player

_LEAST_ROUNDS, _ROUNDS, _ROUND_S = 3, 8, 0.1
_REGEX_INTERVAL_S = 10.5
"""Kafka resolves the regular expressions of a group at most every 10 s.

A member that joins with a new expression has no topics until then. While it has none, the target of
`uniform` in Kafka may leave out partitions of other members.
"""
_CLASSIC = 0
_FIELDS = ("topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks")
_HEARTBEAT = "GroupHeartbeat"


class Settled(NamedTuple):
    """The assignments of a group, without the names of members.

    `untold` counts the members whose last received assignment is not the described one,
    `unfinished` those whose assignment or epoch is not the target's. A group with classic members
    has neither partitions nor unfinished members here, and its sizes are 0: it waits for requests
    of the classic members, which only the sequence sends. Members with different subscriptions have
    no sizes, because these depend on random ids in Kafka as well. Groups that vote for both
    assignors have no sizes either.
    """

    error: str
    sizes: list[int]
    partitions: list[str]
    untold: int
    unfinished: int

    @property
    def is_complete(self) -> bool:
        """Return whether every member has received its target assignment."""
        return not self.untold and not self.unfinished


class SettlingPlayer(Player):
    """Plays a sequence, and then sends heartbeats of all members until nothing changes."""

    def settled(self, steps: Sequence[Step]) -> dict[str, Settled]:
        """Play the steps; return the final assignments by API and group."""
        self._asked = dict.fromkeys(
            (step.api.removesuffix("Heartbeat"), step.owner)
            for step in steps
            if step.api.endswith(_HEARTBEAT) and step.owner is not None
        )
        self._has_regex = any(step.body.get("subscribed_topic_regex") for step in steps)
        # If two assignors have equally many votes, every heartbeat raises the group epoch in
        # Kafka, and the member that sent the last heartbeat decides which assignor is used.
        votes = {step.body.get("server_assignor") for step in steps}
        self._is_steady = not {"range", "uniform"} <= votes
        self._settled: dict[str, Settled] = {}
        self.play(steps)
        return self._settled

    def _finish(self) -> None:
        if self._has_regex:
            self._wait(_REGEX_INTERVAL_S)
        for api, group in self._asked:
            for number in range(_ROUNDS):
                described = self._described(api, group)
                settled = self._summary(group, described)
                if settled.is_complete and number >= _LEAST_ROUNDS:
                    break
                for member in filter(_sends_heartbeats, described["members"]):
                    self._beat(api, group, member)
                time.sleep(_ROUND_S * self._patience)
            self._settled[f"{api} {group}"] = settled

    def _described(self, api: str, group: str) -> Body:
        version = SPEC_BY_NAME[f"{api}Describe"].max_version
        answer = self._ask(f"{api}Describe", version, {"group_ids": [self._resolve_name(group)]})
        described: Body = answer["groups"][0]
        return described

    def _beat(self, api: str, group: str, member: Body) -> None:
        """Send a heartbeat with the partitions that the member has received."""
        told = self._told.get((group, member["member_id"]), {})
        owned: Body = {}
        if api == "StreamsGroup":
            owned = {name: told.get(name, []) for name in _FIELDS[1:]}
        elif api == "ConsumerGroup":
            owned = {"topic_partitions": told.get("topic_partitions", [])}
        body = {
            "group_id": self._resolve_name(group),
            "member_id": member["member_id"],
            "member_epoch": member["member_epoch"],
            **owned,
        }
        version = SPEC_BY_NAME[f"{api}Heartbeat"].max_version
        step = Step(-1, -1, f"{api}Heartbeat", version, body, group)
        self._learn(step, self._ask(step.api, version, body))

    def _summary(self, group: str, described: Body) -> Settled:
        members = described["members"]
        assigned = [set(_assigned(one["assignment"])) for one in members]
        has_classic = any(map(_is_classic, members))
        is_counted = self._is_steady and not has_classic
        untold = unfinished = 0
        for member, has in zip(members, assigned, strict=True):
            if _sends_heartbeats(member):
                told = self._told.get((group, member["member_id"]), {})
                target = set(_assigned(member.get("target_assignment", member["assignment"])))
                untold += set(_assigned(told)) != has
                is_behind = member["member_epoch"] != described["group_epoch"]
                unfinished += is_counted and (target != has or is_behind)
        if has_classic:
            assigned = [set() for _ in members]
        return Settled(
            ErrorCode(described["error_code"]).name,
            sorted(map(len, assigned)) if self._is_steady and _are_alike(members) else [],
            sorted(
                f"{name} {self._names.get(place, place)} {partition}"
                for name, place, partition in set().union(*assigned)
            ),
            untold,
            unfinished,
        )


def _sends_heartbeats(member: Body) -> bool:
    """Return whether the member uses the new protocol and has not left temporarily."""
    return not _is_classic(member) and member["member_epoch"] >= 0


def _are_alike(members: Sequence[Body]) -> bool:
    """Return whether all members have the same subscription."""
    names = ("subscribed_topic_names", "subscribed_topic_regex")
    return len({str([sorted(one.get(name) or ()) for name in names]) for one in members}) <= 1


def _is_classic(member: Body) -> bool:
    return member.get("is_classic", False) or member.get("member_type") == _CLASSIC


def _assigned(assignment: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield the field, the topic id or subtopology, and the partition of each part."""
    for name in _FIELDS:
        for one in assignment.get(name) or ():
            place = one["topic_id"] if "topic_id" in one else one["subtopology_id"]
            for partition in one["partitions"]:
                yield name, place, partition
