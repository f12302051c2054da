"""Offsets of consumer groups: who may commit, fetch and delete them, by state and version."""

from __future__ import annotations

from typing import Any

from tests.conformance import group_settings
from tests.conformance.consumer_members import (
    ConsumerMember,
    look,
    members,
    reach,
    settle,
    silently,
    stable,
    statics,
)
from tests.conformance.consumer_offsets import commit, commit_of, fetch
from tests.conformance.producers import Producer
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_offsets", "d")

STATES = ["none", "Empty", "Stable", "Reconciling", "Assigning"]


def in_state(t: Stage, state: str) -> tuple[ConsumerMember, ConsumerMember]:
    """Return members A and B of a group in the state."""
    a, b = members(t, "AB")
    if state != "none":
        reach(t, state, a, b)
    return a, b


def identities(a: ConsumerMember) -> dict[str, dict[str, Any]]:
    """Return the identities with which a request may come."""
    return {
        "right": {"member_id": a.id, "epoch": a.epoch},
        "epoch + 1": {"member_id": a.id, "epoch": a.epoch + 1},
        "epoch - 1": {"member_id": a.id, "epoch": a.epoch - 1},
        "epoch 0": {"member_id": a.id, "epoch": 0},
        "epoch -1": {"member_id": a.id, "epoch": -1},
        "epoch -2": {"member_id": a.id, "epoch": -2},
        "unknown member": {"member_id": "member-z", "epoch": a.epoch},
        "no member, right epoch": {"member_id": "", "epoch": a.epoch},
        "no member, epoch 0": {"member_id": "", "epoch": 0},
        "no member, epoch -1": {"member_id": "", "epoch": -1},
    }


@AREA.each(state=STATES, version=[8, 9, 10])
def commits(t: Stage, state: str, version: int) -> None:
    """OffsetCommit {version} comes with many identities; the group is {state}."""
    a, _ = in_state(t, state)
    for number, (label, identity) in enumerate(identities(a).items()):
        commit(t, label, (t.t3, 0, number), version=version, **identity)
    t.offs()


@AREA.each(state=STATES, version=[8, 9, 10])
def fetches(t: Stage, state: str, version: int) -> None:
    """OffsetFetch {version} comes with many identities; the group is {state}."""
    a, _ = in_state(t, state)
    if state not in ("none", "Empty"):
        silently(t, commit_of, t, a, "", (t.t3, 0, 7))
    if version < 9:
        fetch(t, "of nobody", version=version)
        fetch(t, "all", version=version, topics=None)
        return
    for label, identity in identities(a).items():
        fetch(t, label, version=version, **identity)
    fetch(t, "null member", version=version)
    fetch(t, "all of A", version=version, member_id=a.id, epoch=a.epoch, topics=None)
    fetch(t, "all", version=version, topics=None)


@AREA.scenario
def null_member_with_an_epoch(t: Stage) -> None:
    """OffsetFetch comes with an epoch but no member: Kafka throws."""
    a, _ = in_state(t, "Stable")
    for version in (9, 10):
        for epoch in (a.epoch, 0):
            fetch(t, f"v{version}, epoch {epoch}", version=version, epoch=epoch)


@AREA.each(version=[2, 3, 4, 5, 6, 7, 8, 9, 10])
def commit_versions(t: Stage, version: int) -> None:
    """OffsetCommit {version} comes from a member, a stranger, and without a member id."""
    a, _ = in_state(t, "Stable")
    commit_of(t, a, "A", version=version)
    commit(t, "stranger", version=version, member_id="member-z", epoch=2)
    commit(t, "nobody", version=version)
    a.leave()
    commit(t, "nobody, of an empty group", version=version)
    commit_of(t, a, "A, who has left", version=version)
    t.offs()


@AREA.each(version=[1, 2, 5, 7, 8, 9, 10])
def fetch_versions(t: Stage, version: int) -> None:
    """OffsetFetch {version} of a consumer group."""
    a, _ = in_state(t, "Stable")
    commit_of(t, a, "commit", (t.t3, 0, 5), (t.t1, 0, 6))
    fetch(t, "some", version=version, topics=[(t.t3, [0, 1, 9]), (t.t1, [0])])
    if version >= 2:
        fetch(t, "all", version=version, topics=None)
    if version >= 7:
        fetch(t, "stable ones", version=version, require_stable=True)


