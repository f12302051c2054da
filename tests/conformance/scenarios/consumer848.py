"""ConsumerGroupHeartbeat and ConsumerGroupDescribe with whole answers.

Profile A has a session timeout of 6000 ms, a heartbeat interval of 500 ms, and at most 4 members.
"""

from __future__ import annotations

from tests.conformance.stage import Area, Stage
from tests.conformance.whole_consumers import WholeConsumer, settle_all, view

AREA = Area("consumer848")


@AREA.scenario
def epochs_fence(t: Stage) -> None:
    """A member sends epochs that are not its own."""
    a = WholeConsumer(t, "A")
    a.join()
    a.hb("epoch + 1", member_epoch=a.epoch + 1)
    previous = a.epoch - 1
    a.hb("previous epoch without partitions", member_epoch=previous, topic_partitions=[])
    a.hb("right epoch still works")
    b = WholeConsumer(t, "B")
    b.join()
    settle_all(t, a, b)
    a.hb("previous epoch, nothing owned", member_epoch=a.epoch - 1, topic_partitions=[])
    a.hb("previous epoch, owned unknown", member_epoch=a.epoch - 1)


@AREA.scenario
def uniform_is_the_default_and_balanced(t: Stage) -> None:
    """If no member selects an assignor, `uniform` assigns the partitions evenly."""
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
def list_filters(t: Stage) -> None:
    """ListGroups filters by group types and states."""
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
