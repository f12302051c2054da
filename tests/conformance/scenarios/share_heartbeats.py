"""ShareGroupHeartbeat: fields, epochs, subscriptions, sessions, maximum group size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance.share_setups import join, reader
from tests.conformance.shares import ShareMember
from tests.conformance.stage import Area, Stage

AREA = Area("share_heartbeats")

_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "no topics": {"subscribed_topic_names": None},
    "empty topics": {"subscribed_topic_names": []},
    "empty group": {"group_id": ""},
    "empty member": {"member_id": ""},
    "long member": {"member_id": "m" * 37},
    "empty rack": {"rack_id": ""},
    "a rack": {"rack_id": "r1"},
    "epoch below leaving": {"member_epoch": -2},
    "least epoch": {"member_epoch": -2147483648},
    "epoch of nobody": {"member_epoch": 1},
    "leaving unknown": {"member_epoch": -1},
}


@AREA.each(field=list(_FIELDS))
def first_request(t: Stage, field: str) -> None:
    """Which group results from a first heartbeat with {field}?"""
    a = ShareMember(t, "A")
    body = {"subscribed_topic_names": [t.t1], **_FIELDS[field]}
    a.heartbeat(field, **body)
    looks.described(t)
    looks.listed(t)


@AREA.each(field=list(_FIELDS))
def later_request(t: Stage, field: str) -> None:
    """Which group results from a member's heartbeat with {field}?"""
    a = ShareMember(t, "A").joined(t.t1)
    a.heartbeat(field, **_FIELDS[field])
    looks.described(t)


@AREA.scenario
def first_steps(t: Stage) -> None:
    """Which epochs and assignments does a member get while partitions are initialized?"""
    a = ShareMember(t, "A")
    a.heartbeat("joins", t.t1)
    looks.described(t, "before the partition is initialized")
    while not looks.initialized(t):
        t.nap(0.02)
    a.heartbeat("goes on")
    looks.described(t)
    a.heartbeat("goes on")
    a.heartbeat("the whole of it", t.t1)
    a.leave()
    looks.described(t)
    looks.listed(t)


@AREA.scenario
def interval_in_the_answer(t: Stage) -> None:
    """Answers have the broker's heartbeat interval, then the group's."""
    a = ShareMember(t, "A")
    answer = t.setup(a.heartbeat, "", t.t1)
    t.rec("the broker's", answer["heartbeat_interval_ms"])
    looks.configure(t, {"share.heartbeat.interval.ms": "1234"})
    t.nap(0.1)
    answer = t.setup(a.heartbeat)
    t.rec("the group's", answer["heartbeat_interval_ms"])
    answer = t.setup(a.heartbeat, "", member_epoch=77)
    t.rec("of an error", [answer["error_code"], answer["heartbeat_interval_ms"]])
    answer = t.setup(a.leave)
    t.rec("of leaving", answer["heartbeat_interval_ms"])


@AREA.each(version=[1])
def whole_answers(t: Stage, version: int) -> None:
    """Which fields does the answer to a join, an unchanged heartbeat, a leave and an error have?"""
    a = ShareMember(t, "A")
    changes: list[dict[str, Any]] = [{}, {"member_epoch": -1}, {"member_epoch": 5}]
    answers = [t.setup(a.joined, t.t1) and a.heartbeat("unchanged")]
    answers += [t.setup(a.heartbeat, "", version=version, **one) for one in changes]
    for note, answer in zip(("", "unchanged", "leaves", "unknown"), answers, strict=True):
        member_id = answer["member_id"]
        texts = {"member_id": member_id and t.sub(member_id)}
        if answer["error_message"]:
            texts["error_message"] = answer["error_message"].replace(a.id, "A").replace(t.g, "<g>")
        t.rec(f"answer {note}".strip(), answer | texts)


@AREA.each(epoch=["two behind", "previous", "current", "ahead", "zero"])
def epochs(t: Stage, epoch: str) -> None:
    """A member at epoch 4, whose earlier epochs were 3 and 2, sends an epoch that is: {epoch}."""
    a = ShareMember(t, "A").joined(t.t1)
    (b,) = join(t, "B", t.t1)
    t.setup(a.heartbeat)
    t.rec("epochs", [a.epoch, b.epoch])
    sent = {"two behind": 2, "previous": 3, "current": 4, "ahead": 5, "zero": 0}[epoch]
    a.epoch = sent
    a.heartbeat(epoch)
    a.heartbeat(f"{epoch} with topics", t.t1, member_epoch=sent)
    looks.described(t)


