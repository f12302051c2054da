"""Deliberate bugs in the group coordinator, to see that simulation and tests can see.

Each is a small edit of one module of `coordinator_server`: a fragment that occurs exactly
once, and what stands there instead. When the heart changes, a fragment that is gone is an error.
"""

from __future__ import annotations

from tests.sim.bug import Bug
from tests.sim.consumer_bugs import CONSUMER_BUGS
from tests.sim.share_bugs import SHARE_BUGS
from tests.sim.share_member_bugs import SHARE_MEMBER_BUGS
from tests.sim.streams_bugs import STREAMS_BUGS
from tests.sim.transaction_bugs import TRANSACTION_BUGS

GENERATIONS = [
    Bug(
        "generation + 2",
        "core.groups.classic.rebalance",
        "generation_id += 1",
        "generation_id += 2",
        True,
    ),
    Bug(
        "no new generation when the group becomes Empty",
        "core.groups.classic.rebalance",
        "generation_id += 1",
        "generation_id += bool(membership.members)",
    ),
    Bug(
        "a heartbeat of any generation is accepted",
        "core.groups.classic.heartbeat",
        "        or request.generation_id != group.generation_id\n",
        "",
    ),
    Bug(
        "a stale commit is accepted",
        "core.groups.classic.metadata",
        "if generation_id != self.generation_id:",
        "if generation_id > self.generation_id:",
        True,
    ),
    Bug(
        "the assignment of an old generation is given out",
        "core.groups.classic.sync_group",
        " or group.generation_id != generation_id:",
        ":",
    ),
    Bug(
        "a loaded group is one generation ahead",
        "core.groups.classic.lifecycle",
        "group.generation_id = recorded.generation",
        "group.generation_id = recorded.generation + 1",
    ),
]

TIMERS = [
    Bug(
        "no session after the join phase",
        "core.groups.classic.rebalance",
        "        group.renew_session(member, now_ms)\n        member.is_new = False",
        "        member.is_new = False",
        True,
    ),
    Bug(
        "a heartbeat does not renew the session",
        "core.groups.classic.heartbeat",
        "    group.purgatory.schedule(member.session, now_ms + member.session_timeout_ms)\n",
        "",
    ),
    Bug(
        "a commit does not renew the session",
        "core.groups.offset_commit",
        "    group.committed_by(request.member_id, now_ms)\n",
        "",
        True,
    ),
    Bug(
        "no sync timer",
        "core.groups.classic.rebalance",
        "group.purgatory.schedule(group.sync_operation, now_ms + membership.rebalance_timeout_ms)",
        "pass",
        True,
    ),
    Bug(
        "the sync timer runs on when all have synced",
        "core.groups.classic.sync_group",
        "        group.purgatory.cancel(group.sync_operation)",
        "        pass",
    ),
    Bug(
        "an id given out never expires",
        "core.groups.classic.join_group",
        "        group.purgatory.schedule(pending, now_ms + request.session_timeout_ms)\n",
        "",
    ),
    Bug(
        "an earlier deadline is lost",
        "core.groups.purgatory",
        "if queued_ms is None or deadline_ms < queued_ms:",
        "if queued_ms is None:",
        True,
    ),
    Bug(
        "timers run a millisecond late",
        "core.groups.purgatory",
        "while heap and heap[0][0] <= now_ms:",
        "while heap and heap[0][0] < now_ms:",
    ),
    Bug(
        "a new member never expires",
        "core.groups.classic.member",
        "return not self.is_new and (",
        "return (",
    ),
    Bug(
        "a parked member expires",
        "core.groups.classic.member",
        "return not self.is_new and (",
        "return self.is_new and (",
    ),
    Bug(
        "no timers after loading",
        "core.groups.classic.lifecycle",
        "        group.renew_session(member, now_ms)\n",
        "        pass\n",
    ),
    Bug(
        "the initial delay is not extended",
        "core.groups.classic.rebalance",
        "if not self.member_added or not self.remaining_ms:",
        "if True:",
    ),
    Bug(
        "the initial delay ends with the first join",
        "core.groups.classic.rebalance",
        '        """Return None: the initial delay never ends early."""\n        return None',
        "        return super().try_complete(group, now_ms, effects)",
    ),
]

