"""Reconciliation with a new target: who revokes, who waits, and when epochs change."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    balance,
    look,
    members,
    settle,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_reconciliation", "d")


@AREA.scenario
def second_member_step_by_step(t: Stage) -> None:
    """Member B joins A's group and waits; A revokes and confirms, and B gets its share."""
    a, b = members(t, "AB")
    a.join()
    look(t)
    b.join()
    look(t)
    b.beat("waits")
    a.beat("is asked to revoke")
    look(t)
    b.beat("waits")
    a.beat("has not revoked yet")
    a.ack("has revoked")
    look(t)
    b.beat("is given its share")
    look(t)
    b.ack()
    look(t)


@AREA.scenario
def three_members_step_by_step(t: Stage) -> None:
    """Members B and C join A's group at once: A revokes one partition for each of them."""
    a, b, c = members(t, "ABC")
    a.join()
    b.join()
    c.join()
    look(t)
    a.beat()
    look(t)
    a.ack()
    look(t)
    c.beat()
    look(t)
    b.beat()
    look(t)


@AREA.scenario
def four_members_and_three_partitions(t: Stage) -> None:
    """Of four members for three partitions, the last one has none until another leaves."""
    group = members(t, "ABCD")
    stable(t, *group)
    look(t)
    group[0].leave()
    for member in group[1:]:
        member.ack()
    look(t)
    for member in group[1:]:
        member.ack()
    look(t)


@AREA.each(size=[2, 3, 4])
def everyone_ends_with_a_share(t: Stage, size: int) -> None:
    """The `uniform` shares of {size} members of <t3> and <tx> differ by at most one partition."""
    group = members(t, "ABCD"[:size], [t.t3, t.tx], assignor="uniform")
    stable(t, *group)
    balance(t, *group)
    silently(t, group[-1].leave)
    settle(t, *group[:-1])
    balance(t, *group[:-1], label="after one has left")


@AREA.scenario
def uniform_moves_as_little_as_it_can(t: Stage) -> None:
    """The `uniform` assignor does not swap partitions between members."""
    a, b, c = members(t, "ABC", [t.t3, t.tx, t.t1], assignor="uniform")
    stable(t, a, b)
    before = [_partitions(member) for member in (a, b)]
    silently(t, c.join)
    settle(t, a, b, c)
    after = [_partitions(member) for member in (a, b)]
    t.rec("kept", [len(old & new) for old, new in zip(before, after, strict=True)])
    balance(t, a, b, c)
    silently(t, c.leave)
    settle(t, a, b)
    last = [_partitions(member) for member in (a, b)]
    t.rec("kept at last", [len(old & new) for old, new in zip(after, last, strict=True)])


def _partitions(member: ConsumerMember) -> set[tuple[str, int]]:
    return {(topic, index) for topic, indexes in member.owned.items() for index in indexes}


REVOKING = [
    "unsaid",
    "nothing",
    "what it keeps",
    "all that it had",
    "only what it has to give up",
    "a part of what it keeps",
    "other partitions",
    "unknown topic",
]


