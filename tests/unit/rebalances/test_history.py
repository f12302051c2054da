"""The rebalance records in memory: complete, few and small."""

from __future__ import annotations

from random import Random
from uuid import UUID

from coordinator_server.rebalances.journal import RebalanceHistory
from coordinator_server.rebalances.record import encode_record
from tests.unit.core.groups.classic.explained import ExplainedGroup


def record(names: list[str]) -> bytes:
    """Return a first rebalance, with member ids as the broker makes them."""
    group = ExplainedGroup(max_size=1_000)
    members = group.completing(*names)
    group.assign({one: (index,) for index, one in enumerate(members)})
    value = encode_record(group.written()[-1])
    random = Random(len(names))
    for member in members:
        member_id = f"consumer-1-{UUID(int=random.getrandbits(128))}"
        value = value.replace(f'"{member.id}"'.encode(), f'"{member_id}"'.encode())
    return value


def test_records_come_out_as_they_went_in() -> None:
    """The history has the last records of each group, oldest first, until they are dropped."""
    history = RebalanceHistory(2)
    for value in (b"{}", b'{"a":1}', b"x" * 100_000):
        history.add("g", value)
    history.add("h", b"1")
    assert history.of("g") == [b'{"a":1}', b"x" * 100_000]
    history.drop("g")
    history.drop("g")
    assert (history.of("g"), history.of("h")) == ([], [b"1"])
    history.clear()
    assert history.of("h") == []


def test_a_history_of_no_size_keeps_nothing() -> None:
    """A history of size 0 stores no record and compresses none."""
    history = RebalanceHistory(0)
    history.add("g", b"1")
    assert history.of("g") == []


def test_records_are_kept_small() -> None:
    """A record with one member takes a quarter of its JSON's size, with ten members a seventh."""
    history = RebalanceHistory(1)
    one, ten = record(["A"]), record([f"m{number}" for number in range(10)])
    history.add("one", one)
    history.add("ten", ten)
    assert (history.of("one"), history.of("ten")) == ([one], [ten])
    assert 4 * len(history._by_group["one"][0]) < len(one)
    assert 7 * len(history._by_group["ten"][0]) < len(ten)