ANSWERS = [
    Bug(
        "a SyncGroup is answered twice",
        "core.groups.classic.rebalance",
        "        effects.reply(reply, response)\n",
        "        effects.reply(reply, response)\n" * 2,
        True,
    ),
    Bug(
        "a parked SyncGroup is never answered",
        "core.groups.classic.rebalance",
        "        effects.reply(reply, response)\n",
        "",
    ),
    Bug(
        "a rebalance forgets the parked SyncGroups",
        "core.groups.classic.rebalance",
        "        drop_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, effects)\n",
        "        pass\n",
    ),
    Bug(
        "a parked SyncGroup dies with the group",
        "core.groups.classic.lifecycle",
        "if member.awaiting_sync is not None:",
        "if False:",
    ),
    Bug(
        "a commit is answered before the append",
        "core.groups.offset_commit",
        "    effects.write(records, done, producer)\n",
        "    effects.write(records, None, producer)\n"
        "    effects.reply(reply, _response(request, ErrorCode.NONE, too_long))\n",
        True,
    ),
    Bug(
        "an assignment is given out before the append",
        "core.groups.classic.sync_group",
        "    effects.write([group.record(assignments)], done)\n",
        "    effects.write([group.record(assignments)])\n"
        "    done(ErrorCode.NONE, group.state_timestamp_ms or 0, effects)\n",
    ),
    Bug(
        "commits are accepted in CompletingRebalance",
        "core.groups.classic.state",
        "    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,\n",
        "    COMPLETING_REBALANCE: ErrorCode.NONE,\n",
    ),
    Bug(
        "SyncGroup is answered in PreparingRebalance",
        "core.groups.classic.state",
        "REBALANCE_IN_PROGRESS,\n    COMPLETING_REBALANCE: None,",
        "NONE,\n    COMPLETING_REBALANCE: None,",
        True,
    ),
    Bug(
        "heartbeats do not tell of a rebalance",
        "core.groups.classic.state",
        "REBALANCE_IN_PROGRESS,\n    COMPLETING_REBALANCE: ErrorCode.NONE,",
        "NONE,\n    COMPLETING_REBALANCE: ErrorCode.NONE,",
    ),
    Bug(
        "followers are shown the members",
        "core.groups.classic.join_group",
        "show_members = is_leader and state is COMPLETING_REBALANCE",
        "show_members = state is COMPLETING_REBALANCE",
    ),
    Bug(
        "a SyncGroup for another protocol is accepted",
        "core.groups.classic.sync_group",
        "return requested is not None and actual is not None and requested != actual",
        "return False",
    ),
    Bug(
        "a failed append is told as another error",
        "protocol.coordinator_errors",
        "ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE",
        "ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_COORDINATOR",
    ),
]

MEMBERS = [
    Bug(
        "nobody leads after the leader has left",
        "core.groups.classic.membership",
        "next(iter(self.members), None)",
        "None",
    ),
    Bug(
        "the newest member leads after the leader has left",
        "core.groups.classic.membership",
        "next(iter(self.members), None)",
        "next(reversed(self.members), None)",
        True,
    ),
    Bug(
        "a leader that has not rejoined leads on",
        "core.groups.classic.membership",
        "if self.members[self.leader_id].awaiting_join is not None:",
        "if self.leader_id in self.members:",
    ),
    Bug(
        "the leader's rejoin starts no rebalance",
        "core.groups.classic.join_group",
        "if state is STABLE and is_leader:",
        "if state is STABLE and is_leader and changed:",
    ),
    Bug(
        "the least wanted protocol wins",
        "core.groups.classic.membership",
        "return max(votes,",
        "return min(votes,",
    ),
    Bug(
        "ids given out are forgotten by the join phase",
        "core.groups.classic.membership",
        " and not self.pending",
        "",
        True,
    ),
    Bug(
        "a parked JoinGroup counts for ever",
        "core.groups.classic.membership",
        "self.awaiting_join -= 1",
        "pass",
    ),
    Bug(
        "members that have not rejoined stay",
        "core.groups.classic.rebalance",
        "if member.awaiting_join is None and not member.is_static",
        "if member.awaiting_join is None and member.is_static",
    ),
    Bug(
        "group.max.size is off by one",
        "core.groups.classic.join_group",
        "len(membership.members) < group.settings.max_size",
        "len(membership.members) <= group.settings.max_size",
    ),
    Bug(
        "group.max.size is off by one while members join",
        "core.groups.classic.join_group",
        "membership.awaiting_join < group.settings.max_size",
        "membership.awaiting_join <= group.settings.max_size",
    ),
    Bug(
        "the former self of a static member is not fenced",
        "core.groups.classic.metadata",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "return ErrorCode.NONE",
        True,
    ),
    Bug(
        "what the former self has parked is not answered",
        "core.groups.classic.join_group",
        "    _fence(group, member, effects)\n",
        "",
    ),
    Bug(
        "a static member keeps an id that is not recorded",
        "core.groups.classic.join_group",
        "        _rename(group, member, old_member_id)\n",
        "",
    ),
    Bug(
        "the instance id of a member that left stays taken",
        "core.groups.classic.membership",
        "            del self.static_ids[member.group_instance_id]\n",
        "            pass\n",
    ),
]

