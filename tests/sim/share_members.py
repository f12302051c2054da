"""A simulated life of the members of one share group (KIP-932): epochs, assignments, sessions.

The simulation `share_groups` covers the records that members read. The share coordinator, which
initializes the state of partitions, is sometimes late or answers with an error.

Laws: every heartbeat gets one response, with the right error; a member is told its assignment, and
is assigned only partitions of subscribed topics with initialized state; epochs never fall; a
member is removed only for a reason, and does not stay without a session; a replay of the log gives
the group. In the end, when all clients behave, every member has reached the epoch of the group,
and every partition of a subscribed topic is assigned to a subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.settings import GroupSettings
from coordinator_server.core.groups.share.share_group import ShareGroup
from protocol.apis.share_group_describe import ShareGroupDescribeRequest
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer, topic_id_of
from tests.sim.consumer_clients import NAMES, Place
from tests.sim.group_world import RETRY_ERRORS, SHOWN_ERRORS, EpochMember, GroupWorld, play

E = ErrorCode
TOPICS = {"one": 1, "two": 2, "three": 4}
SESSION_MS = 10_000
STEPS = 400
LEAVING = -1


def _settings(rng: Random) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=0,
        share_session_timeout_ms=SESSION_MS,
        share_assignment_interval_ms=rng.choice([0, 0, 1_000, 5_000]),
        share_max_size=rng.choice([3, 100, 100]),
        share_initialize_retry_interval_ms=rng.choice([1_000, 30_000]),
    )


def _places(by_topic: Any) -> set[Place]:
    return {(topic_id, partition) for topic_id, parts in by_topic.items() for partition in parts}


class Sharer(EpochMember):
    """A member that sends heartbeats, sometimes changes its subscription, and leaves."""

    world: ShareMembersWorld

    def __init__(self, world: ShareMembersWorld, name: str) -> None:
        super().__init__(world, name)
        self.topics = self.some_topics()
        self.crash()

    def some_topics(self) -> list[str]:
        """Return topic names to subscribe to; some may not exist."""
        return self.rng.sample(NAMES, self.rng.randrange(1, len(NAMES)))

    def abandon(self) -> None:
        """Drop the assignment and rejoin."""
        self.epoch = 0
        self.assigned: set[Place] = set()
        self.is_unsure = self.has_missed = False

    def act(self) -> None:
        """Join, send a heartbeat, or leave."""
        chance = self.rng.random()
        if self.patience < 1.0 and self.epoch:
            if chance < 0.08:
                self.topics = self.some_topics()
                self.is_unsure = True
            elif chance < 0.12:
                self.send(LEAVING)
                return
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat, with the topics if they have changed."""
        has_all = self.epoch == 0 or self.is_unsure or self.has_missed
        self.has_missed = False
        self.send(self.epoch, **({"subscribed_topic_names": self.topics} if has_all else {}))

    def send(self, epoch: int, **fields: Any) -> None:
        """Send a heartbeat with the given epoch."""
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, **fields
        )
        self.ask(request, 1)

    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""
        error = E(response.error_code)
        if request.member_epoch < 0:
            self.crash()
        elif error is E.NONE:
            if request.subscribed_topic_names is not None:
                self.is_unsure = False
            self.epoch = response.member_epoch
            if response.assignment is not None:
                topics = response.assignment.topic_partitions
                self.assigned = _places({one.topic_id: one.partitions for one in topics})
        elif error in RETRY_ERRORS:
            self.is_unsure = True
        else:
            self.abandon()

    def hear_nothing(self, request: Any) -> None:
        """Send every field again: the broker then answers with the full assignment."""
        self.is_unsure = True
        if request.member_epoch < 0:
            self.crash()


class Lagging(Sharer):
    """Acts so rarely that its session often expires."""

    patience = 0.1


class Crashing(Sharer):
    """Sometimes dies and restarts as a new process."""

    crash_rate = 0.04


class Hostile(Sharer):
    """Sends heartbeats with the ids of other members at odd epochs."""

    def act(self) -> None:
        """Send a false heartbeat, or act as before."""
        if self.patience == 1.0 or self.rng.random() < 0.5:
            super().act()
            return
        known = self.world.epoch
        self.lie(ShareGroup, [-5, -1, 1, 2, known or 1, known + 1, max(known - 1, 1)])


KINDS: list[type[Sharer]] = [Sharer, Sharer, Sharer, Lagging, Crashing, Hostile]


class Expected(NamedTuple):
    """The expected error of a heartbeat, and the previous assignment of its member."""

    error: ErrorCode
    before: object = None