@AREA.scenario
def joins_again(t: Stage) -> None:
    """A member sends epoch 0 again: with the same topics, other topics, and none."""
    a = ShareMember(t, "A").joined(t.t1)
    a.heartbeat("the same", t.t1, member_epoch=0)
    a.heartbeat("without", member_epoch=0)
    looks.described(t)
    a.heartbeat("others", t.t3, member_epoch=0)
    looks.described(t)


@AREA.each(change=["more", "fewer", "others", "unknown", "the same", "in another order"])
def changed_topics(t: Stage, change: str) -> None:
    """A member changes its subscription to topics that are {change}."""
    a = ShareMember(t, "A").joined(t.t1, t.t3, partitions=4)
    topics = {
        "more": [t.t1, t.t3, t.tx],
        "fewer": [t.t1],
        "others": [t.tx],
        "unknown": ["nowhere"],
        "the same": [t.t1, t.t3],
        "in another order": [t.t3, t.t1],
    }[change]
    a.heartbeat("changes", *topics)
    wanted = {"more": 6, "others": 2}.get(change)
    if wanted:
        a.joined(partitions=wanted)
    looks.described(t)


@AREA.scenario
def topic_that_comes_later(t: Stage) -> None:
    """A member subscribes to a missing topic, and gets its partitions once it is created."""
    name = f"{t.g}-later"
    t.name_it(name, "<later>")
    a = ShareMember(t, "A")
    a.heartbeat("joins", name)
    looks.described(t)
    looks.topic(t, 2, suffix="later")
    a.joined(partitions=2)
    looks.described(t)


@AREA.scenario
def topic_that_goes(t: Stage) -> None:
    """After the deletion of a subscribed topic, a heartbeat returns the new assignment."""
    topic = looks.topic(t, 2)
    a = ShareMember(t, "A").joined(topic, t.t1, partitions=3)
    t.delete_topic(topic)
    for _ in range(100):
        answer = t.setup(a.heartbeat)
        if answer["assignment"] is not None:
            break
        t.nap(0.02)
    a.heartbeat("the whole of it", topic, t.t1)
    looks.described(t)


@AREA.each(members=["AB", "ABC", "ABCD"], partitions=[1, 2, 3])
def spread_over_members(t: Stage, members: str, partitions: int) -> None:
    """How many of {partitions} partitions does each of the members {members} get?"""
    topic = looks.topic(t, partitions)
    joined = join(t, members, topic)
    for one in joined:
        t.setup(one.heartbeat)
    looks.spread(t)
    if (members, partitions) == ("ABCD", 2):
        return  # not comparable: Kafka chooses two of the four members at random
    joined[0].leave()
    for one in joined[1:]:
        t.setup(one.heartbeat)
    looks.spread(t, "after A has left")


@AREA.scenario
def different_subscriptions(t: Stage) -> None:
    """Members only get partitions of the topics that they subscribe to."""
    a = ShareMember(t, "A").joined(t.t1)
    b = ShareMember(t, "B").joined(t.tx)
    looks.described(t)
    c = ShareMember(t, "C").joined(t.t1, t.tx)
    for one in (a, b, c):
        t.setup(one.heartbeat)
    looks.spread(t)


@AREA.scenario
def sixth_member(t: Stage) -> None:
    """group.share.max.size is 4: a fifth member is refused until another one leaves."""
    members = join(t, "ABCD", t.t1)
    late = ShareMember(t, "E")
    late.heartbeat("joins", t.t1)
    members[1].heartbeat("goes on")
    members[0].heartbeat("joins again", t.t1, member_epoch=0)
    members[3].leave()
    late.heartbeat("joins", t.t1)


def _until_members(t: Stage, count: int, *alive: ShareMember) -> None:
    """Send heartbeats, unrecorded, until the group has this many members."""
    for _ in range(60):
        for one in alive:
            t.setup(one.heartbeat)
        answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
        if len(answer["members"]) == count:
            return
        t.nap(0.05)
    t.rec("members", f"still not {count}")


@AREA.scenario
def session_times_out(t: Stage) -> None:
    """A member without heartbeats expires, and the other members continue."""
    looks.configure(t, {"share.session.timeout.ms": "1500"})
    a, b = join(t, "AB", t.t1)
    _until_members(t, 1, a)
    t.setup(a.heartbeat)
    looks.described(t)
    b.heartbeat("comes back")
    b.heartbeat("joins again", t.t1, member_epoch=0)


