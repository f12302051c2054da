"""ConsumerGroupHeartbeat: valid values of each field, in the first heartbeat and in later ones."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import (
    ConsumerMember,
    error,
    listed,
    look,
    look_closely,
    members,
    partitions_by_id,
    reach,
    settle,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_heartbeats", "d")

LARGEST = 2**31 - 1
LONG = "x" * 300

FIRST: dict[str, dict[str, Any]] = {
    "no member id": {"member_id": ""},
    "long member id": {"member_id": LONG},
    "odd member id": {"member_id": " a/\u00e9 "},
    "blank group": {"group_id": " "},
    "no group": {"group_id": ""},
    "blank instance": {"instance_id": " "},
    "no instance": {"instance_id": ""},
    "long instance": {"instance_id": LONG},
    "blank rack": {"rack_id": " "},
    "no rack": {"rack_id": ""},
    "rebalance 0": {"rebalance_timeout_ms": 0},
    "rebalance -1": {"rebalance_timeout_ms": -1},
    "rebalance -2": {"rebalance_timeout_ms": -2},
    "rebalance largest": {"rebalance_timeout_ms": LARGEST},
    "no topics": {"subscribed_topic_names": []},
    "null topics": {"subscribed_topic_names": None},
    "unknown topic": {"subscribed_topic_names": ["no-such-topic"]},
    "unnamed topic": {"subscribed_topic_names": [""]},
    "impossible topic": {"subscribed_topic_names": ["..", "a b", LONG]},
    "offsets topic": {"subscribed_topic_names": ["__consumer_offsets"]},
    "no assignor": {"server_assignor": None},
    "unnamed assignor": {"server_assignor": ""},
    "uniform": {"server_assignor": "uniform"},
    "shouted assignor": {"server_assignor": "RANGE"},
    "unknown assignor": {"server_assignor": "sticky"},
    "null partitions": {"topic_partitions": None},
    "partitions of nothing": {"topic_partitions": [{"topic_id": bytes(16), "partitions": []}]},
    "epoch -3": {"member_epoch": -3},
    "epoch least": {"member_epoch": -LARGEST - 1},
    "epoch 1": {"member_epoch": 1},
    "epoch largest": {"member_epoch": LARGEST},
    "epoch -1": {"member_epoch": -1},
    "epoch -2": {"member_epoch": -2},
    "epoch -2 of an instance": {"member_epoch": -2, "instance_id": "i"},
}


def _text(t: Stage, label: str, **fields: Any) -> None:
    """Record the error message of a heartbeat of the group."""
    body = {"group_id": t.g, "member_id": "A", "rebalance_timeout_ms": 9000, **fields}
    answer = t.raw("ConsumerGroupHeartbeat", 1, body)
    message = answer["error_message"] or ""
    t.rec(label, [error(answer["error_code"]), message.replace(t.g, "<g>")])


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages does a refused member get?"""
    joining = {"member_epoch": 0, "topic_partitions": [], "subscribed_topic_names": [t.t1]}
    for epoch in (1, -1, -2):
        _text(t, f"unknown group, epoch {epoch}", member_epoch=epoch, instance_id="i")
    for assignor in ("sticky", ""):
        _text(t, f"assignor {assignor!r}", **{**joining, "server_assignor": assignor})
    _text(t, "no subscription", **{**joining, "subscribed_topic_names": None})
    _text(t, "joins", **{**joining, "instance_id": "i"})
    for epoch in (0, 2, -1, -2):
        fields = joining if not epoch else {}
        named = {"member_epoch": epoch, "instance_id": "i", "member_id": "B"}
        _text(t, f"another member, epoch {epoch}", **{**fields, **named})
        if epoch:
            _text(t, f"unknown instance, epoch {epoch}", **{**named, "instance_id": "j"})
            _text(t, f"unknown member, epoch {epoch}", **{**named, "instance_id": None})
    for epoch in (1, 3):
        _text(t, f"epoch {epoch}", member_epoch=epoch, instance_id="i")


@AREA.each(version=[0, 1], case=list(FIRST))
def first(t: Stage, version: int, case: str) -> None:
    """What does a first heartbeat v{version} with {case} return, and which group results?"""
    a = ConsumerMember(t, "A", version=version)
    if case == "offsets topic":  # the assignment depends on the broker's settings
        a.joining["subscribed_topic_names"] = ["__consumer_offsets", t.t1]
        answer = silently(t, a.join)
        t.rec("A joins", [error(answer["error_code"]), answer["member_epoch"], len(a.owned)])
        return
    a.join(**FIRST[case])
    if "group_id" not in FIRST[case]:
        look(t)
    listed(t)


