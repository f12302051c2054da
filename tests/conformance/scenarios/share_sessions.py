"""Share sessions: epochs, contents and ends."""

from __future__ import annotations

from tests.conformance import share_looks as looks
from tests.conformance.share_setups import group, join, reader, readers
from tests.conformance.shares import (
    ACCEPT,
    CLOSE,
    OPEN,
    RELEASE,
    ShareMember,
    produce,
    topic_id,
)
from tests.conformance.stage import Area, Stage

AREA = Area("share_sessions")

_ENDS = ["fetch", "acknowledge"]


@AREA.each(epoch=[1, 2, -1, -2, 2147483647])
def epochs_without_a_session(t: Stage, epoch: int) -> None:
    """ShareFetch and ShareAcknowledge have epoch {epoch} without a session."""
    place, a = reader(t)
    a.nothing(place, share_session_epoch=epoch)
    a.acknowledge([(0, 0, ACCEPT)], share_session_epoch=epoch)


@AREA.each(epoch=[1, 3, -2, -2147483648, 2147483647])
def wrong_epochs(t: Stage, epoch: int) -> None:
    """A session expects epoch 2 and gets {epoch}; then it continues with 2."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 0, ACCEPT)])
    a.nothing(note="wrong", share_session_epoch=epoch)
    a.acknowledge([(1, 1, ACCEPT)], "wrong", share_session_epoch=epoch)
    a.fetch(note="right")
    a.acknowledge([(1, 1, ACCEPT)], "right")


@AREA.scenario
def acknowledge_cannot_open(t: Stage) -> None:
    """ShareAcknowledge with epoch 0 is sent without a session, in a session, and empty."""
    place, a = reader(t)
    a.acknowledge([(0, 0, ACCEPT)], "before", share_session_epoch=OPEN)
    a.acknowledge([], "before, empty", share_session_epoch=OPEN)
    a.fetch(place)
    a.acknowledge([(0, 0, ACCEPT)], "in it", share_session_epoch=OPEN)
    a.acknowledge([(0, 0, ACCEPT)])


@AREA.scenario
def acknowledgements_in_the_first_fetch(t: Stage) -> None:
    """ShareFetch with epoch 0 and acknowledgements is refused; an existing session stays."""
    place, a = reader(t)
    a.fetch(place, note="without a session", acks=[(0, 0, ACCEPT)])
    a.fetch(place)
    a.fetch(place, note="in a session", acks=[(0, 0, ACCEPT)], share_session_epoch=OPEN)
    a.session = 1
    a.acknowledge([(0, 0, ACCEPT)])


@AREA.each(records=["acquired", "none"])
def opened_twice(t: Stage, records: str) -> None:
    """A member reopens its session, and its acquired records stay acquired ({records})."""
    place, a = reader(t)
    if records == "acquired":
        a.fetch(place)
    else:
        a.nothing(place, max_records=0)
    a.fetch(place, note="again", share_session_epoch=OPEN, wait_ms=200)
    a.acknowledge([(0, 4, ACCEPT)])
    looks.stored(t, place)


@AREA.each(by=_ENDS, acks=["none", "all", "a part"])
def closed(t: Stage, by: str, acks: str) -> None:
    """{by} closes a session and acknowledges {acks}; another member gets the other records."""
    place, a, b = readers(t)
    a.fetch(place)
    said = {"none": [], "all": [(0, 4, ACCEPT)], "a part": [(1, 2, ACCEPT)]}[acks]
    if by == "fetch":
        a.nothing(note="closes", acks=said, share_session_epoch=CLOSE)
    else:
        a.close(said)
    b.fetch(place, wait_ms=200)
    looks.stored(t, place)
    a.nothing(note="in the closed session", share_session_epoch=1)


@AREA.each(by=_ENDS)
def closed_twice(t: Stage, by: str) -> None:
    """{by} closes a session twice; then it is opened again."""
    place, a = reader(t)
    a.fetch(place)
    for _ in range(2):
        if by == "fetch":
            a.nothing(share_session_epoch=CLOSE)
        else:
            a.close()
    a.fetch(place, note="opens again")


@AREA.scenario
def final_fetch_brings_no_records(t: Stage) -> None:
    """A fetch with epoch -1 names a partition with records."""
    place, a = reader(t)
    a.nothing(place, max_records=0)
    a.fetch(place, note="closes", share_session_epoch=CLOSE, wait_ms=200)
    a.fetch(place, note="opens")


@AREA.scenario
def final_fetch_of_an_empty_session(t: Stage) -> None:
    """A session without partitions is opened and closed."""
    a = ShareMember(t, "A")
    a.fetch(note="opens")
    a.fetch(note="goes on")
    a.fetch(note="closes", share_session_epoch=CLOSE)


@AREA.scenario
def disconnected(t: Stage) -> None:
    """The connection of a session closes: the session ends and its records are redelivered."""
    place, a, b = readers(t)
    a.fetch(place)
    b.nothing(place, note="opens")
    pending = b.fetching()
    t.parked(pending)
    a.disconnect()
    b.fetched(pending)
    a.nothing(note="in the old session")
    looks.described(t)


@AREA.scenario
def over_another_connection(t: Stage) -> None:
    """A session is used over another connection, but ends with the connection that opened it."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    twin = a.twin("A over another connection")
    twin.acknowledge([(0, 1, ACCEPT)])
    twin.fetch(max_records=1)
    a.disconnect()
    twin.nothing()
    twin.fetch(place, note="opens", share_session_epoch=OPEN)


