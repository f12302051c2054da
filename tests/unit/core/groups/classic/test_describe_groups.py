"""DescribeGroups and ListGroups of a classic group."""

import pytest

from protocol.apis.list_groups import ListedGroup, ListGroupsRequest
from protocol.errors import ErrorCode
from tests.unit.core.groups.context import GroupContext, commit

E = ErrorCode


def test_describe_shows_metadata_in_stable_only() -> None:
    """Outside of Stable DescribeGroups has no protocol and metadata, but the last assignments."""
    context = GroupContext()
    a = context.member("A", instance_id="i1", protocols=[("range", b"a")])
    (a, b) = context.stable(a, context.member("B", protocols=[("range", b"b")]))
    described = context.broker.describe()
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first = described.members[0]
    assert (first.group_instance_id, first.client_id, first.client_host) == (
        "i1",
        "A",
        "/127.0.0.1",
    )
    assert (first.member_metadata, first.member_assignment) == (b"a", b"asg-A")
    a.join()
    for state in ("PreparingRebalance", "CompletingRebalance"):
        described = context.broker.describe()
        assert (described.group_state, described.protocol_data) == (state, "")
        assert [one.member_metadata for one in described.members] == [b"", b""]
        assert [one.member_assignment for one in described.members] == [b"asg-A", b"asg-B"]
        b.join()


@pytest.mark.parametrize(("version", "error"), [(5, E.NONE), (6, E.GROUP_ID_NOT_FOUND)])
def test_describe_of_an_unknown_group(version: int, error: ErrorCode) -> None:
    """DescribeGroups shows an unknown group as Dead; since v6 there is an error with a message."""
    described = GroupContext().broker.describe(version)
    assert (described.error_code, described.group_state) == (error, "Dead")
    assert (described.error_message is not None) is (version == 6)


def test_list_entry() -> None:
    """ListGroups shows type, state and kind; a standalone group has no type."""
    context = GroupContext()
    commit(context.broker, ("one", 0, 1))
    (entry,) = context.broker.groups.listed_groups()
    assert entry == ListedGroup(
        group_id="g", protocol_type="", group_state="Empty", group_type="classic"
    )
    context.stable("A")
    (entry,) = context.broker.groups.listed_groups()
    assert entry.group_state == "Stable"


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ([], [], True),
        (["stable"], [], True),
        (["EMPTY", "STABLE"], ["Classic"], True),
        (["Empty"], [], False),
        (["Stable"], ["consumer"], False),
        (["nonsense"], [], False),
    ],
)
def test_list_filters(states: list[str], types: list[str], listed: bool) -> None:
    """ListGroups filters ignore case; empty filters match all groups, unknown names match none."""
    context = GroupContext()
    context.stable("A")
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    assert bool(context.broker.send(request, 5).response.groups) is listed