REGEXES: dict[str, dict[str, Any]] = {
    "empty": {"subscribed_topic_regex": ""},
    "empty and no topics": {"subscribed_topic_regex": "", "subscribed_topic_names": []},
    "empty and null topics": {"subscribed_topic_regex": "", "subscribed_topic_names": None},
    "unclosed set": {"subscribed_topic_regex": "[a"},
    "unclosed group": {"subscribed_topic_regex": "(a"},
    "star alone": {"subscribed_topic_regex": "*"},
    "look ahead": {"subscribed_topic_regex": "(?=a)b"},
    "back reference": {"subscribed_topic_regex": r"(a)\1"},
    "possessive": {"subscribed_topic_regex": "a*+"},
    "named group": {"subscribed_topic_regex": "(?P<name>no-such-a)"},
    "java named group": {"subscribed_topic_regex": "(?<name>no-such-a)"},
    "huge repetition": {"subscribed_topic_regex": "a{2000}"},
    "inverted set": {"subscribed_topic_regex": "[z-a]"},
    "trailing backslash": {"subscribed_topic_regex": "a\\"},
    "unicode class": {"subscribed_topic_regex": r"no-such-\p{Greek}"},
    "unknown class": {"subscribed_topic_regex": r"\p{Klingon}"},
    "quoted": {"subscribed_topic_regex": r"\Qno.such\E"},
    "flags": {"subscribed_topic_regex": "(?i)NO-SUCH"},
    "unknown flag": {"subscribed_topic_regex": "(?x)no-such"},
    "word boundary": {"subscribed_topic_regex": r"\bno-such\b"},
    "atomic group": {"subscribed_topic_regex": "(?>no-such)"},
    "absolute end": {"subscribed_topic_regex": r"no-such\Z"},
    "absolute end lower": {"subscribed_topic_regex": r"no-such\z"},
    "null byte": {"subscribed_topic_regex": "no\x00such"},
}


@AREA.each(case=list(REGEXES))
def regex_at_first(t: Stage, case: str) -> None:
    """Is a regular expression valid that is: {case}?"""
    a = ConsumerMember(t, "A")
    a.join(**REGEXES[case])
    listed(t)


LATER: dict[str, dict[str, Any]] = {
    "no group": {"group_id": ""},
    "other group": {"group_id": "cf-no-such-group"},
    "no member id": {"member_id": ""},
    "other member id": {"member_id": "member-z"},
    "an instance": {"instance_id": "i"},
    "no instance": {"instance_id": ""},
    "rack": {"rack_id": "r2"},
    "no rack": {"rack_id": ""},
    "rebalance 0": {"rebalance_timeout_ms": 0},
    "rebalance -2": {"rebalance_timeout_ms": -2},
    "rebalance other": {"rebalance_timeout_ms": 1234},
    "no topics": {"subscribed_topic_names": []},
    "unknown topic": {"subscribed_topic_names": ["no-such-topic"]},
    "empty regex": {"subscribed_topic_regex": ""},
    "invalid regex": {"subscribed_topic_regex": "[a"},
    "uniform": {"server_assignor": "uniform"},
    "unnamed assignor": {"server_assignor": ""},
    "unknown assignor": {"server_assignor": "sticky"},
    "epoch -3": {"member_epoch": -3},
}


@AREA.each(case=list(LATER))
def later(t: Stage, case: str) -> None:
    """A lone member sends a later heartbeat with: {case}; then a plain one."""
    a = ConsumerMember(t, "A", rack_id="r1").joined()
    a.beat("brings it", adopt=False, **LATER[case])
    a.beat()
    look(t)
    look_closely(t)


@AREA.each(case=["same", "twice", "turned round", "more", "fewer", "others"])
def later_topics(t: Stage, case: str) -> None:
    """A later heartbeat names topics again: {case}."""
    named = {
        "same": [t.t1, t.t3],
        "twice": [t.t1, t.t3, t.t1],
        "turned round": [t.t3, t.t1],
        "more": [t.t1, t.t3, t.tx],
        "fewer": [t.t3],
        "others": [t.tx],
    }[case]
    a = ConsumerMember(t, "A", [t.t1, t.t3]).joined()
    a.subscribe(*named)
    a.ack()
    a.beat()
    look(t)


