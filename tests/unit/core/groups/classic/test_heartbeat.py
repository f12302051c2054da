"""Heartbeat: every state, every caller, and its cost."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from coordinator_server.coordinator.operations import PendingRequest
from coordinator_server.core.groups.classic.heartbeat import HEARTBEAT, heartbeat
from coordinator_server.core.groups.effects import Effects
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer
from tests.unit.core.groups.context import GroupContext, Member

E = ErrorCode

MOST_CALLS = 6


def in_state(state: str) -> Member:
    """Return a static member of a group in `state`; in Empty the member has left."""
    context = GroupContext()
    a = context.member("A", instance_id="i1")
    if state == "completing":
        context.completing(a)
    else:
        context.stable(a)
        if state == "preparing":
            context.member("N").join()
        elif state == "empty":
            a.leave()
    return a


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("empty", E.UNKNOWN_MEMBER_ID),
        ("preparing", E.REBALANCE_IN_PROGRESS),
        ("completing", E.NONE),
        ("stable", E.NONE),
    ],
)
@pytest.mark.parametrize("with_instance", [True, False])
def test_a_member_of_this_generation(state: str, error: ErrorCode, with_instance: bool) -> None:
    """A heartbeat of a current member gets the response for the group's state.

    The instance id may be missing.
    """
    a = in_state(state)
    instance_id = a.instance_id if with_instance else None
    assert a.heartbeat(group_instance_id=instance_id) is error


@pytest.mark.parametrize("state", ["preparing", "completing", "stable"])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation_id": 2}, E.ILLEGAL_GENERATION),
        ({"generation_id": 0}, E.ILLEGAL_GENERATION),
        ({"generation_id": -1}, E.ILLEGAL_GENERATION),
        ({"member_id": "ghost", "group_instance_id": None}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "group_instance_id": None}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost"}, E.FENCED_INSTANCE_ID),
        ({"member_id": ""}, E.FENCED_INSTANCE_ID),
        ({"member_id": "ghost", "generation_id": 9}, E.FENCED_INSTANCE_ID),
        ({"group_instance_id": "nope"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_wrong_caller(state: str, changes: dict[str, object], error: ErrorCode) -> None:
    """A heartbeat's instance id, member id and generation are checked in this order."""
    assert in_state(state).heartbeat(**changes) is error


@pytest.mark.parametrize("generation_id", [-1, 0, 2])
def test_a_dynamic_member_of_another_generation(generation_id: int) -> None:
    """A heartbeat's generation is also checked without an instance id."""
    context = GroupContext()
    (a,) = context.stable("A")
    assert a.heartbeat(generation_id=generation_id) is E.ILLEGAL_GENERATION


@pytest.mark.parametrize("changes", [{}, {"generation_id": 7}, {"group_instance_id": "nope"}])
def test_an_empty_group_knows_nobody(changes: dict[str, object]) -> None:
    """In Empty a heartbeat gets UNKNOWN_MEMBER_ID, never ILLEGAL_GENERATION."""
    assert in_state("empty").heartbeat(**changes) is E.UNKNOWN_MEMBER_ID


def test_groups_that_are_not_there() -> None:
    """A heartbeat to an unknown, unnamed or just unloaded group gets the matching error."""
    context = GroupContext()
    stranger = context.member("X")
    assert stranger.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat(group_id="") is E.INVALID_GROUP_ID
    (a,) = context.stable("A")
    with context.broker.one_drain():
        context.broker.unload()
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=a.id)
        answer = context.broker.send(request, 4)
    assert answer.error is E.NOT_COORDINATOR


def test_heartbeats_keep_a_member_alive() -> None:
    """Each heartbeat restarts the session; without heartbeats a session ends at its deadline."""
    context = GroupContext()
    (a,) = context.stable("A")
    for _ in range(5):
        context.broker.advance(9_999)
        assert a.heartbeat() is E.NONE
    context.broker.advance(9_999)
    assert context.state == "Stable"
    context.broker.advance(1)
    assert context.state == "Empty"
    assert a.heartbeat() is E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_in_preparing_renews_the_session() -> None:
    """A heartbeat that gets REBALANCE_IN_PROGRESS renews the session."""
    context = GroupContext()
    (a,), _, newcomer = context.preparing("A", rebalance_ms=60_000)
    for _ in range(6):
        context.broker.advance(9_000)
        assert a.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert newcomer.parked


def calls_of(action: Callable[[], None]) -> int:
    """Return how many functions `action` calls, ours and the interpreter's.

    The number measures the cost without a clock.
    """
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("size", [10, 1000])
def test_a_heartbeat_is_cheap(size: int) -> None:
    """A heartbeat costs the same few look-ups in a group of ten members and of a thousand."""
    context = GroupContext(max_size=1000)
    members = context.stable(*(f"m{number}" for number in range(size)))
    group, effects = context.broker.group, Effects()
    assert group is not None
    requests = [
        PendingRequest(
            HEARTBEAT,
            Answer(HeartbeatRequest(group_id="g", generation_id=1, member_id=member.id)),
            HeartbeatRequest(group_id="g", generation_id=1, member_id=member.id),
        )
        for member in members
    ]

    def beat() -> None:
        for one in requests:
            heartbeat(group, one.request, one, 2_000_000, effects)

    assert calls_of(beat) / size <= MOST_CALLS
    assert len(effects.replies) == size
