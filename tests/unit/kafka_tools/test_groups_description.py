"""Groups of KIP-848 among those to describe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.client import Address, Client
from coordinator_server.kafka_tools.frame import NotHereError
from coordinator_server.kafka_tools.groups_description import read_groups
from protocol.errors import ErrorCode


class Coordinator:
    """A client of one broker, whose groups are classic unless their name begins with `new`."""

    def __init__(self) -> None:
        self.nodes = {1: Address("h", 9092)}

    def call(self, _: str, attempt: Any) -> Any:
        """One attempt."""
        return attempt()

    def coordinator(self, _: str) -> int:
        """Broker 1."""
        return 1

    def ask(self, request: Any, node_id: int) -> Any:
        """The description of a group, as Kafka 4.3 answers DescribeGroups."""
        (name,) = request.groups
        group = SimpleNamespace(
            error_code=0, error_message=None, group_state="Empty", protocol_data="", members=[]
        )
        if name.startswith("new"):
            group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            group.error_message = f"Group {name} is not a classic group."
        return SimpleNamespace(groups=[group])


def test_a_group_of_kip_848_is_refused_with_what_to_use() -> None:
    """It is there, so "not found" would be wrong."""
    with pytest.raises(NotHereError, match=r"kafka-consumer-groups\.sh of Apache Kafka"):
        read_groups(cast(Client, Coordinator()), ["new"])


def test_it_does_not_hold_up_the_other_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """With --all-groups the classic ones are described, and one line names it."""
    groups = read_groups(cast(Client, Coordinator()), ["new", "b", "a"])
    assert [group.name for group in groups] == ["a", "b"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kafka-consumer-groups: group new uses group.protocol=consumer")