@AREA.each(owned=REVOKING)
def owned_while_revoking(t: Stage, owned: str) -> None:
    """Member A must revoke <t3>-2 and reports as owned: {owned}. Does B get <t3>-2?"""
    a, b = members(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    lists = {
        "unsaid": None,
        "nothing": {},
        "what it keeps": {t.t3: [0, 1]},
        "all that it had": {t.t3: [0, 1, 2]},
        "only what it has to give up": {t.t3: [2]},
        "a part of what it keeps": {t.t3: [0]},
        "other partitions": {t.t1: [0], t.tx: [1]},
        "unknown topic": {"?": [2]},
    }
    a.beat("says what it owns", owned=lists[owned])
    b.beat()
    look(t)
    a.beat()
    look(t)


@AREA.each(owned=["unsaid", "nothing", "all that it had", "what it will keep"])
def owned_when_the_target_changes(t: Stage, owned: str) -> None:
    """Member A does not know the new target yet and reports as owned: {owned}."""
    a, b = members(t, "AB")
    stable(t, a)
    silently(t, b.join)
    lists = {
        "unsaid": None,
        "nothing": {},
        "all that it had": {t.t3: [0, 1, 2]},
        "what it will keep": {t.t3: [0, 1]},
    }
    a.beat("says what it owns", owned=lists[owned])
    look(t)
    b.beat()
    look(t)


@AREA.scenario
def partly_revoked(t: Stage) -> None:
    """Member A revokes two partitions one by one: no partition is free before both are revoked."""
    a, b, c = members(t, "ABC")
    stable(t, a)
    silently(t, b.join)
    silently(t, c.join)
    a.beat("is asked to revoke two")
    a.own({t.t3: [0, 1, 2]})
    a.own({t.t3: [0, 2]}, "has revoked one")
    b.beat()
    c.beat()
    look(t)
    a.own({t.t3: [0]}, "has revoked both")
    b.beat()
    c.beat()
    look(t)


@AREA.scenario
def revoked_and_taken_back(t: Stage) -> None:
    """Member B leaves before A has revoked: A still revokes, then gets the partition again."""
    a, b = members(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    b.leave()
    a.beat("has not revoked")
    a.own({t.t3: [0, 1, 2]}, "still owns all")
    look(t)
    a.own({t.t3: [0, 1]}, "has revoked")
    look(t)
    a.ack()
    look(t)


@AREA.scenario
def released_to_one_who_left(t: Stage) -> None:
    """Member A revokes a partition for B, which has left: C gets the partition."""
    a, b, c = members(t, "ABC")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    c.join()
    b.leave()
    a.ack("has revoked for B and C")
    c.beat()
    a.beat()
    a.ack()
    c.beat()
    look(t)


@AREA.scenario
def target_changes_while_revoking(t: Stage) -> None:
    """Member C joins while A revokes for B: after this revocation A learns the rest."""
    a, b, c = members(t, "ABC")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    c.join()
    look(t)
    a.beat("has not revoked")
    look(t)
    a.ack("has revoked the first")
    look(t)
    a.ack("has revoked the second")
    b.beat()
    c.beat()
    look(t)


@AREA.scenario
def target_changes_while_waiting(t: Stage) -> None:
    """Member C joins while B waits for A's partition: B gets the new epoch with its new share."""
    a, b, c = members(t, "ABC")
    stable(t, a)
    b.join()
    c.join()
    b.beat("waits, in the new epoch")
    look(t)
    a.beat()
    a.ack()
    b.beat()
    c.beat()
    look(t)


@AREA.scenario
def waiting_for_two(t: Stage) -> None:
    """Member C waits for partitions of A and B, and gets each partition as soon as it is free."""
    a, b = members(t, "AB", [t.t3, t.tx])
    c = ConsumerMember(t, "C", [t.t3, t.tx], member_id="member-0")  # C gets the first partitions
    stable(t, a, b)
    look(t)
    c.join()
    look(t)
    a.beat()
    b.beat()
    look(t)
    b.ack("has revoked")
    c.beat()
    look(t)
    a.ack("has revoked")
    c.beat()
    a.beat()
    b.beat()
    look(t)


@AREA.scenario
def epochs_of_those_who_lose_nothing(t: Stage) -> None:
    """A member with an unchanged share moves to the new epoch with its next heartbeat."""
    a, b = members(t, "AB", [t.t1])
    stable(t, a, b)
    look(t)
    c = ConsumerMember(t, "C", [t.t3])
    c.join()
    look(t)
    a.beat()
    b.beat()
    look(t)


CHANGES = ["fewer", "more", "others", "nothing"]


@AREA.each(change=CHANGES)
def subscription_changes(t: Stage, change: str) -> None:
    """Member A, one of two members with <t3> and <tx>, subscribes to {change}."""
    a, b = members(t, "AB", [t.t3, t.tx])
    stable(t, a, b)
    a.subscribe(*_topics(t, change))
    look(t)
    a.ack()
    b.ack()
    look(t)
    b.ack()
    a.ack()
    look(t)


@AREA.each(change=CHANGES, owned=["unsaid", "listed"])
def subscription_changes_while_revoking(t: Stage, change: str, owned: str) -> None:
    """Member A subscribes to {change} while it must revoke for B; its partitions are {owned}."""
    a, b = members(t, "AB", [t.t3, t.tx])
    stable(t, a)
    silently(t, b.join)
    had = dict(a.owned)
    a.beat("is asked to revoke")
    a.subscribe(*_topics(t, change), owned=had if owned == "listed" else None)
    look(t)
    a.ack("owns what it was told")
    a.ack("owns what it was told then")
    b.beat()
    look(t)


@AREA.each(change=CHANGES)
def subscription_changes_while_waiting(t: Stage, change: str) -> None:
    """Member B subscribes to {change} while it waits for partitions of A."""
    a, b = members(t, "AB", [t.t3, t.tx])
    stable(t, a)
    b.join()
    b.subscribe(*_topics(t, change))
    look(t)
    a.ack()
    a.ack()
    b.ack()
    b.ack()
    look(t)


def _topics(t: Stage, change: str) -> list[str]:
    return {
        "fewer": [t.tx],
        "more": [t.t1, t.t3, t.tx],
        "others": [t.t1],
        "nothing": [],
    }[change]


@AREA.scenario
def subscription_and_epoch_0(t: Stage) -> None:
    """A member that must revoke joins again with epoch 0, and so without partitions."""
    a, b = members(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    a.join("joins again")
    b.beat()
    look(t)


@AREA.scenario
def waiting_member_joins_again(t: Stage) -> None:
    """A waiting member joins again with epoch 0."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join()
    b.join("joins again")
    look(t)
    a.beat()
    a.ack()
    b.join("joins once more")
    look(t)


@AREA.scenario
def nobody_has_what_is_asked_for(t: Stage) -> None:
    """Members of different topics do not wait for each other."""
    a, b = ConsumerMember(t, "A", [t.t1]), ConsumerMember(t, "B", [t.tx])
    a.join()
    b.join()
    look(t)
    a.beat()
    look(t)


@AREA.scenario
def members_with_overlapping_topics(t: Stage) -> None:
    """With `range`, member A subscribes to <t1> and <t3>, member B to <t3> and <tx>."""
    a, b = ConsumerMember(t, "A", [t.t1, t.t3]), ConsumerMember(t, "B", [t.t3, t.tx])
    a.join()
    b.join()
    a.beat()
    a.ack()
    b.beat()
    look(t)
    a.leave()
    b.beat()
    look(t)


@AREA.scenario
def static_members_before_others(t: Stage) -> None:
    """`range` assigns to static members first, by instance id, then to others by member id."""
    a, b = statics(t, "AB")
    c = ConsumerMember(t, "0", member_id="a-first")
    t.name_it(c.id, "C")
    for member in (c, b, a):
        silently(t, member.join)
    settle(t, a, b, c)
    look(t)
