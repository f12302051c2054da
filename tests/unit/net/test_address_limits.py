"""The limit of connections per address."""

from __future__ import annotations

import asyncio

import pytest

from coordinator_server.config.config import Config, ConfigError
from coordinator_server.net.address_limits import AddressLimits
from tests.unit.net.fakes import FakeNetwork

LIMIT, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"


def test_one_more_is_closed() -> None:
    """A connection beyond the limit of its address is closed; closed connections make room."""
    network = FakeNetwork({LIMIT: "2", OVERRIDES: "10.0.0.8:1, ::1:3"})
    refused = []
    for peer, count in (("10.0.0.7", 3), ("10.0.0.8", 2), ("::1", 4)):
        made = [network.connect(peer) for _ in range(count)]
        refused.append([transport.aborted for _, transport in made])
        for connection, _ in made:
            connection.connection_lost(None)
        assert not network.connect(peer)[1].aborted
    assert refused == [[False, False, True], [False, True], [False, False, False, True]]


def test_without_a_limit_nothing_is_refused() -> None:
    """By default there is no limit, but connections are counted for later limits."""
    limits = AddressLimits(Config())
    assert limits.opened("10.0.0.7") is None
    limits.closed("10.0.0.7")
    limits.closed("10.0.0.7")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({LIMIT: "0"}, "max.connections.per.ip: 0 needs"),
        ({OVERRIDES: "10.0.0.7"}, "'10.0.0.7' is not HOST:COUNT"),
        ({OVERRIDES: "10.0.0.7:many"}, "'10.0.0.7:many' is not HOST:COUNT"),
        ({OVERRIDES: "10.0.0.7:1,"}, "'' is not HOST:COUNT"),
        ({OVERRIDES: "10.0.0.7:+-1"}, "'10.0.0.7:\\+-1' is not HOST:COUNT"),
        ({OVERRIDES: "no.such.host.invalid:1"}, "no.such.host.invalid: "),
        ({OVERRIDES: f"{'x' * 64}:1"}, "x: "),
    ],
)
def test_limits_that_cannot_be_used(settings: dict[str, str], expected: str) -> None:
    """Invalid limits are refused at the start."""
    with pytest.raises(ConfigError, match=expected):
        AddressLimits(Config(overrides=settings))


def set_dynamic(config: Config, **values: int | str) -> None:
    """Set limits at run time; underscores in names stand for dots."""
    config.set_dynamic(({}, {}), {name.replace("_", "."): one for name, one in values.items()}, {})


async def test_a_host_keeps_its_address_until_a_lookup_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host keeps its address until a new lookup succeeds.

    A config change without new overrides looks nothing up.
    """
    lookups: dict[str, asyncio.Future[str]] = {}

    def look_up(_: None, __: object, host: str) -> asyncio.Future[str]:
        assert host not in lookups
        lookups[host] = asyncio.get_running_loop().create_future()
        return lookups[host]

    config = Config(overrides={LIMIT: "0", OVERRIDES: "localhost:1"})
    limits = AddressLimits(config)
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", look_up)
    limits.settings_changed()
    assert not lookups
    assert limits.opened("127.0.0.1") is None
    limits.closed("127.0.0.1")
    set_dynamic(config, max_connections_per_ip_overrides="localhost:2,other.invalid:1")
    limits.settings_changed()
    assert limits._overrides == {"127.0.0.1": 2}
    lookups.pop("localhost").set_exception(ConfigError("no such host"))
    lookups.pop("other.invalid").set_result("10.0.0.8")
    await asyncio.sleep(0)
    assert limits._overrides == {"127.0.0.1": 2, "10.0.0.8": 1}
    set_dynamic(config, max_connections_per_ip_overrides="localhost:3")
    limits.settings_changed()
    lookups.pop("localhost").set_result("127.0.0.2")
    await asyncio.sleep(0)
    assert limits._overrides == {"127.0.0.2": 3}


async def test_counts_are_those_that_the_check_of_a_change_accepts() -> None:
    """Counts may have a sign, as in Java's Integer.parseInt."""
    config = Config()
    limits = AddressLimits(config)
    set_dynamic(config, max_connections_per_ip_overrides="10.0.0.7:+1,10.0.0.8:-1,10.0.0.9:+-1")
    limits.settings_changed()
    assert limits._overrides == {"10.0.0.7": 1, "10.0.0.8": -1}


def test_a_limit_of_zero_that_lost_its_overrides_does_not_prevent_a_start() -> None:
    """A stored dynamic limit of 0 is ignored at a start without the overrides that it needs."""
    config = Config(overrides={LIMIT: "1"})
    set_dynamic(config, max_connections_per_ip=0)
    limits = AddressLimits(config)
    assert limits.opened("10.0.0.7") is None
    assert limits.opened("10.0.0.7") == "10.0.0.7 has 1 connections, max.connections.per.ip"