@AREA.each(version=[3, 4, 5])
def txn_commits(t: Stage, version: int) -> None:
    """TxnOffsetCommit {version} comes with many identities."""
    a, _ = in_state(t, "Stable")
    protocol = 2 if version == 5 else 1
    p = Producer(t, "P", protocol).started()
    if protocol == 1:
        silently(t, p.add_offsets)
    for number, (label, identity) in enumerate(identities(a).items()):
        fields = {"member_id": identity["member_id"], "generation_id": identity["epoch"]}
        p.commit_offsets([(t.t3, 0, number)], label, version=version, **fields)
    p.commit_offsets(
        [(t.t3, 0, 50)],
        "other instance",
        version=version,
        member_id=a.id,
        generation_id=a.epoch,
        group_instance_id="i-Z",
    )
    fetch(t, "while it is open")
    fetch(t, "stable ones", require_stable=True)
    p.commit()
    t.offs()


@AREA.each(state=["none", "Empty", "Reconciling", "Assigning"])
def txn_commits_in(t: Stage, state: str) -> None:
    """TxnOffsetCommit 4 comes while the group is {state}."""
    a, _ = in_state(t, state)
    p = Producer(t, "P").started()
    silently(t, p.add_offsets)
    for number, (label, identity) in enumerate(identities(a).items()):
        fields = {"member_id": identity["member_id"], "generation_id": identity["epoch"]}
        p.commit_offsets([(t.t3, 0, number)], label, **fields)
    p.commit()
    t.offs()


# ---- assignment epochs of partitions (KIP-1251)


def three_epochs(t: Stage) -> tuple[ConsumerMember, ConsumerMember]:
    """Let A own <t3>-0 and <t3>-1 since epoch 2, <tx>-0 since 4; B <t3>-2 and <tx>-1 since 4."""
    a, b = members(t, "AB")
    stable(t, a, b)
    silently(t, a.subscribe, t.t3, t.tx)
    silently(t, b.subscribe, t.t3, t.tx)
    settle(t, a, b)
    look(t)
    return a, b


def all_partitions(t: Stage, offset: int) -> list[tuple[str, int, int]]:
    """Return every partition of <t3> and <tx> with one offset."""
    return [(t.t3, index, offset) for index in range(3)] + [
        (t.tx, index, offset) for index in (0, 1)
    ]


@AREA.each(epoch=[1, 2, 4, 5, 6])
def long_metadata_at_earlier_epochs(t: Stage, epoch: int) -> None:
    """A, at epoch 5, commits with epoch {epoch}, and with too long metadata for some partitions."""
    a, _ = three_epochs(t)
    first, second, not_own = ((t.t3, index, 4) for index in range(3))
    commit_of(t, a, "its own", first, epoch=epoch, too_long=[first])
    commit_of(t, a, "another's", not_own, epoch=epoch, too_long=[not_own])
    commit_of(t, a, "one of two", first, second, epoch=epoch, too_long=[first])
    commit_of(t, a, "own and another's", first, not_own, epoch=epoch, too_long=[not_own])
    commit_of(t, a, "another's and own", first, not_own, epoch=epoch, too_long=[first])


@AREA.each(epoch=[-1, 0, 1, 2, 3, 4, 5, 6])
def earlier_epochs_by_partition(t: Stage, epoch: int) -> None:
    """Member A, at epoch 5, commits with epoch {epoch}: one partition, several, and by topic id."""
    a, _ = three_epochs(t)
    for partition in all_partitions(t, 1):
        commit_of(t, a, "one alone", partition, epoch=epoch)
    own = [(t.t3, 0, 2), (t.t3, 1, 2), (t.tx, 0, 2)]
    commit_of(t, a, "its own", *own, epoch=epoch)
    commit_of(t, a, "all", *all_partitions(t, 3), epoch=epoch)
    commit_of(t, a, "one by id", (t.t3, 0, 4), epoch=epoch, version=10)
    commit_of(t, a, "all by id", *all_partitions(t, 5), epoch=epoch, version=10)
    t.offs()


