"""The environment of a scenario: groups in every state, topics, and the cluster.

A scenario has connections and members, and writes a transcript with symbolic names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from tests.conformance import timing
from tests.conformance.calls import Calls
from tests.conformance.connection import Abort, Conn, Pending, Setup
from tests.conformance.environment import Environment
from tests.conformance.members import Member
from tests.conformance.recording import Transcript

_METADATA_SECONDS = 0.25


class Stage(Calls):
    """A running scenario: its group, members and transcript."""

    newcomer: Any = None
    """The member whose JoinGroup, `waiting`, is parked while the group is preparing."""
    waiting: Any = None

    def __init__(self, env: Environment, name: str) -> None:
        super().__init__(env, name)
        self.t1, self.t3, self.tx = env.t1, env.t3, env.tx
        # The ids of topics by name.
        self.own_topics: dict[str, bytes] = {}
        # The symbols of topics by topic id, including deleted topics.
        self.topic_symbols: dict[bytes, str] = {}
        self._producers: dict[int, str] = {}
        self._coordinator_epochs: dict[int, str] = {}

    @property
    def cluster(self) -> Any:
        """Return the `tests.conformance.cluster.Cluster` of the scenario."""
        return self.env.cluster

    def connect(self, node_id: int) -> Conn:
        """Open and return a connection to one broker of the cluster."""
        return self.connected(self.cluster.addresses[node_id], f"CONNECT to {node_id}")

    # ---- groups

    def member(self, name: str, **options: Any) -> Member:
        """Return a new member."""
        return Member(self, name, **options)

    def stable(self, *members: Member | str, **options: Any) -> list[Member]:
        """Bring the group to Stable, unrecorded, and return its members; the first one leads.

        The members join one after the other, so that the generation is the number of members.
        """
        group = [one if isinstance(one, Member) else self.member(one, **options) for one in members]

        def join_all() -> None:
            for count in range(1, len(group) + 1):
                self._complete_round(group[:count])

        self.setup(join_all)
        return group

    def _complete_round(self, group: Sequence[Member]) -> None:
        *known, newcomer = group
        newcomer.get_id()
        joins = [newcomer.join()]
        if known:
            self.until("PreparingRebalance")
            joins += self.rejoin(*known)
        self.got(*joins)
        _check(joins)
        leaders = [one for one in group if one.leader]
        if len(leaders) != 1:
            raise Setup("no single leader")
        syncs = [one.sync() for one in (*leaders, *(one for one in group if not one.leader))]
        self.got(*syncs)
        _check(syncs)

    def empty(self) -> Member:
        """Bring the group to Empty, unrecorded; return the member that came and left."""
        (member,) = self.stable("Z")
        self.setup(member.leave)
        return member

    def completing(self, *members: Member | str, **options: Any) -> list[Member]:
        """Bring the group to CompletingRebalance, unrecorded; return its unsynced members."""
        group = self.stable(*members, **options)

        def rejoin() -> None:
            leader, *followers = group
            joins = [leader.join()]  # the leader's rejoin starts a rebalance
            if followers:
                self.until("PreparingRebalance")
                joins += self.rejoin(*followers)
            self.got(*joins)

        self.setup(rejoin)
        return group

    def preparing(self, *members: Member | str, **options: Any) -> list[Member]:
        """Bring the group to PreparingRebalance, unrecorded; return its members.

        A newcomer N waits; its parked JoinGroup is `waiting`.
        """
        group = self.stable(*members, **options)
        self.newcomer = self.member("N")
        self.setup(self.newcomer.get_id)
        self.waiting = self.newcomer.join()
        self.setup(self.until, "PreparingRebalance")
        return group

    def reach(self, state: str, *members: Member | str) -> list[Member]:
        """Bring the group into `state`, unrecorded, and return its members; the first one leads.

        "unknown": the group does not exist, and the members have invented ids. "empty": the members
        have left. "preparing": the members are known, and a newcomer N waits (its parked JoinGroup
        is `self.waiting`). "completing" and "stable": all have joined.
        """
        if state == "preparing":
            return self.preparing(*members)
        if state == "completing":
            return self.completing(*members)
        if state == "unknown":
            return [self._stranger(one) for one in members]
        known = self.stable(*members)
        if state == "empty":
            for member in known:
                self.setup(member.leave, v=3)
        else:
            assert state == "stable", state
        return known

    def _stranger(self, member: Member | str) -> Member:
        one = self.member(member) if isinstance(member, str) else member
        one.id, one.gen = f"{one.name}-made-up", 1
        return one

    def static(self, *names: str, **options: Any) -> list[Member]:
        """Return static members A, B, .. with the instance ids i-A, i-B, .."""
        return [self.member(name, inst=f"i-{name}", **options) for name in names]

    def again(self, member: Member, name: str, **options: Any) -> Member:
        """Return the restarted static member, which has lost its member id."""
        same = {
            "v": member.v,
            "inst": member.inst,
            "protos": member.protos,
            "session": member.session,
            "rebalance": member.rebalance,
        }
        return self.member(name, **same | options)

    def rejoin(self, *members: Member) -> list[Pending]:
        """Let each member send a JoinGroup; return the requests without waiting."""
        return [member.join() for member in members]

    def end_round(self, parked: Sequence[Pending], *members: Member) -> None:
        """Let these members join too; record the parked answers first, then the other answers."""
        joins = self.rejoin(*members)
        self.got(*[one for one in parked if not one.reported], *joins)
        self.state()

    def end_round_of_any_leader(self, parked: Sequence[Pending], *members: Member) -> None:
        """Like `end_round` after the leader has left: Kafka picks the next leader at random."""
        answers = [*parked, *self.rejoin(*members)]
        self.setup(self.got, *answers)
        self.rec("errors", [one.raw["error_code"] for one in answers])
        self.rec("generations", [one.raw["generation_id"] for one in answers])
        self.rec("leaders", sum(one.raw["leader"] == one.raw["member_id"] for one in answers))
        self.rec("members seen", sorted(len(one.raw["members"]) for one in answers))

    def sync_all(self, *members: Member) -> None:
        """Let all members sync, the leader last, and record the answers."""
        followers = [one for one in members if not one.leader]
        leaders = [one for one in members if one.leader]
        self.got(*[one.sync() for one in followers + leaders])

    def gone(self, count: int, seconds: float = 6.0) -> None:
        """Wait, unrecorded, until the group has `count` members."""
        for _ in range(int(seconds * timing.scale / 0.05)):
            if len(self.describe().get("members") or []) == count:
                return
            self.nap(0.05)
        self.rec("wait", f"still not {count} members")

    def delete_offsets(self, *partitions: tuple[str, int], label: str | None = None) -> None:
        """Send OffsetDelete and record the answer."""
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append({"partition_index": partition})
        wanted = [{"name": name, "partitions": indexes} for name, indexes in topics.items()]
        self.ask("OffsetDelete", 0, {"group_id": self.g, "topics": wanted}, label)

    def topic(self, partitions: int = 1, suffix: str = "own", **configs: str) -> str:
        """Create a topic for this scenario, unrecorded, and return its name once it has leaders."""
        name = f"{self.g}-{suffix}".replace("/", "-")
        self.name_it(name, f"<{suffix}>")
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        created = self.raw("CreateTopics", 7, {"topics": [wanted], "timeout_ms": 9000})
        assert created["topics"][0]["error_code"] == 0, created
        symbol = f"<{suffix} again>" if name in self.own_topics else f"<{suffix}>"
        self.own_topics[name] = created["topics"][0]["topic_id"]
        self.topic_symbols[self.own_topics[name]] = symbol
        indexes = range(partitions)
        asked = [{"partition_index": one, "timestamp": -1} for one in indexes]
        body = {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
        while True:
            (seen,) = self.raw("ListOffsets", 1, body)["topics"]
            if not any(one["error_code"] for one in seen["partitions"]):
                return name
            self.nap(0.02)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, unrecorded, and wait until the broker no longer knows it."""
        body = {"topics": [{"name": name, "topic_id": bytes(16)}], "timeout_ms": 9000}
        self.raw("DeleteTopics", 6, body)
        asked = {"topics": [{"name": name, "topic_id": bytes(16)}]}
        while self.raw("Metadata", 12, asked)["topics"][0]["error_code"] == 0:
            self.nap(0.02)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Add partitions to a topic, unrecorded, and wait until the coordinator knows them."""
        wanted = {"name": name, "count": partitions, "assignments": None}
        body = {"topics": [wanted], "timeout_ms": 9000, "validate_only": False}
        grown = self.raw("CreatePartitions", 3, body)
        assert grown["results"][0]["error_code"] == 0, grown
        asked = {"topics": [{"name": name, "topic_id": bytes(16)}]}
        while len(self.raw("Metadata", 12, asked)["topics"][0]["partitions"]) < partitions:
            self.nap(0.02)
        self.coordinator_learns()

    def coordinator_learns(self) -> None:
        """Wait, unrecorded, because Kafka's coordinator learns of topics later than Metadata."""
        self.nap(_METADATA_SECONDS)

    def partition(self, topic: str, index: int) -> str:
        """Return a partition as recorded; a group's partition depends on its random name."""
        return topic if topic == "__consumer_offsets" else f"{self.sub(topic)}-{index}"

    def producer(self, producer_id: int) -> int | str:
        """Return a producer id as recorded: pid1 for the first one; -1 is unchanged."""
        if producer_id < 0:
            return producer_id
        return self._producers.setdefault(producer_id, f"pid{len(self._producers) + 1}")

    def coordinator_epoch(self, epoch: int) -> int | str:
        """Return a coordinator epoch as recorded: in a cluster e1 for the first one."""
        if epoch < 0 or self.cluster is None:
            return epoch
        return self._coordinator_epochs.setdefault(epoch, f"e{len(self._coordinator_epochs) + 1}")

    def delete_groups(self, *names: str, label: str | None = None) -> None:
        """Send DeleteGroups, by default of the scenario's group, and record the answer."""
        self.ask("DeleteGroups", 1, {"groups_names": list(names) or [self.g]}, label)


