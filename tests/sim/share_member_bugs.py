"""Deliberate bugs in share groups, which the simulation of their members has to see."""

from __future__ import annotations

from tests.sim.bug import Bug

WORLD = "tests.sim --kind share-members"


def _bug(name: str, module: str, fragment: str, replacement: str, *, is_quick: bool = False) -> Bug:
    return Bug(name, f"core.groups.{module}", fragment, replacement, is_quick, WORLD)


SHARE_MEMBER_BUGS = [
    _bug(
        "any epoch of the past of a member is accepted in share groups",
        "modern.members",
        "if received == epoch or (is_lost_answer and not is_larger):",
        "if not is_larger:",
    ),
    _bug(
        "the epoch before is not accepted in share groups",
        "share.heartbeat",
        "is_lost_answer=received == current.previous_epoch,",
        "is_lost_answer=False,",
    ),
    _bug(
        "a share group that has lost its last member waits for an assignment",
        "share.leaving",
        "    if group.member_count == 1:\n",
        "    if group.member_count == 0:\n",
    ),
    _bug(
        "new partitions are not told in share groups",
        "share.heartbeat",
        "if is_full or moved.assigned != current.assigned:",
        "if is_full:",
        is_quick=True,
    ),
    _bug(
        "a share group takes one member too many",
        "modern.members",
        "if len(group.members) >= limit and",
        "if len(group.members) > limit and",
    ),
    _bug(
        "a member of a share group reads on from what it does not ask for any more",
        "share.heartbeat",
        "for one in target.partitions if one in known}",
        "for one in target.partitions}",
    ),
    _bug(
        "what was initialized is not assigned",
        "share.heartbeat",
        "            bumps = bumps or group.has_unassigned\n",
        "            bumps = bumps or False\n",
    ),
    _bug(
        "a change of topics goes unseen in share groups",
        "share.heartbeat",
        "        if not bumps and revision == group.hashed_revision:",
        "        if not bumps:",
    ),
    _bug(
        "only the member that asks gets a new target",
        "share.target",
        "        if target != group.targets.get(one):",
        "        if one == member_id and target != group.targets.get(one):",
    ),
    _bug(
        "partitions without a state are assigned",
        "share.target",
        "        assignable={one: topic.partitions for one, topic in initialized.items()},",
        "        assignable={one: frozenset(range(counts[one])) for one in counts}\n"
        "        if initialized\n        else {},",
    ),
    _bug(
        "what the share coordinator has begun is forgotten",
        "share.initialize",
        "            write_initialized(group, self.partitions, effects)\n            return\n",
        "            return\n",
    ),
    _bug(
        "what the share coordinator refused counts as begun",
        "share.initialize",
        "        if not errors:\n            write_init",
        "        if True:\n            write_init",
    ),
    _bug(
        "partitions that a topic gets later are not initialized",
        "share.partitions",
        "        if known is None or len(known.partitions) < count:",
        "        if known is None:",
    ),
    _bug(
        "members without a partition where there are more of them",
        "share.assignors.simple",
        "    sharing = -(-len(readers) // len(targets)) if targets else 0",
        "    sharing = len(readers) // len(targets) if targets else 0",
        is_quick=True,
    ),
    _bug(
        "sessions of a share group are not renewed",
        "share.timers",
        "    renew(group, ShareMemberSession, member_id, now_ms + config(group, SESSION_TIMEOUT))",
        "    if member_id not in group.sessions:\n"
        "        renew(group, ShareMemberSession, member_id, "
        "now_ms + config(group, SESSION_TIMEOUT))",
    ),
    _bug(
        "a broker that starts waits for no member of a share group",
        "share.timers",
        "        renew_session(group, member_id, now_ms)\n",
        "        pass\n",
    ),
    _bug(
        "a member of a share group whose end could not be written never goes",
        "share.timers",
        "effects.write(records, retried(group, self))",
        "effects.write(records)",
    ),
]