@AREA.scenario
def partition_to_be_revoked(t: Stage) -> None:
    """Member A commits with old epochs for a partition before and after its revocation."""
    a, b = members(t, "AB")
    stable(t, a)
    silently(t, b.join)
    a.beat("is asked to revoke")
    for epoch in (1, 2, 3):
        commit_of(t, a, f"with epoch {epoch}", (t.t3, 0, 1), (t.t3, 2, 1), epoch=epoch)
    a.ack("has revoked")
    for epoch in (1, 2, 3, 4):
        commit_of(t, a, f"with epoch {epoch}", (t.t3, 0, 2), (t.t3, 2, 2), epoch=epoch)
    b.beat()
    for epoch in (2, 3):
        commit_of(t, b, f"B with epoch {epoch}", (t.t3, 0, 3), (t.t3, 2, 3), epoch=epoch)
    t.offs()


@AREA.scenario
def partition_that_came_back(t: Stage) -> None:
    """Member A revokes a partition and gets it again: only the later epoch counts."""
    a, b = members(t, "AB")
    stable(t, a, b)
    silently(t, b.leave)
    settle(t, a)
    look(t)
    for epoch in (2, 3, 4):
        commit_of(t, a, f"with epoch {epoch}", (t.t3, 0, 1), (t.t3, 2, 1), epoch=epoch)


@AREA.scenario
def unknown_topics_with_an_old_epoch(t: Stage) -> None:
    """A commit with an old epoch names topics and partitions that do not exist."""
    a = ConsumerMember(t, "A").joined()
    silently(t, a.subscribe, t.t3, "no-such")
    settle(t, a)
    for epoch in (1, 2, 3, 4):
        offsets = ((t.t3, 0, 1), (t.t3, 9, 1), ("no-such", 0, 1), (t.t1, 0, 1))
        commit_of(t, a, f"with epoch {epoch}", *offsets, epoch=epoch)
    commit_of(t, a, "by unknown id", ("no-such", 0, 1), (t.t3, 0, 1), epoch=2, version=10)
    t.offs()


@AREA.each(protocol=[1, 2])
def old_epochs_in_a_transaction(t: Stage, protocol: int) -> None:
    """TxnOffsetCommit of protocol v{protocol} comes with older epochs, one partition at a time."""
    a, _ = three_epochs(t)
    p = Producer(t, "P", protocol).started()
    if protocol == 1:
        silently(t, p.add_offsets)
    for epoch in (1, 2, 3, 4, 5, 6):
        fields: dict[str, Any] = {"member_id": a.id, "generation_id": epoch}
        for partition in ((t.t3, 0, epoch), (t.tx, 0, epoch), (t.tx, 1, epoch)):
            p.commit_offsets([partition], f"one, with epoch {epoch}", **fields)
        p.commit_offsets(all_partitions(t, epoch), f"all, with epoch {epoch}", **fields)
    p.commit()
    t.offs()


@AREA.scenario
def epochs_of_one_who_was_away(t: Stage) -> None:
    """A static member returns: its partitions count from epoch 0."""
    (a,) = statics(t, "A")
    stable(t, a)
    silently(t, a.subscribe, t.t3, "no-such")
    settle(t, a)
    for epoch in (1, 2):
        commit_of(t, a, f"with epoch {epoch}", epoch=epoch)
    a.leave_for_a_while()
    for epoch in (-2, -1, 0, 2, 3):
        commit_of(t, a, f"away, with epoch {epoch}", epoch=epoch)
    x = a.again("X", topics=[t.t3, "no-such"])
    x.join("comes back")
    for epoch in (0, 1, 2, 3, 4):
        commit_of(t, x, f"with epoch {epoch}", epoch=epoch)
    commit_of(t, a, "in the name of A")


@AREA.scenario
def epochs_while_a_target_is_awaited(t: Stage) -> None:
    """In an Assigning group the member epoch counts, not the group epoch."""
    group_settings.use(t, consumer_assignment_interval_ms=15000)
    a, b = members(t, "AB")
    silently(t, a.join)
    silently(t, b.join)
    for member in (a, b):
        for epoch in (1, 2, 3):
            commit_of(t, member, f"{member.name} with epoch {epoch}", epoch=epoch)
            label = f"{member.name} fetches with epoch {epoch}"
            fetch(t, label, member_id=member.id, epoch=epoch)


