"""Descriptions of KIP-848 groups and classic groups."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator_server.client import Address, Client, ClientError, Lookup
from coordinator_server.kafka_tools.groups_description import print_members, read_groups
from protocol.apis.consumer_group_describe import (
    AssignedTopicPartitions,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    MemberAssignment,
)
from protocol.apis.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol.errors import ErrorCode


def assignment(topic: str, *indexes: int) -> MemberAssignment:
    """Return partitions of one topic."""
    partitions = AssignedTopicPartitions(topic_name=topic, partitions=list(indexes))
    return MemberAssignment(topic_partitions=[partitions])


class Coordinator:
    """A client of one broker, whose groups are classic unless their name starts with `new`."""

    def __init__(self, error: ClientError | None = None) -> None:
        self.nodes = {1: Address("h", 9092)}
        self.error = error
        self.member_types = [1, 1]

    def call_on(self, _: str, lookup: Lookup, __: str, ask: Any) -> Any:
        """Make one attempt and return its result."""
        return ask(lookup.find())

    def coordinator(self, _: str) -> int:
        """Return broker 1."""
        return 1

    def ask(self, request: Any, node_id: int) -> Any:
        """Return the description of a group, as Kafka 4.3 does."""
        assert node_id == 1
        if not isinstance(request, ConsumerGroupDescribeRequest):
            (name,) = request.groups
            assert not name.startswith("new"), name
            return DescribeGroupsResponse(groups=[DescribedGroup(group_state="Stable")])
        if self.error is not None:
            raise self.error
        (name,) = request.group_ids
        if not name.startswith("new"):
            code = ErrorCode.GROUP_ID_NOT_FOUND
            return ConsumerGroupDescribeResponse(groups=[DescribedConsumerGroup(error_code=code)])
        members = [
            DescribedConsumerMember(
                member_id=f"m{number}",
                client_id="c",
                client_host="/h",
                member_epoch=4 + number,
                assignment=assignment("t", number),
                target_assignment=assignment("t", number, 2),
                member_type=kind,
            )
            for number, kind in enumerate(self.member_types)
        ]
        group = DescribedConsumerGroup(
            group_state="Reconciling", group_epoch=5, assignment_epoch=6, members=members
        )
        return ConsumerGroupDescribeResponse(groups=[group])


def columns(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the printed columns, row by row."""
    return [line.split() for line in capsys.readouterr().out.splitlines() if line]


@pytest.mark.parametrize("error", [None, ClientError(ErrorCode.UNSUPPORTED_VERSION)])
def test_classic_groups_are_described_by_the_older_api(error: ClientError | None) -> None:
    """If the new API refuses the group, or the broker lacks the new API, the old API is used."""
    client = Coordinator(error)
    (group,) = read_groups(cast(Client, client), ["old"])
    assert (group.state, group.epoch, group.target_epoch) == ("Stable", None, None)


def test_another_error_is_not_taken_for_a_classic_group() -> None:
    """Another error is raised as by Java's client, without using the old API."""
    refused = ClientError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    client = Coordinator(error=refused)
    with pytest.raises(Exception, match="authorization") as caught:
        read_groups(cast(Client, client), ["new"])
    assert caught.value.__cause__ is refused


def test_members_have_epochs_and_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    """Members are shown with their epoch, assignment and target."""
    print_members(read_groups(cast(Client, Coordinator()), ["new"]), verbose=True)
    header, first, second = columns(capsys)
    assert header[-4:] == [
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
    ]
    assert first[-4:] == ["4", "t:0", "6", "t:0,2"]
    assert second[-4:] == ["5", "t:1", "6", "t:1,2"]


def test_a_group_that_is_being_upgraded_shows_which_members_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """During an upgrade an additional column shows which members are upgraded."""
    client = Coordinator()
    client.member_types = [0, 1]
    print_members(read_groups(cast(Client, client), ["new"]), verbose=True)
    assert [row[-1] for row in columns(capsys)] == ["UPGRADED", "false", "true"]


def test_a_broker_that_does_not_know_the_kind_of_members(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No UPGRADED column is shown for Kafka before 4.0, which lacks the members' protocol."""
    client = Coordinator()
    client.member_types = [-1, 1]
    groups = read_groups(cast(Client, client), ["new"])
    assert [member.is_upgraded for member in groups[0].members] == [None, True]
    print_members(groups, verbose=True)
    assert "UPGRADED" not in capsys.readouterr().out


def test_groups_come_in_order() -> None:
    """Groups are sorted by name and listed once."""
    groups = read_groups(cast(Client, Coordinator()), ["new", "b", "a", "b"])
    assert [group.name for group in groups] == ["a", "b", "new"]
