"""Deliberate bugs in consumer groups, which the simulation of consumer groups has to see."""

from __future__ import annotations

from tests.sim.bug import Bug

WORLD = "tests.sim --kind consumer"


def _bug(name: str, module: str, fragment: str, replacement: str, *, is_quick: bool = False) -> Bug:
    where = module if "." in module else f"consumer.{module}"
    return Bug(name, f"core.groups.{where}", fragment, replacement, is_quick, WORLD)


CONSUMER_BUGS = [
    _bug(
        "a partition that another member holds is given away",
        "reconcile",
        "        return self.is_owned(topic_id, partition) and partition not in",
        "        return False and partition not in",
        is_quick=True,
    ),
    _bug(
        "what a member has to give up counts as free at once",
        "member",
        "for owned in (self.assigned, self.revoking):\n            for topic_id, partitions in "
        "owned.items():\n                more",
        "for owned in (self.assigned,):\n            for topic_id, partitions in "
        "owned.items():\n                more",
    ),
    _bug(
        "a member moves on before it has given up",
        "reconcile",
        "            if self._still_owns(current.revoking):\n",
        "            if False:\n",
    ),
    _bug(
        "a member that does not say what it owns has given up",
        "reconcile",
        "return self.listed is None or holds_any(revoking, self.listed)",
        "return self.listed is not None and holds_any(revoking, self.listed)",
    ),
    _bug(
        "a member that waits for a partition counts as stable",
        "reconcile",
        "MemberState.UNRELEASED_PARTITIONS if has_to_wait else MemberState.STABLE",
        "MemberState.STABLE",
    ),
    _bug(
        "a topic that a member gives up is not taken from it",
        "reconcile",
        "readable = wanted if topic_id in subscribed else frozenset()",
        "readable = wanted if topic_id in subscribed else frozenset(owned)",
    ),
    _bug(
        "any epoch of the past is accepted",
        "modern.members",
        "if received == epoch or (is_lost_answer and not is_larger):",
        "if not is_larger:",
    ),
    _bug(
        "a member whose answer was lost is fenced",
        "heartbeat",
        "            and holds_all(current.assigned, listed)\n",
        "            and not listed\n",
    ),
    _bug(
        "a new assignment is not told",
        "heartbeat",
        "if self._is_joining or self._is_full or moved.assigned != current.assigned:",
        "if self._is_joining or self._is_full:",
        is_quick=True,
    ),
    _bug(
        "the instance id of a member that is there can be taken over",
        "heartbeat",
        "if owner.classic is None and not is_away:",
        "if False:",
    ),
    _bug(
        "a static member that is away loses its partitions",
        "steps",
        "target = group.targets.get(owner.member_id, {})",
        "target = {}",
    ),
    _bug(
        "a heartbeat of a consumer does not renew its session",
        "heartbeat",
        "        timers.renew_session(group, plan.member_id, now_ms)\n",
        "        if plan.member_id not in group.sessions:\n"
        "            timers.renew_session(group, plan.member_id, now_ms)\n",
    ),
    _bug(
        "no sessions after loading",
        "timers",
        "    for member_id in group.members:\n        renew_session(group, member_id, now_ms)\n",
        "    for member_id in group.members:\n",
    ),
    _bug(
        "nobody waits for partitions to be given up",
        "timers",
        "    if current.state is not MemberState.UNREVOKED_PARTITIONS:\n        return\n",
        "    if current.state is not MemberState.UNKNOWN:\n        return\n",
    ),
    _bug(
        "who leaves for a while has still to give up in time",
        "timers",
        "        if group.current(self.member_id).epoch != self.epoch:",
        "        if group.current(self.member_id).epoch not in (self.epoch, -2):",
    ),
    _bug(
        "after loading nobody waits for partitions to be given up",
        "timers",
        "        renew_session(group, member_id, now_ms)\n"
        "        watch_revocation(group, member_id, now_ms)\n",
        "        renew_session(group, member_id, now_ms)\n",
    ),
    _bug(
        "the epoch does not rise when a member goes",
        "leaving",
        "records.append(epoch_record(group_id, epoch, hashed))",
        "records.append(epoch_record(group_id, epoch - 1, hashed))",
    ),
    _bug(
        "a group that has lost its last member waits for an assignment",
        "leaving",
        "    if len(members) == group.member_count:\n",
        "    if not members:\n",
    ),
    _bug(
        "the target of a member that goes stays",
        "records",
        "        (ConsumerGroupTargetAssignmentMemberKey(**ids), None),\n",
        "",
    ),
    _bug(
        "a change of the topics goes unseen",
        "steps",
        "    if not bumps and revision == group.hashed_revision:",
        "    if not bumps:",
    ),
    _bug(
        "an expression matches for ever what it matched first",
        "subscriptions",
        "        or group.resolved_revision < group.environment.topics.created_revision\n",
        "",
    ),
    _bug(
        "the target is never computed a second time",
        "modern.modern_group",
        "return age_ms < 0 or age_ms >= shortest_ms",
        "return False",
    ),
    _bug(
        "a member of the classic protocol is not asked to rejoin",
        "classic_members",
        "    if current.epoch < group.assignment_epoch:\n        return True\n",
        "    if current.epoch < group.assignment_epoch:\n        return False\n",
    ),
    _bug(
        "an upgrade forgets what members own",
        "upgrade",
        "CurrentAssignment(generation, generation, assigned=owned)",
        "CurrentAssignment(generation, generation)",
    ),
    _bug(
        "an upgrade forgets who waits",
        "upgrade",
        "    _ask_to_rejoin(group, effects)\n    converted",
        "    converted",
    ),
    _bug(
        "a downgrade begins a generation of long ago",
        "downgrade",
        "classic.generation_id, classic.protocol_type = group.epoch, PROTOCOL_TYPE",
        "classic.generation_id, classic.protocol_type = 1, PROTOCOL_TYPE",
    ),
    _bug(
        "a commit with an epoch of the past is always taken",
        "consumer_group",
        "                if not holds_at(current, topic_id, one.partition_index, received):\n"
        "                    return stale\n",
        "                if not topic_id:\n                    return stale\n",
    ),
    _bug(
        "a partition that was given up stays taken",
        "consumer_group",
        "            if of_topic.get(partition) == member_id:\n",
        "            if of_topic.get(partition) == member_id and current is None:\n",
    ),
]
