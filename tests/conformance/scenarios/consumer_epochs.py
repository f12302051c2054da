"""Member epochs: which ones a heartbeat may have in which state, and when members are fenced."""

from __future__ import annotations

from tests.conformance.consumer_members import (
    ConsumerMember,
    Owned,
    listed,
    look,
    members,
    reach,
    settle,
    silently,
    stable,
    statics,
    wait_for_members,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_epochs", "d")

OWNED = ["unsaid", "nothing", "a part", "all", "too much", "others"]


def owned_as(t: Stage, member: ConsumerMember, case: str) -> Owned | None:
    """Return the partitions that a heartbeat reports as owned, by case."""
    indexes = member.owned.get(t.t3, [])
    return {
        "unsaid": None,
        "nothing": {},
        "a part": {t.t3: indexes[:1]},
        "all": {t.t3: indexes},
        "too much": {t.t3: [*indexes, 9]},
        "others": {t.t1: [0]},
    }[case]


@AREA.each(owned=OWNED, distance=[1, 2])
def earlier_epoch(t: Stage, owned: str, distance: int) -> None:
    """Member A sends an epoch {distance} below its own, with its partitions: {owned}."""
    a, b = members(t, "AB")
    stable(t, a, b)
    a.subscribe(t.t3, "no-such-topic")
    settle(t, a, b)
    wanted = owned_as(t, a, owned)
    a.beat("beats", owned=wanted, member_epoch=a.epoch - distance)
    a.beat("beats with its own")
    look(t)


@AREA.each(owned=["unsaid", "nothing", "all"], more=[1, 1000])
def later_epoch(t: Stage, owned: str, more: int) -> None:
    """Member A sends an epoch {more} above its own, with its partitions: {owned}."""
    a, b = members(t, "AB")
    stable(t, a, b)
    a.beat("beats", owned=owned_as(t, a, owned), member_epoch=a.epoch + more)
    a.beat("beats with its own")
    b.beat()
    look(t)


@AREA.each(owned=OWNED)
def earlier_epoch_of_a_lone_member(t: Stage, owned: str) -> None:
    """A lone member has the previous epoch 0 and sends 1; its partitions: {owned}."""
    a = ConsumerMember(t, "A").joined()
    a.beat("beats with 1", owned=owned_as(t, a, owned), member_epoch=1)
    a.beat("beats with its own")
    a.join("joins again")


@AREA.each(owned=["unsaid", "nothing", "all that is left", "all that it had"])
def epoch_while_revoking(t: Stage, owned: str) -> None:
    """Member A must revoke and sends its previous epoch, 0, or other epochs; owned: {owned}."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join()
    had = dict(a.owned)
    a.beat("learns of it")
    lists: dict[str, Owned | None] = {
        "unsaid": None,
        "nothing": {},
        "all that is left": a.owned,
        "all that it had": had,
    }
    for epoch in (a.epoch - 1, a.epoch + 1):
        a.beat(f"beats with {epoch}", owned=lists[owned], member_epoch=epoch, adopt=False)
    a.beat("beats with its own", owned=lists[owned], adopt=False)
    look(t)


@AREA.each(owned=["nothing", "what it was told", "unsaid"])
def lost_answer(t: Stage, owned: str) -> None:
    """The response with A's new epoch is lost, and A sends the old epoch; owned: {owned}."""
    a, b = members(t, "AB")
    stable(t, a, b)
    before, had = a.epoch, dict(a.owned)
    b.leave()
    a.beat("is told, but does not hear", adopt=False)
    lists: dict[str, Owned | None] = {"nothing": {}, "what it was told": had, "unsaid": None}
    a.beat("asks again", owned=lists[owned], member_epoch=before)
    a.beat("says everything", **{**a.joining, "member_epoch": before}, owned=had)
    look(t)


@AREA.scenario
def lost_answer_to_a_join(t: Stage) -> None:
    """The answer to a join is lost, and the member joins again, twice."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join(adopt=False)
    b.join("joins again", adopt=False)
    a.beat()
    a.ack()
    b.join("joins once more")
    b.ack()
    look(t)


@AREA.scenario
def lost_answer_after_a_revocation(t: Stage) -> None:
    """The answer after A's revocation is lost, and A reports the revocation again."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join()
    a.beat("learns of it")
    a.ack("has revoked, does not hear", adopt=False)
    a.ack("has revoked, says so again", adopt=False)
    a.beat("beats without partitions", adopt=False)
    a.full("says everything")
    b.beat()
    look(t)


@AREA.each(who=["dynamic", "static"])
def leaving_epochs(t: Stage, who: str) -> None:
    """A {who} member leaves with -1; later requests are refused. -2 needs an instance id."""
    if who == "static":
        a, b = statics(t, "AB")
    else:
        a, b = members(t, "AB")
    stable(t, a, b)
    if who == "dynamic":
        a.leave_for_a_while()
    a.leave()
    a.leave("leaves again")
    a.leave_for_a_while()
    a.beat()
    a.full()
    look(t)
    a.join("joins again")
    look(t)


@AREA.each(fields=["everything", "owned partitions", "an unknown assignor", "no rebalance timeout"])
def leaving_with(t: Stage, fields: str) -> None:
    """The request of a leaving member also has {fields}."""
    a, b = members(t, "AB")
    stable(t, a, b)
    if fields == "everything":
        a.full("leaves", member_epoch=-1, adopt=False)
    elif fields == "owned partitions":
        a.own(a.owned, "leaves", member_epoch=-1, adopt=False)
    elif fields == "an unknown assignor":
        a.leave(server_assignor="sticky")
    else:
        a.leave(rebalance_timeout_ms=-1, subscribed_topic_names=[])
    b.beat()
    look(t)


@AREA.each(state=["Stable", "Reconciling", "Assigning"])
def last_one_leaves_in(t: Stage, state: str) -> None:
    """All members leave a group that was {state}: the group is Empty with a new epoch."""
    a, b = members(t, "AB")
    reach(t, state, a, b)
    a.leave()
    look(t)
    if state == "Reconciling":
        b.leave()
        look(t)
    listed(t)
    x = ConsumerMember(t, "X")
    x.join()
    x.beat("is the only one")
    look(t)


@AREA.scenario
def epochs_of_a_long_life(t: Stage) -> None:
    """Every join, leave and change of topics raises the group epoch by one."""
    a, b = members(t, "AB")
    a.join()
    look(t, "A joined")
    b.join()
    look(t, "B joined")
    settle(t, a, b)
    look(t, "settled")
    b.subscribe(t.t1)
    look(t, "B changed its topics")
    settle(t, a, b)
    b.leave()
    look(t, "B left")
    a.beat()
    look(t, "A knows")
    a.leave()
    look(t, "A left")


@AREA.scenario
def epoch_goes_on_after_empty(t: Stage) -> None:
    """The group epoch continues over several times in state Empty."""
    for name in "ABC":
        member = ConsumerMember(t, name)
        member.join()
        member.leave()
        look(t)


@AREA.scenario
def deleted_and_made_anew(t: Stage) -> None:
    """After DeleteGroups epochs start again, and the former member is unknown."""
    a = ConsumerMember(t, "A").joined()
    a.leave()
    t.delete_groups()
    listed(t)
    a.beat()
    b = ConsumerMember(t, "B")
    b.join()
    look(t)


@AREA.scenario
def two_groups_do_not_know_each_other(t: Stage) -> None:
    """The same member id has separate epochs in two groups."""
    other = t.group("other")
    a = ConsumerMember(t, "A")
    b = ConsumerMember(t, "A", group=other)
    a.join()
    b.join("joins the other group")
    a.subscribe(t.t1)
    look(t)
    look(t, "other group", other)
    a.leave()
    b.beat("beats in the other group")
    look(t)
    look(t, "other group", other)


@AREA.each(first=["A", "B", "C"])
def one_of_three_leaves(t: Stage, first: str) -> None:
    """{first} of three members leaves; the others get its partitions."""
    group = members(t, "ABC")
    stable(t, *group)
    look(t)
    for member in group:
        if member.name == first:
            member.leave()
    look(t)
    rest = [member for member in group if member.name != first]
    for member in rest:
        member.ack()
    for member in rest:
        member.ack()
    look(t)


@AREA.scenario
def leaves_without_having_heard(t: Stage) -> None:
    """Member B leaves before it gets partitions, and A continues to revoke."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join()
    a.beat("learns of it")
    b.leave()
    look(t)
    a.ack("has revoked")
    a.ack()
    look(t)


@AREA.scenario
def owner_leaves_before_it_has_revoked(t: Stage) -> None:
    """Member A leaves while it must revoke a partition for B: A's partitions are free at once."""
    a, b = members(t, "AB")
    stable(t, a)
    b.join()
    a.beat("learns of it")
    a.leave()
    b.beat()
    b.ack()
    look(t)


@AREA.scenario
def all_three_leave_at_once(t: Stage) -> None:
    """Three members leave without a heartbeat between: three epochs, and no new target."""
    group = members(t, "ABC")
    stable(t, *group)
    for member in group:
        member.leave()
        look(t)
    silently(t, ConsumerMember(t, "D").join)
    wait_for_members(t, "D")
    look(t)