class ShareMembersWorld(GroupWorld):
    """The world of one seed: a share group, its members and its broker."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, trace, _settings, TOPICS)
        self.clients = [
            self.rng.choice(KINDS)(self, f"c{number}") for number in range(self.rng.randrange(1, 7))
        ]
        # A low rate, so that a failed append rarely keeps an expired member.
        if self.append_failure_rate:
            self.append_failure_rate = self.rng.choice([0.05, 0.2])
        self.trouble_rate = self.rng.choice([0.0, 0.05, 0.1])
        """The rate at which the share coordinator starts or stops being late, or failing."""
        self.last_heard_ms: dict[str, int] = {}
        self.before: set[str] = set()
        self.may_go: set[str] = set()
        self.once_deleted: set[bytes] = set()
        """Ids of deleted topics: here a new topic of the same name gets the same id."""

    def _sharers(self) -> Iterator[Sharer]:
        for client in self.clients:
            assert isinstance(client, Sharer)
            yield client

    # Events

    def _happen(self) -> None:
        """Let one event happen, also to the share coordinator."""
        if self.rng.random() < self.trouble_rate:
            self._change_share_coordinator()
        else:
            super()._happen()

    def _change_share_coordinator(self) -> None:
        state = self.broker.persister
        if state.waiting is not None or state.errors:
            self._share_coordinator_is_well()
        elif self.rng.random() < 0.5:
            self.say("the share coordinator is late")
            state.hold()
        else:
            failing = self.rng.sample(NAMES, 2)
            self.say(f"the share coordinator fails for {failing}")
            error = self.rng.choice([E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
            state.errors = dict.fromkeys(map(topic_id_of, failing), error)

    def _share_coordinator_is_well(self) -> None:
        self.say("the share coordinator is well")
        self.broker.persister.errors = {}
        self.broker.persister.let_go()
        self.broker.settle()

    def _change_topics(self) -> None:
        """Change the topics, and tell the share coordinator about deleted topics."""
        if self.broker.is_coordinator:
            super()._change_topics()

    def topic_is_deleted(self, name: str) -> None:
        """Drop the offsets and the share coordinator's state of a deleted topic.

        Appends must not fail here: if a group with a subscription to the topic cannot record the
        deletion, its epoch rises with every heartbeat, as in Kafka, and the group never comes to
        rest.
        """
        rates = self.append_failure_rate, self.kill_rate
        self.append_failure_rate = self.kill_rate = 0.0
        gone = topic_id_of(name)
        self.once_deleted.add(gone)
        state = self.broker.persister
        state.states = {key: one for key, one in state.states.items() if key.topic_id != gone}
        super().topic_is_deleted(name)
        self.append_failure_rate, self.kill_rate = rates

    def _crash(self, how: str) -> None:
        """Crash the broker; pending calls to the share coordinator are lost."""
        if self.broker.persister.waiting is not None:
            self.broker.persister.hold()
        super()._crash(how)

    def administrate(self) -> None:
        """Describe or delete the group."""
        if self.rng.random() < 0.5:
            self._share_coordinator_is_well()  # otherwise DeleteGroups would fail or wait
            self.delete_group()
            return
        group = self.broker.any_group
        request = ShareGroupDescribeRequest(group_ids=[GROUP])
        described = self.broker.send(request, 1).response.groups[0]
        if isinstance(group, ShareGroup):
            assert described.group_state == group.state.value, "ShareGroupDescribe"
            assert len(described.members) == len(group.members), "ShareGroupDescribe"
        else:
            assert described.error_code == E.GROUP_ID_NOT_FOUND, "a group that is none"

    def forget(self) -> None:
        """Restart all sessions, because the broker has loaded the group again."""
        group = self.broker.any_group
        members = group.members if isinstance(group, ShareGroup) else ()
        self.last_heard_ms = dict.fromkeys(members, self.broker.now_ms)
        self.before = set(members)

    # Requests and responses

    def expect(self, answer: Answer, group: Group | None) -> Expected | None:
        """Return the expected error, by the rules of KIP-932."""
        request = answer.request
        if not isinstance(request, ShareGroupHeartbeatRequest):
            return None
        epoch, member_id = request.member_epoch, request.member_id
        if epoch < LEAVING:
            return Expected(E.INVALID_REQUEST)
        if not isinstance(group, ShareGroup) or group.is_new:
            return Expected(E.GROUP_ID_NOT_FOUND if epoch else E.NONE)
        is_known = member_id in group.members
        is_full = len(group.members) >= group.settings.share_max_size
        current = group.current(member_id)
        error = E.NONE
        if not is_known and is_full and epoch >= 0:
            error = E.GROUP_MAX_SIZE_REACHED
        elif not is_known and epoch != 0:
            error = E.UNKNOWN_MEMBER_ID
        elif epoch == LEAVING:
            self.may_go.add(member_id)
        elif epoch not in (0, current.epoch, current.previous_epoch):
            error = E.FENCED_MEMBER_EPOCH
        return Expected(error, current.assigned)

    def compare(self, answer: Answer) -> None:
        """Check the error and the assignment in the response."""
        expected: Expected = answer.note
        response: Any = answer.response
        error = E(response.error_code)
        if self.has_failed and error in SHOWN_ERRORS:
            return
        assert error is expected.error, f"{error.name}, not {expected.error.name}"
        request, group = answer.request, self.broker.any_group
        assert isinstance(request, ShareGroupHeartbeatRequest)
        if error or request.member_epoch < 0 or not isinstance(group, ShareGroup):
            return
        self.last_heard_ms[response.member_id] = self.broker.now_ms
        current = group.currents[response.member_id]
        assert response.member_epoch == current.epoch, "another epoch than the member's"
        existing = {topic_id_of(name) for name in self.broker.topics.counts}
        is_ahead = current.epoch == group.epoch
        assert not is_ahead or current.assigned.keys() <= existing, "a topic that is deleted"
        for client in self._sharers():
            if client.member_id == response.member_id and client.waiting is not answer:
                client.has_missed = True  # another client used this member id and got the response
        if response.assignment is None:
            assert current.assigned == expected.before, "a member is not told what it has got"
            assert request.subscribed_topic_names is None, "who says everything is told everything"
            return
        topics = response.assignment.topic_partitions
        told = _places({one.topic_id: one.partitions for one in topics})
        assert told == _places(current.assigned), f"told {told}, assigned {current.assigned}"

    # Invariants

    def epoch_of(self, group: ShareGroup) -> int:
        """Return the epoch of the group."""
        return group.epoch

    def check_members(self, group: ShareGroup) -> None:
        """Check the laws of epochs, assignments and sessions."""
        self._check_sessions(group)
        if not group.members:
            assert group.assignment_epoch == group.epoch, "an empty group has something to assign"
        begun = {(key.topic_id, key.partition) for key in self.broker.persister.states}
        for member_id, current in group.currents.items():
            assert member_id in group.members, "a stranger reads"
            assert current.epoch <= group.assignment_epoch <= group.epoch, "an epoch too high"
            asked_for = {topic_id_of(name) for name in group.members[member_id].topics}
            assert current.assigned.keys() <= asked_for, f"{member_id} reads what it did not ask"
            stateless = _places(current.assigned) - begun
            stateless = {one for one in stateless if one[0] not in self.once_deleted}
            assert not stateless, f"{member_id} reads {stateless}, which have no state"

    def _check_sessions(self, group: ShareGroup) -> None:
        """Check that only members that left or expired are removed, and all expired members are."""
        now_ms = self.broker.now_ms
        for member_id in group.members:
            heard_ms = self.last_heard_ms.setdefault(member_id, now_ms)
            is_over = now_ms >= heard_ms + SESSION_MS
            assert not is_over or self.may_be_late, f"{member_id} stays"
        for member_id in self.before - group.members.keys() - self.may_go:
            heard_ms = self.last_heard_ms.get(member_id, now_ms)
            assert now_ms >= heard_ms + SESSION_MS, f"{member_id} goes"
        self.before, self.may_go = set(group.members), set()

    def check(self) -> None:
        """Check every invariant; forget the former members if the group has changed its kind."""
        super().check()
        if not isinstance(self.broker.any_group, ShareGroup):
            self.before = set()

    def heal(self) -> None:
        """Stop the faults; keep as many members as the group has room for."""
        super().heal()
        self._share_coordinator_is_well()
        self.clients = self.clients[: self.broker.settings.share_max_size]

    def check_end(self) -> None:
        """Check that every member is at the group's epoch and every partition has a reader."""
        group = self.broker.any_group
        assert isinstance(group, ShareGroup), f"{group!r} is no share group"
        assert len(group.members) == len(self.clients), f"{group!r} has other members"
        assert group.assignment_epoch == group.epoch, f"{group!r} does not come to rest"
        read: set[Place] = set()
        for client in self._sharers():
            current = group.currents[client.member_id]
            assert current.epoch == client.epoch == group.epoch, f"{client.name} is behind"
            assert client.assigned == _places(current.assigned), f"{client.name} reads others"
            read |= client.assigned
        wanted = {name for client in self._sharers() for name in client.topics}
        for name, count in self.broker.topics.counts.items():
            places = {(topic_id_of(name), one) for one in range(count if name in wanted else 0)}
            assert places <= read, f"nobody reads {places - read}"


def run(
    seed: int, steps: int = STEPS, trace: Callable[[str], None] | None = None
) -> ShareMembersWorld:
    """Play one seed and return its world. Raises AssertionError for a violated invariant."""
    return play(ShareMembersWorld, "share-members", seed, steps, trace)