# ---- deletion


@AREA.each(state=STATES)
def offset_deletion(t: Stage, state: str) -> None:
    """OffsetDelete names subscribed, other and unknown topics; the group is {state}."""
    a, _ = in_state(t, state)
    if state == "none":
        t.delete_offsets((t.t3, 0))
        return
    if state == "Empty":
        commit(t, "commit", (t.t3, 0, 1), (t.t1, 0, 1))
    else:
        commit_of(t, a, "commit", (t.t3, 0, 1), (t.t1, 0, 1))
    t.delete_offsets((t.t3, 0), (t.t1, 0), (t.t1, 7), ("no-such", 0))
    t.offs()


@AREA.scenario
def offset_deletion_beside_a_regex(t: Stage) -> None:
    """OffsetDelete names a topic that a regular expression matches."""
    topic = t.topic(1, "one")
    t.coordinator_learns()
    a = ConsumerMember(t, "A", regex=f"{t.g}-.*")
    silently(t, a.join)
    commit_of(t, a, "commit", (topic, 0, 1))
    t.nap(0.4)
    settle(t, a)
    t.delete_offsets((topic, 0))
    t.offs()


@AREA.scenario
def offset_deletion_after_a_change_of_topics(t: Stage) -> None:
    """OffsetDelete names a topic without subscribers that A still owns."""
    a = ConsumerMember(t, "A", [t.t3, t.t1]).joined()
    commit_of(t, a, "commit", (t.t3, 0, 1), (t.t1, 0, 1))
    a.subscribe(t.t1)
    t.delete_offsets((t.t3, 0), (t.t1, 0))
    t.offs()


@AREA.each(state=STATES, version=[0, 2])
def group_deletion(t: Stage, state: str, version: int) -> None:
    """DeleteGroups {version} names a group that is {state}."""
    a, _ = in_state(t, state)
    if state == "Empty":
        commit(t, "commit", (t.t3, 0, 1))
    elif state != "none":
        commit_of(t, a, "commit", (t.t3, 0, 1))
    t.ask("DeleteGroups", version, {"groups_names": [t.g]})
    t.offs()
    look(t)


@AREA.scenario
def offsets_from_before_the_group(t: Stage) -> None:
    """A member finds the offsets committed before the group had members."""
    commit(t, "nobody", (t.t3, 0, 1))
    a = ConsumerMember(t, "A")
    a.join()
    fetch(t, "A fetches", member_id=a.id, epoch=a.epoch)
    commit(t, "nobody again", (t.t3, 0, 2))
    commit_of(t, a, "A commits", (t.t3, 0, 3))
    a.leave()
    commit(t, "nobody at last", (t.t3, 0, 4))
    t.offs()


@AREA.each(instance=["its own", "another", "unknown", "empty"])
def commits_with_instances(t: Stage, instance: str) -> None:
    """A static member commits with the instance id: {instance}."""
    a, b = statics(t, "AB")
    stable(t, a, b)
    instance_id = {"its own": "i-A", "another": "i-B", "unknown": "i-Z", "empty": ""}[instance]
    for version in (9, 10):
        commit_of(t, a, f"v{version}", version=version, instance_id=instance_id)
    commit(t, "nobody with an instance", instance_id=instance_id)
    t.offs()


@AREA.scenario
def fetches_of_two_members_in_one_request(t: Stage) -> None:
    """OffsetFetch 9 names two groups with their members, one with a wrong epoch."""
    other = t.group("other")
    a, b = ConsumerMember(t, "A"), ConsumerMember(t, "B", group=other)
    silently(t, a.join)
    silently(t, b.join)
    topics = [{"name": t.t3, "partition_indexes": [0]}]
    for label, epoch in (("right", b.epoch), ("wrong", b.epoch + 1)):
        groups = [
            {"group_id": t.g, "member_id": a.id, "member_epoch": a.epoch, "topics": topics},
            {"group_id": other, "member_id": b.id, "member_epoch": epoch, "topics": topics},
        ]
        t.ask("OffsetFetch", 9, {"groups": groups}, label)
