"""Parts of the broker that are built when they are first needed."""

from coordinator_server.on_demand import OnDemand


def test_a_part_is_built_once_and_ended_once() -> None:
    """Every `get` returns the part that the first `get` has built."""
    ended: list[object] = []
    on_demand = OnDemand(object, ended.append)
    assert on_demand.built is None
    part = on_demand.get()
    assert on_demand.get() is part
    assert on_demand.built is part
    assert not ended
    on_demand.close()
    assert ended == [part]


def test_a_part_that_is_built_after_the_end_is_ended() -> None:
    """A late request does not start a part of a broker that is shutting down."""
    ended: list[object] = []
    on_demand = OnDemand(object, ended.append)
    on_demand.close()
    assert not ended
    assert ended == [on_demand.get()]