class Scenario(NamedTuple):
    """A question to the brokers of a profile. Profile "c" is a cluster; others have one broker."""

    name: str
    area: str
    profile: str
    question: str
    play: Callable[[Stage], None]


class Area:
    """The scenarios of one module; a scenario is a function whose docstring is its question."""

    def __init__(self, name: str, profile: str = "a") -> None:
        self.name = name
        self.profile = profile
        self.scenarios: list[Scenario] = []
        self.functions: list[Callable[..., None]] = []

    def scenario(self, function: Callable[[Stage], None]) -> Callable[[Stage], None]:
        """Register a function as a scenario and return it."""
        self._add(function, function.__name__, {}, function)
        return function

    def each(
        self, template: str = "", /, **values: Sequence[Any]
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that registers a function once for every combination of the values.

        The values become keyword arguments and part of the name, which is the name of the function
        followed by the values, or the filled template. The docstring may refer to the values.
        """

        def register(function: Callable[..., None]) -> Callable[..., None]:
            for chosen in _combinations(values):
                words = [function.__name__, *(str(one) for one in chosen.values())]
                name = template.format(**chosen) or "_".join(words).replace(" ", "_")
                self._add(function, name, chosen, _bind(function, chosen))
            return function

        return register

    def _add(
        self,
        function: Callable[..., None],
        name: str,
        chosen: dict[str, Any],
        play: Callable[[Stage], None],
    ) -> None:
        assert function.__doc__, name
        self.functions.append(function)
        question = " ".join(function.__doc__.format(**chosen).split())
        self.scenarios.append(
            Scenario(f"{self.name}.{name}", self.name, self.profile, question, play)
        )


def _combinations(values: dict[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def _bind(function: Callable[..., None], chosen: dict[str, Any]) -> Callable[[Stage], None]:
    return lambda stage: function(stage, **chosen)


def _check(pendings: Sequence[Pending]) -> None:
    """Raise Setup if an answer is missing or has an error."""
    answers = [pending.raw for pending in pendings]
    problems = [one if isinstance(one, str) else one.get("error_code") for one in answers]
    if any(problems):
        raise Setup(f"{pendings[0].api}: {problems}")


def play(env: Environment, scenario: Scenario) -> Transcript:
    """Play one scenario and return its transcript, which contains every outcome."""
    stage = Stage(env, scenario.name)
    try:
        scenario.play(stage)
    except Abort:
        pass  # an expected response is missing, so the transcript ends here
    except Setup as error:
        stage.steps.append(["SETUP", str(error)])
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        # A response that the scenario cannot read counts as a difference and does not end the run.
        stage.steps.append(["BROKE", f"{type(error).__name__}: {error}"])
    finally:
        stage.close()
    return stage.steps
