"""Connections: pipelined requests, members on several connections, lost connections."""

from __future__ import annotations

from typing import Any

from tests.conformance.connection import Pending
from tests.conformance.members import Member
from tests.conformance.stage import Area, Stage

AREA = Area("wires")


def _heartbeat(t: Stage, connection: Any, member: Member, note: str, **changes: Any) -> Pending:
    body = {"group_id": t.g, "generation_id": member.gen, "member_id": member.id}
    return t.send(connection, "Heartbeat", 3, body | changes, f"{member.name} Heartbeat v3 {note}")


@AREA.scenario
def everything_behind_a_parked_join_waits(t: Stage) -> None:
    """Requests behind a parked JoinGroup on its connection are answered after it, in order."""
    a, b = t.reach("stable", "A", "B")
    join = a.join()
    behind = [
        _heartbeat(t, a.c, a, "behind"),
        t.send(a.c, "ListGroups", 0, {}, "ListGroups v0 behind"),
        a.sync(generation_id=3, note="behind"),
    ]
    t.until("PreparingRebalance")
    t.parked(join)
    second = b.join()
    t.setup(t.got, join, second, behind[0], behind[1])
    t.rec("heartbeat", behind[0].raw)
    t.got(behind[2])
    t.state()


@AREA.scenario
def leave_behind_the_own_parked_join(t: Stage) -> None:
    """A member's LeaveGroup behind its parked JoinGroup is handled after the JoinGroup."""
    a, b = t.reach("stable", "A", "B")
    join = a.join()
    body = {"group_id": t.g, "member_id": a.id}
    leave = t.send(a.c, "LeaveGroup", 1, body, "A LeaveGroup v1 behind")
    t.parked(join)
    t.state()
    t.got(b.join(), join, leave)
    t.until("PreparingRebalance")
    t.state()


@AREA.scenario
def two_members_on_one_connection(t: Stage) -> None:
    """Two members share a connection: the second JoinGroup waits behind the first one."""
    timeout_ms = t.ms(1500)
    a, b = t.reach("stable", *[t.member(name, rebalance=timeout_ms) for name in "AB"])
    first = a.join()
    second = b.join(conn=a.c)
    t.parked(first)
    t.state()
    t.got(first, second, timeout=5)
    t.state()


@AREA.scenario
def many_requests_at_once(t: Stage) -> None:
    """Twenty requests of four kinds are sent before any answer is read."""
    a, _ = t.reach("stable", "A", "B")
    asked = []
    for number in range(5):
        commit = {
            "group_id": t.g,
            "generation_id_or_member_epoch": a.gen,
            "member_id": a.id,
            "topics": [
                {"name": t.t1, "partitions": [{"partition_index": 0, "committed_offset": number}]}
            ],
        }
        fetch = {"group_id": t.g, "topics": [{"name": t.t1, "partition_indexes": [0]}]}
        asked += [
            t.send(a.c, "OffsetCommit", 7, commit, f"commit of {number}"),
            t.send(a.c, "OffsetFetch", 5, fetch, f"fetch after {number}"),
            _heartbeat(t, a.c, a, f"after {number}"),
            _heartbeat(t, a.c, a, f"wrong, after {number}", generation_id=9),
        ]
    t.got(*asked)


@AREA.scenario
def commits_of_two_generations_at_once(t: Stage) -> None:
    """A sole member pipelines commits around its own rejoin."""
    (a,) = t.reach("stable", "A")

    def commit(offset: int, generation: int) -> Pending:
        body = {
            "group_id": t.g,
            "generation_id_or_member_epoch": generation,
            "member_id": a.id,
            "topics": [
                {"name": t.t1, "partitions": [{"partition_index": 0, "committed_offset": offset}]}
            ],
        }
        return t.send(a.c, "OffsetCommit", 7, body, f"commit of {offset}, generation {generation}")

    t.got(
        commit(1, 1),
        a.join(),
        commit(2, 1),
        commit(3, 2),
        a.sync(generation_id=2, assign={a.id: b"mine"}),
        commit(4, 1),
        commit(5, 2),
    )
    t.offs()


@AREA.scenario
def every_request_on_a_new_connection(t: Stage) -> None:
    """A member opens a connection for each of its requests."""
    a, b = t.reach("stable", "A", "B")
    b.protos = [("range", b"changed")]
    join = b.join(conn=t.conn())
    t.parked(join)
    t.got(a.join(conn=t.conn()), join)
    t.got(a.sync(conn=t.conn()), b.sync(conn=t.conn()))
    t.got(_heartbeat(t, t.conn(), a, "on a new connection"))
    t.state()


@AREA.scenario
def client_vanishes_while_its_join_is_parked(t: Stage) -> None:
    """The connection of a waiting newcomer closes: the member stays until its session expires."""
    (a,) = t.reach("stable", "A")
    newcomer = t.member("N", v=3, session=t.ms(1200))
    newcomer.join()
    t.until("PreparingRebalance")
    newcomer.c.close()
    t.setup(a.join_now)
    t.rec("members seen", len(a.seen))
    t.rec("members", len(t.describe()["members"]))
    t.gone(1)
    t.until("PreparingRebalance")
    a.join_now()
    t.rec("members seen later", len(a.seen))


@AREA.scenario
def client_vanishes_while_its_sync_is_parked(t: Stage) -> None:
    """A follower's connection closes while it waits for the leader, then it returns."""
    a, b = t.reach("completing", "A", "B")
    sync = b.sync()
    t.parked(sync)
    b.c.close()
    t.state()
    a.sync_now()
    t.state()
    b.sync_now(note="on a new connection")
    b.hb()


@AREA.scenario
def leave_without_waiting_for_the_answer(t: Stage) -> None:
    """A client sends LeaveGroup and closes at once, and the leave takes effect."""
    a, b = t.reach("stable", "A", "B")
    connection = t.conn()
    t.send(connection, "LeaveGroup", 1, {"group_id": t.g, "member_id": b.id})
    connection.close()
    t.until("PreparingRebalance")
    t.state()
    t.got(a.join())


@AREA.scenario
def commit_without_waiting_for_the_answer(t: Stage) -> None:
    """A client commits, leaves and closes without reading an answer; both take effect."""
    (a,) = t.reach("stable", "A")
    commit = {
        "group_id": t.g,
        "generation_id_or_member_epoch": a.gen,
        "member_id": a.id,
        "topics": [{"name": t.t1, "partitions": [{"partition_index": 0, "committed_offset": 77}]}],
    }
    connection = t.conn()
    t.send(connection, "OffsetCommit", 7, commit)
    t.send(connection, "LeaveGroup", 1, {"group_id": t.g, "member_id": a.id})
    connection.close()
    t.until("Empty")
    t.offs()


@AREA.scenario
def join_asked_again_after_a_lost_connection(t: Stage) -> None:
    """A parked member's connection closes; a JoinGroup on a new connection gets the answer."""
    a, b = t.reach("stable", "A", "B")
    b.protos = [("range", b"changed")]
    b.join()
    t.until("PreparingRebalance")
    b.c.close()
    again = b.join(note="again")
    t.parked(again)
    t.end_round([again], a)
    t.sync_all(a, b)


@AREA.scenario
def other_groups_are_not_disturbed(t: Stage) -> None:
    """While one group's member is parked, another group goes through all phases."""
    t.reach("preparing", "A")
    x = t.member("X", group=t.group("other"), v=3)
    x.join_now()
    x.sync_now()
    x.hb()
    x.commit([(t.t1, 0, 1)])
    x.leave()
    t.parked(t.waiting)
    t.state(group=x.group)