THE_LOG = [
    Bug(
        "records are replayed though the append failed",
        "core.groups.driver",
        "    if error is ErrorCode.NONE:\n        for write, of_write in zip(",
        "    if True:\n        for write, of_write in zip(",
    ),
    Bug(
        "a deleted group has no tombstone",
        "core.groups.delete_groups",
        "    records += group.tombstones()\n",
        "",
    ),
    Bug(
        "a deleted group leaves an offset",
        "core.groups.delete_groups",
        "        for partition in offsets.partitions_of(topic):\n",
        "        for partition in sorted(offsets.partitions_of(topic))[1:]:\n",
        True,
    ),
    Bug(
        "a tombstone is not replayed",
        "core.groups.offsets",
        "partitions.pop(partition, None)",
        "pass",
    ),
    Bug(
        "the leader's second SyncGroup is recorded",
        "core.groups.classic.sync_group",
        "if is_leader and group.assignment_in_flight != group.generation_id:",
        "if is_leader:",
    ),
    Bug(
        "a leave that could not be recorded succeeds",
        "core.groups.classic.leave_group",
        "        if error is ErrorCode.NONE:\n            effects.reply(reply, answer)",
        "        if True:\n            effects.reply(reply, answer)",
    ),
    Bug(
        "an oversized commit spoils the others of its batch",
        "core.groups.driver",
        "if error in TOO_LARGE and len(run) > 1:",
        "if error in TOO_LARGE and not run:",
    ),
    Bug(
        "offsets expire a millisecond late",
        "core.groups.retention",
        "return now_ms - group.expiry_starts_ms(stored) >= group",
        "return now_ms - group.expiry_starts_ms(stored) > group",
        True,
    ),
    Bug(
        "offsets of an Empty group expire by the time of their commit",
        "core.groups.classic.metadata",
        "            return self.state_timestamp_ms\n",
        "            pass\n",
    ),
    Bug(
        "offsets of subscribed topics expire",
        "core.groups.retention",
        "if group.is_subscribed(topic):",
        "if group.is_subscribed(topic) and not partitions:",
    ),
    Bug(
        "a retention of its own is forgotten",
        "core.groups.offset_commit",
        "expire_ms = -1 if retention_ms == NO_RETENTION else _java_long(now_ms + retention_ms)",
        "expire_ms = -1",
    ),
]

THE_TASK = [
    Bug(
        "a failed sync changes answers that do not depend on it, in place",
        "coordinator.task",
        "                held, effects.replies_to_writes = effects.replies_to_writes, []\n",
        "                held = effects.replies_to_writes + effects.replies\n"
        "                effects.replies, effects.replies_to_writes = [], []\n",
        True,
    ),
    Bug(
        "an answer does not wait for the sync of its records",
        "coordinator.task",
        "            if self.partition.flush_is_due:\n",
        "            if False:\n",
    ),
    Bug(
        "a failed sync is told to no client",
        "coordinator.task",
        "            if error is None:\n                reply.send()",
        "            if True:\n                reply.send()",
    ),
    Bug(
        "a deletion shares its drain with what came before it",
        "coordinator.task",
        "        self._settle(now_ms, is_last=False)\n        self._apply(operation, now_ms)\n",
        "        self._apply(operation, now_ms)\n",
    ),
    Bug(
        "what comes after a deletion meets the dead group",
        "coordinator.task",
        "        self._settle(now_ms)\n"
        "        if self.group.is_dead:\n"
        "            self._hand_back()\n"
        "\n    def _apply",
        "        self._settle(now_ms)\n\n    def _apply",
    ),
    Bug(
        "a bug takes the requests before it along",
        "coordinator.task",
        "            effects.rewind(before)\n            self._settle(now_ms)\n",
        "            effects.rewind((0, 0, 0, 0))\n",
    ),
    Bug(
        "a group that exists is served whatever its id",
        "coordinator.group_coordinator",
        "        if api.validate is not None:\n",
        "        if api.validate is not None and request.group_id not in self.tasks:\n",
    ),
    Bug(
        "any request makes a group",
        "coordinator.group_coordinator",
        "            if api.creates_group is None or not api.creates_group(request):\n",
        "            if False:\n",
    ),
]

BUGS: list[Bug] = [
    *GENERATIONS,
    *TIMERS,
    *ANSWERS,
    *MEMBERS,
    *THE_LOG,
    *THE_TASK,
    *TRANSACTION_BUGS,
    *CONSUMER_BUGS,
    *SHARE_BUGS,
    *SHARE_MEMBER_BUGS,
    *STREAMS_BUGS,
]