@AREA.each(named=["twice", "with unknown", "with impossible"])
def topics_at_first(t: Stage, named: str) -> None:
    """A first heartbeat names a topic {named}."""
    other = {"twice": t.t3, "with unknown": "no-such", "with impossible": "a b"}[named]
    a = ConsumerMember(t, "A", [t.t3, other])
    a.join()
    a.ack()
    look(t)
    look_closely(t)


OWNED: dict[str, dict[str, list[int]]] = {
    "nothing": {},
    "all": {"<t3>": [0, 1, 2]},
    "some": {"<t3>": [1]},
    "all backwards": {"<t3>": [2, 1, 0]},
    "one twice": {"<t3>": [0, 0]},
    "one beyond": {"<t3>": [0, 1, 2, 3]},
    "a negative one": {"<t3>": [-1]},
    "other topic": {"<t1>": [0]},
    "unknown topic": {"<?>": [0]},
    "topic without partitions": {"<t3>": []},
}


@AREA.each(owned=list(OWNED))
def owned_of_a_lone_member(t: Stage, owned: str) -> None:
    """A lone member in Stable reports as owned: {owned}. Nothing changes."""
    names = {"<t1>": t.t1, "<t3>": t.t3}
    wanted = {names.get(topic, topic): indexes for topic, indexes in OWNED[owned].items()}
    a = ConsumerMember(t, "A").joined()
    a.own(wanted)
    a.full("says so in full", topic_partitions=partitions_by_id(t, wanted))
    look(t)


@AREA.each(
    left_out=["nothing", "rebalance_timeout_ms", "subscribed_topic_names", "topic_partitions"]
)
def full_request(t: Stage, left_out: str) -> None:
    """Without {left_out}, is a heartbeat still full, so that its answer has the assignment?"""
    a = ConsumerMember(t, "A").joined()
    unset = {"rebalance_timeout_ms": -1}
    changes: dict[str, Any] = {} if left_out == "nothing" else {left_out: unset.get(left_out)}
    a.full(**changes)
    a.full("says it without an assignor", server_assignor=None, **changes)
    a.full("says it with an empty regex", subscribed_topic_regex="", **changes)


@AREA.each(version=[0, 1])
def whole_answers(t: Stage, version: int) -> None:
    """Which fields have the answers to a join, a heartbeat, a leave, and refused requests?"""
    a = ConsumerMember(t, "A", instance_id="i-A", version=version)
    for label, call in (("join", a.join), ("beat", a.beat), ("full", a.full)):
        _whole(t, label, silently(t, call))
    _whole(t, "away", silently(t, a.leave_for_a_while))
    _whole(t, "back", silently(t, a.join))
    _whole(t, "no group id", silently(t, a.beat, group_id=""))
    _whole(t, "unknown member", silently(t, a.beat, member_id="member-z"))
    _whole(t, "fenced", silently(t, a.beat, member_epoch=99))
    _whole(t, "unsupported assignor", silently(t, a.beat, server_assignor="sticky"))
    _whole(t, "leave", silently(t, a.leave))
    _whole(t, "gone", silently(t, a.beat))


def _whole(t: Stage, label: str, answer: Any) -> None:
    shown = t.norm(answer)
    shown["has a message"] = answer["error_message"] is not None
    t.rec(label, shown)


@AREA.each(version=[2, 9])
def version_that_is_not_served(t: Stage, version: int) -> None:
    """A heartbeat of the unsupported version {version} is refused."""
    a = ConsumerMember(t, "A")
    a.join(version=version)
    listed(t)


@AREA.each(field=["group_id", "member_id"])
def null_that_is_not_allowed(t: Stage, field: str) -> None:
    """A heartbeat has null as its {field}."""
    a = ConsumerMember(t, "A")
    fields: dict[str, Any] = {field: None}
    a.join(**fields)
    a.join("joins on a new connection")


@AREA.each(version=[0, 1])
def members_with_given_ids(t: Stage, version: int) -> None:
    """Two members send no id (v{version}): in version 0 the broker generates ids."""
    a, b = (ConsumerMember(t, name, member_id="", version=version) for name in "AB")
    for member in (a, b):
        answer = member.join()
        if answer["error_code"]:
            return
        t.rec("id", [len(member.id), member.id == answer["member_id"]])
        member.ack()
    t.rec("different", a.id != b.id)
    a.join("joins without id once more", member_id="")
    settle(t, a, b)
    t.rec("partitions", sorted([a.count, b.count]))


