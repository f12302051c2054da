"""ConsumerGroupHeartbeat and ConsumerGroupDescribe with whole answers.

Profile A has a session timeout of 6000 ms, a heartbeat interval of 500 ms, and at most 4 members.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.offset_producers import OffsetProducer, settle
from tests.conformance.stage import Area, Stage
from tests.conformance.subscriptions import Raw, assignment
from tests.conformance.whole_consumers import WholeConsumer, settle_all, view

AREA = Area("consumer848")


@AREA.scenario
def join_v0_with_own_id(t: Stage) -> None:
    """A member joins with version 0 and its own member id."""
    WholeConsumer(t, "A", version=0).join()


INVALID: dict[str, dict[str, Any]] = {
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "topic partitions null": {"topic_partitions": None},
    "topic partitions not empty": {
        "topic_partitions": [{"topic_id": bytes(16), "partitions": [0]}]
    },
    "no subscription": {"subscribed_topic_names": None},
    "empty instance id": {"instance_id": ""},
    "empty rack": {"rack_id": ""},
    "unknown assignor": {"server_assignor": "nope"},
    "empty assignor": {"server_assignor": ""},
    "epoch -3": {"member_epoch": -3},
    "empty group id": {"group_id": ""},
    "invalid regex": {"subscribed_topic_names": None, "subscribed_topic_regex": "[a"},
    "rebalance timeout 0": {"rebalance_timeout_ms": 0},
}


@AREA.scenario
def invalid_first_heartbeats(t: Stage) -> None:
    """First heartbeats with invalid fields are refused."""
    a = WholeConsumer(t, "A")
    for note, fields in INVALID.items():
        a.join(note, **fields)
    t.state()


@AREA.scenario
def names_and_regex_together(t: Stage) -> None:
    """A member subscribes to names and to a regular expression."""
    a = WholeConsumer(t, "A")
    a.join(subscribed_topic_regex="cf-nothing-.*")
    view(t)


@AREA.scenario
def epochs_fence(t: Stage) -> None:
    """A member sends other epochs than its own."""
    a = WholeConsumer(t, "A")
    a.join()
    a.hb("epoch + 1", member_epoch=a.epoch + 1)
    previous = a.epoch - 1
    a.hb("previous epoch without partitions", member_epoch=previous, topic_partitions=[])
    a.hb("right epoch still works")
    b = WholeConsumer(t, "B")
    b.join()
    settle_all(t, a, b)
    latest = a.epoch
    a.hb("previous epoch, nothing owned", member_epoch=latest - 1, topic_partitions=[])
    a.hb("previous epoch, owned unknown", member_epoch=a.epoch - 1)
    a.hb("older epoch", member_epoch=max(a.epoch - 2, 1), topic_partitions=[])


@AREA.scenario
def uniform_is_the_default_and_balanced(t: Stage) -> None:
    """Without a choice `uniform` assigns partitions evenly."""
    group = [WholeConsumer(t, name, [t.t3, t.tx, t.t1]) for name in "ABC"]
    for one in group:
        one.join()
    settle_all(t, *group)
    t.rec("partitions per member", sorted(one.count for one in group))
    owned = [
        (topic["topic_id"], index)
        for one in group
        for topic in one.owned
        for index in topic["partitions"]
    ]
    t.rec("all six and none twice", [len(owned), len(set(owned))])
    answer = t.quiet("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})
    t.rec("assignor", answer["groups"][0]["assignor_name"])


@AREA.scenario
def leave_last(t: Stage) -> None:
    """The only member leaves, sends a heartbeat, and leaves again."""
    a = WholeConsumer(t, "A")
    a.join()
    a.leave()
    view(t)
    a.hb("after leaving")
    a.leave(note="leave again")


@AREA.scenario
def static_unreleased_instance(t: Stage) -> None:
    """A member uses the instance id of another member that has not left."""
    a, x = WholeConsumer(t, "A", instance_id="i1"), WholeConsumer(t, "X", instance_id="i1")
    a.join()
    x.join("same instance, other id")
    a.hb("wrong instance", instance_id="i9")
    x.hb("instance of A", member_epoch=a.epoch)
    x.leave(-2, "static leave by a stranger")
    view(t)


@AREA.scenario
def static_leave_and_return(t: Stage) -> None:
    """A static member returns with another id: it gets its partitions without a new epoch."""
    a = WholeConsumer(t, "A", instance_id="i1", assignor="range")
    b = WholeConsumer(t, "B", instance_id="i2", assignor="range")
    a.join()
    b.join()
    settle_all(t, a, b)
    before = a.epoch
    a.leave(-2)
    view(t, "while away")
    x = WholeConsumer(t, "X", instance_id="i1", assignor="range")
    x.join("returns as X")
    t.rec("epoch change", x.epoch - before)
    b.hb()
    view(t)


@AREA.scenario
def revocation_timeout(t: Stage) -> None:
    """A member that does not revoke its partitions is fenced after its rebalance timeout."""
    a = WholeConsumer(t, "A", rebalance_timeout_ms=1000, assignor="range")
    b = WholeConsumer(t, "B", assignor="range")
    a.join()
    a.ack()
    b.join()
    a.hb("learns of the revocation")
    for _ in range(30):
        t.nap(0.2)
        answer = t.setup(a.hb, topic_partitions=None)
        if answer["error_code"]:
            break
        t.setup(b.hb)
    a.hb("once fenced")
    settle_all(t, b)
    view(t)


@AREA.scenario
def regex_subscription(t: Stage) -> None:
    """The topics of a regular expression are assigned in one of the next heartbeats."""
    regex = f"cf-(one|three)-{t.env.run}"
    a = WholeConsumer(t, "A", regex=regex, assignor="range")
    t.setup(a.join)
    for _ in range(60):
        if a.count == 4:
            break
        t.nap(0.1)
        t.setup(a.ack)
    settle_all(t, a)
    t.rec("assigned", t.norm(a.owned, "topic_partitions"))
    answer = t.quiet("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})
    (one,) = answer["groups"][0]["members"]
    t.rec("described", [one["subscribed_topic_names"], one["subscribed_topic_regex"] == regex])


@AREA.scenario
def rack_is_described(t: Stage) -> None:
    """ConsumerGroupDescribe has the rack of a member."""
    a = WholeConsumer(t, "A", rack_id="r1")
    a.join()
    view(t)


@AREA.scenario
def describe_unknown_v1(t: Stage) -> None:
    """ConsumerGroupDescribe has an unknown group, an empty group id, and no group."""
    t.ask("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})
    t.ask("ConsumerGroupDescribe", 1, {"group_ids": [""]}, "empty id")
    t.ask("ConsumerGroupDescribe", 1, {"group_ids": []}, "no ids")


@AREA.scenario
def describe_classic_group(t: Stage) -> None:
    """ConsumerGroupDescribe has a classic group."""
    t.stable("A")
    t.ask("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})


@AREA.scenario
def list_filters(t: Stage) -> None:
    """ListGroups has filters of types and states."""
    WholeConsumer(t, "A").join()
    for version, body in (
        (4, {}),
        (5, {}),
        (5, {"types_filter": ["consumer"]}),
        (5, {"types_filter": ["classic"]}),
        (5, {"states_filter": ["Stable"]}),
        (5, {"states_filter": ["Reconciling", "Assigning"]}),
        (5, {"states_filter": ["stable"]}),
    ):
        fields = ("protocol_type", "group_state", "group_type")
        groups = t.quiet("ListGroups", version, body)["groups"]
        shown = [[one.get(field) for field in fields] for one in groups if one["group_id"] == t.g]
        t.rec(f"v{version} {body}", shown)


@AREA.scenario
def offset_fetch_checks_the_epoch(t: Stage) -> None:
    """OffsetFetch v9 has a member and an epoch that are right, wrong or missing."""
    a = WholeConsumer(t, "A")
    a.join()
    a.ack()
    t.setup(t.commit, [(t.t3, 0, 1)], 9, gen=a.epoch, member=a.id)
    topics = [{"name": t.t3, "partition_indexes": [0]}]
    for label, member_id, epoch in (
        ("right", a.id, a.epoch),
        ("epoch + 1", a.id, a.epoch + 1),
        ("epoch - 1", a.id, a.epoch - 1),
        ("unknown member", "ghost", a.epoch),
        ("no member", None, -1),
        ("empty id", "", -1),
        ("empty id, epoch 0", "", 0),
    ):
        identity = {"group_id": t.g, "member_id": member_id, "member_epoch": epoch}
        t.ask("OffsetFetch", 9, {"groups": [{**identity, "topics": topics}]}, label)
    t.ask("OffsetFetch", 7, {"group_id": t.g, "topics": topics}, "v7")


@AREA.scenario
def txn_commit_checks_the_epoch(t: Stage) -> None:
    """TxnOffsetCommit has a member and an epoch that are right, wrong or missing."""
    a = WholeConsumer(t, "A")
    a.join()
    p = OffsetProducer(t, "P")
    p.begin()
    p.commit([(t.t3, 0, 1)], v=3, note="right epoch", generation_id=a.epoch, member_id=a.id)
    p.commit([(t.t3, 0, 2)], v=3, note="epoch + 1", generation_id=a.epoch + 1, member_id=a.id)
    p.commit([(t.t3, 0, 3)], v=3, note="unknown member", generation_id=a.epoch, member_id="ghost")
    p.commit([(t.t3, 0, 4)], v=2, note="v2 has no member")
    p.end(True)
    settle(t)
    t.offs()


@AREA.scenario
def classic_empty_group_is_taken_over(t: Stage) -> None:
    """A consumer joins an empty classic group with offsets."""
    t.empty()
    t.commit([(t.t3, 0, 7)])
    a = WholeConsumer(t, "A")
    a.join()
    view(t)
    t.offs()


@AREA.scenario
def empty_consumer_group_is_taken_over_by_classic(t: Stage) -> None:
    """A classic member joins an empty consumer group."""
    a = WholeConsumer(t, "A")
    a.join()
    a.leave()
    t.member("M", v=3).join_now()
    t.state()


@AREA.scenario
def live_upgrade_of_unparsable_metadata(t: Stage) -> None:
    """A consumer joins a classic group whose member has metadata that cannot be read."""
    m = t.member("M", protos=[("range", Raw(b"\x00"))])
    m.assignments = {"M": assignment({t.t3: [0, 1, 2]}, version=0)}
    t.stable(m)
    WholeConsumer(t, "A").join()
    t.state()


@AREA.scenario
def classic_connect_group(t: Stage) -> None:
    """A consumer joins a classic group of another protocol type."""
    t.stable(t.member("M", ptype="connect", protos=[("compat", b"x")]))
    WholeConsumer(t, "A").join()
    t.state()