@AREA.scenario
def two_connections_of_one_member(t: Stage) -> None:
    """A second connection reopens the session, and the first one continues with its epoch."""
    place, a = reader(t, (2, 2, 2))
    a.fetch(place, max_records=1)
    twin = a.twin("twin")
    twin.fetch(place, max_records=1, share_session_epoch=OPEN)
    a.fetch(max_records=1)
    twin.fetch(max_records=1)
    a.disconnect()
    twin.acknowledge([(0, 1, ACCEPT)], "after the first connection is gone", share_session_epoch=2)


@AREA.scenario
def two_sessions_over_one_connection(t: Stage) -> None:
    """Two members share a connection: when it closes, only the later session ends."""
    place, a, b = readers(t, (2, 2))
    a.fetch(place, max_records=1)
    b.share_connection(a)
    b.fetch(place, max_records=1)
    a.disconnect()
    b.share_connection(a)
    a.acknowledge([(0, 0, ACCEPT)])
    b.acknowledge([(2, 2, ACCEPT)])


@AREA.scenario
def forgotten(t: Stage) -> None:
    """A forgotten partition returns no records; its acquired records can be acknowledged."""
    place, (a,) = group(t, "A", (), partitions=2)
    other = (place[0], 1)
    a.nothing(place, other, note="opens")
    produce(t, place, 2)
    a.fetch()
    produce(t, place, 1)
    produce(t, other, 3)
    t.sleep(0.1)
    a.fetch(note="forgets", forget=[place])
    a.acknowledge([(0, 1, ACCEPT)])
    produce(t, place, 1)
    a.nothing()
    a.fetch(place, note="adds it again")


@AREA.scenario
def forgotten_and_closed(t: Stage) -> None:
    """Acquired records of a forgotten partition are not released when the session closes."""
    place, a, b = readers(t)
    a.fetch(place)
    a.nothing(note="forgets", forget=[place])
    a.close()
    b.nothing(place)
    looks.stored(t, place)


@AREA.each(what=["another partition", "unknown id", "a partition not in it"])
def forgotten_for_nothing(t: Stage, what: str) -> None:
    """A request forgets something that is not in the session: {what}."""
    place, a = reader(t)
    a.nothing(place, max_records=0)
    places: dict[str, tuple[str | bytes, int]] = {
        "another partition": (place[0], 5),
        "unknown id": (bytes(range(16)), 0),
        "a partition not in it": (t.t3, 1),
    }
    a.fetch(note="forgets", forget=[places[what]])


@AREA.scenario
def forgotten_and_fetched_at_once(t: Stage) -> None:
    """One request has the same partition in Topics and in ForgottenTopicsData."""
    place, a = reader(t)
    a.nothing(place, max_records=0)
    a.nothing(place, note="both", forget=[place])
    a.nothing(note="afterwards")


@AREA.scenario
def named_twice(t: Stage) -> None:
    """A request names a partition twice, and a topic twice."""
    place, a = reader(t)
    once = {"partition_index": 0, "acknowledgement_batches": []}
    for note, counts in (("partition", [2]), ("topic", [1, 1])):
        topics = [
            {"topic_id": topic_id(t, place[0]), "partitions": [once] * count} for count in counts
        ]
        a.fetch(note=f"{note} twice", topics=topics, share_session_epoch=OPEN, wait_ms=200)


@AREA.scenario
def added_later(t: Stage) -> None:
    """A session without partitions gets a partition, which stays in the session."""
    place, a = reader(t, (2, 2))
    a.nothing(note="opens")
    a.fetch(place, note="adds", max_records=1)
    a.fetch(note="goes on", max_records=1)
    a.nothing(place, note="adds again")


@AREA.scenario
def epochs_of_both_requests(t: Stage) -> None:
    """Fetches and acknowledgements, even empty ones, advance the same session epoch."""
    place, a = reader(t, (1, 1, 1))
    a.fetch(place, max_records=1)
    for offset in range(2):
        a.acknowledge([(offset, offset, ACCEPT)])
        a.fetch(max_records=1)
    a.nothing()
    a.acknowledge([(9, 9, ACCEPT)], "of nothing")
    a.acknowledge([(2, 2, ACCEPT)])
    t.rec("next epoch", a.session)


@AREA.scenario
def acknowledge_of_a_partition_not_in_the_session(t: Stage) -> None:
    """ShareAcknowledge is sent for acquired records of a partition not in the session any more."""
    place, a = reader(t)
    a.fetch(place)
    a.nothing(note="opens anew without it", share_session_epoch=OPEN)
    a.acknowledge([(0, 4, ACCEPT)])
    looks.stored(t, place)


@AREA.scenario
def refused_acknowledgements_count(t: Stage) -> None:
    """An acknowledgement with partition errors advances the session."""
    place, a = reader(t)
    a.fetch(place)
    a.acknowledge([(3, 1, ACCEPT)], "backwards")
    a.acknowledge({(place[0], 3): [(0, 0, ACCEPT)]}, "unknown partition")
    a.acknowledge([(0, 4, RELEASE)])
    t.rec("next epoch", a.session)


@AREA.scenario
def members_that_join_again(t: Stage) -> None:
    """A member leaves and rejoins with its id, and its session continues."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.leave()
    a.epoch = 0
    a.joined(place[0])
    a.fetch(max_records=1)
    a.acknowledge([(0, 3, ACCEPT)])
    looks.described(t)
    (b,) = join(t, "B", place[0])
    b.nothing(place)


@AREA.scenario
def behind_a_waiting_fetch(t: Stage) -> None:
    """A request behind a waiting fetch is answered after it on the same connection."""
    place, a = reader(t, (2,))
    a.fetch(place)
    waiting = a.fetching()
    t.parked(waiting)
    behind = a.acknowledging([(0, 1, ACCEPT)], share_session_epoch=2)
    t.parked(behind)
    looks.stored(t, place)
    produce(t, place, 1)
    a.fetched(waiting)
    a.acknowledged(behind)
    looks.stored(t, place)