@AREA.scenario
def last_session_times_out(t: Stage) -> None:
    """The only member expires, and the group is empty."""
    looks.configure(t, {"share.session.timeout.ms": "600"})
    a = ShareMember(t, "A").joined(t.t1)
    _until_members(t, 0)
    looks.described(t)
    a.heartbeat("goes on")
    a.leave("after that")
    a.heartbeat("joins again", t.t1, member_epoch=0)


@AREA.scenario
def session_goes_on_with_each_request(t: Stage) -> None:
    """Heartbeats keep a member in the group, fetches do not."""
    place, a = reader(t, share_session_timeout_ms="700")
    for _ in range(12):
        t.nap(0.1)
        t.setup(a.nothing, place)
    looks.described(t, "after fetches")
    a.heartbeat("goes on")


@AREA.scenario
def leaves_twice(t: Stage) -> None:
    """A member leaves, leaves again, and then sends a normal heartbeat."""
    a = ShareMember(t, "A").joined(t.t1)
    a.leave()
    a.leave("again")
    a.heartbeat("goes on", member_epoch=3)
    looks.described(t)


@AREA.scenario
def leaves_with_others_in(t: Stage) -> None:
    """One of two members leaves; the other member's epoch rises with its next heartbeat."""
    a, b = join(t, "AB", t.t1)
    a.leave("with topics")
    looks.described(t)
    b.heartbeat()
    looks.described(t)
    b.heartbeat()


@AREA.each(interval=["0", "1000"])
def interval_of_assignments(t: Stage, interval: str) -> None:
    """With share.assignment.interval.ms={interval}, when does a second member get partitions?"""
    looks.configure(t, {"share.assignment.interval.ms": interval})
    a = ShareMember(t, "A").joined(t.t1)
    b = ShareMember(t, "B")
    b.heartbeat("joins", t.t1)
    looks.described(t)
    t.nap(1.2)
    for one in (a, b, a):
        t.setup(one.heartbeat)
    looks.described(t, "some time later")


@AREA.scenario
def racks(t: Stage) -> None:
    """How is a member's rack described when the rack is set, kept and changed?"""
    a = ShareMember(t, "A").joined(t.t1)

    def rack(label: str) -> None:
        answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
        shown = [answer["group_epoch"], *(one["rack_id"] for one in answer["members"])]
        t.rec(label, shown)

    rack("none")
    for value in ("r1", None, "r2"):
        a.heartbeat(f"rack {value}", rack_id=value)
        rack("described")


@AREA.scenario
def clients(t: Stage) -> None:
    """Which client id and host does ShareGroupDescribe show, also after the client id changes?"""
    a = ShareMember(t, "A").joined(t.t1)
    body = {"group_id": t.g, "member_id": a.id, "member_epoch": a.epoch}
    for client_id in ("conf", "another", ""):
        t.recording = False
        t.call(t.ctl, "ShareGroupHeartbeat", 1, body, client_id=client_id)
        t.recording = True
        answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
        (one,) = answer["members"]
        t.rec("client", [one["client_id"], one["client_host"][:1], answer["group_epoch"]])


@AREA.scenario
def topics_named_twice(t: Stage) -> None:
    """A subscription names a topic twice."""
    a = ShareMember(t, "A").joined(t.t1, t.t1)
    a.heartbeat("again", t.t1, t.t1)
    looks.described(t)


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages do refused heartbeats get?"""
    a = ShareMember(t, "A").joined(t.t1)
    members = join(t, "BCD", t.t1)
    late = ShareMember(t, "E")
    requests: list[tuple[str, ShareMember, dict[str, Any]]] = [
        *(
            (name, a, dict(fields))
            for name, fields in _FIELDS.items()
            if name not in ("a rack", "leaving unknown", "no topics", "empty topics")
        ),
        ("full", late, {"subscribed_topic_names": [t.t1]}),
        ("unknown member", late, {"member_epoch": 3}),
        ("ahead", members[0], {"member_epoch": 99}),
        ("no topics at first", late, {}),
    ]
    for note, member, fields in requests:
        answer = t.setup(member.heartbeat, "", **fields)
        text = answer["error_message"]
        for name in (t.g, *(one.id for one in (a, late, *members))):
            text = text and text.replace(name, t.sub(name))
        t.rec(note, [answer["error_code"], text])