@AREA.scenario
def member_joins_again(t: Stage) -> None:
    """A member joins again with epoch 0: the group does not change."""
    a = ConsumerMember(t, "A").joined()
    a.join("joins again")
    look(t)
    a.join("joins for other topics", subscribed_topic_names=[t.t1])
    look(t)
    a.beat()


@AREA.scenario
def member_joins_again_beside_another(t: Stage) -> None:
    """A member that has lost its epoch joins again beside another, and gets its partitions."""
    a, b = members(t, "AB")
    stable(t, a, b)
    a.join("joins again")
    a.ack()
    b.beat()
    look(t)


@AREA.each(state=["Stable", "Reconciling", "Assigning"])
def member_joins_again_in(t: Stage, state: str) -> None:
    """Member A joins again with epoch 0 while its group is {state}."""
    a, b = members(t, "AB")
    reach(t, state, a, b)
    a.join("joins again")
    look(t)
    a.ack()
    a.ack()
    look(t)


STATES = ["none", "Empty", "Stable", "Reconciling", "Assigning", "classic", "simple"]
STRANGERS: dict[str, dict[str, Any]] = {
    "beats": {"member_epoch": 3},
    "leaves": {"member_epoch": -1},
    "static beats": {"member_epoch": 3, "instance_id": "i-X"},
    "static leaves": {"member_epoch": -1, "instance_id": "i-X"},
    "static leaves for a while": {"member_epoch": -2, "instance_id": "i-X"},
}


@AREA.each(state=STATES)
def strangers(t: Stage, state: str) -> None:
    """What do strangers' heartbeats and leaves return if the group is {state}?"""
    if state == "classic":
        t.reach("stable", "M")
    elif state == "simple":
        silently(t, t.commit, [(t.t3, 0, 1)])
    elif state != "none":
        reach(t, state, *members(t, "AB"))
    x = ConsumerMember(t, "X")
    for note, fields in STRANGERS.items():
        x.beat(note, **fields)
    listed(t)


@AREA.each(state=["Empty", "Stable", "Reconciling", "Assigning"])
def newcomer(t: Stage, state: str) -> None:
    """A newcomer joins a group that is {state}."""
    a, b = members(t, "AB")
    reach(t, state, a, b)
    x = ConsumerMember(t, "X")
    x.join()
    look(t)
    x.ack()
    listed(t)


@AREA.scenario
def as_many_as_are_allowed(t: Stage) -> None:
    """group.consumer.max.size is 4: a fifth member is refused, existing ones may join again."""
    group = members(t, "ABCD", ["no-such-topic"])
    for member in group:
        member.join()
    e = ConsumerMember(t, "E")
    e.join()
    e.beat("beats without having joined", member_epoch=1)
    group[0].join("joins again")
    group[1].leave()
    e.join("joins in the free place")
    look(t)


@AREA.scenario
def instance_in_a_full_group(t: Stage) -> None:
    """A static member that was away cannot return under another id if the group is full."""
    group = statics(t, "ABCD", ["no-such-topic"])
    for member in group:
        silently(t, member.join)
    group[0].leave_for_a_while()
    x = group[0].again("X")
    x.join()
    group[0].join("comes back under its old id")
    group[1].leave()
    x.join("tries again")
    look(t)


@AREA.scenario
def full_group_and_the_empty_id(t: Stage) -> None:
    """A v0 heartbeat without an id is sent to a full group."""
    for member in members(t, "ABCD", ["no-such-topic"]):
        silently(t, member.join)
    ConsumerMember(t, "E", member_id="", version=0).join()


@AREA.scenario
def nothing_subscribed(t: Stage) -> None:
    """A member without topics gets an epoch; then it subscribes to one."""
    a = ConsumerMember(t, "A", [])
    a.join()
    look(t)
    listed(t)
    a.subscribe(t.t1)
    a.ack()
    look(t)
    a.subscribe()
    a.ack()
    look(t)


@AREA.scenario
def client_without_a_name(t: Stage) -> None:
    """The client id comes from the request header; it may be null, and it may change."""
    a = ConsumerMember(t, "A")
    body = {"group_id": t.g, "member_id": a.id, **a.joining, "topic_partitions": []}
    for client_id in (None, "", "first", "second"):
        pending = t.send(
            a.connection, "ConsumerGroupHeartbeat", 1, body | {"member_epoch": 0}, "join", client_id
        )
        silently(t, t.got, pending)
        t.rec(f"joins as {client_id}", error(pending.raw["error_code"]))
        look_closely(t)
    look(t)
