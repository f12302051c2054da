"""Client quotas: changes, descriptions, and persistence."""

from __future__ import annotations

from collections.abc import Generator
from math import inf, isnan, nan
from typing import Any, TypeVar

import pytest

from coordinator_server.security.quotas import entities
from coordinator_server.security.quotas.client_quotas import ClientQuotas, address_of
from coordinator_server.security.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    NO_ERROR,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Change,
    Component,
    FilterError,
    TooManyChangesError,
    changed,
    entity_of,
)
from coordinator_server.security.quotas.rates import UNLIMITED
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from storage.security_state import SecurityState

T = TypeVar("T")
RATE = [(PRODUCER_BYTE_RATE, 5.0)]


def result(steps: Generator[None, None, T]) -> T:
    """Run the steps; return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: T = end.value
        return found


class Follower:
    """Counts changes."""

    changes = 0

    def quotas_changed(self) -> None:
        """Count a change."""
        self.changes += 1


def kept(disk: MemoryDisk) -> ClientQuotas:
    """Return the quotas of a data directory."""
    return ClientQuotas(SecurityState(disk, "data"))


@pytest.fixture
def disk() -> MemoryDisk:
    """Return a disk with a data directory."""
    made = MemoryDisk()
    made.mkdir("data")
    return made


def alter(
    quotas: ClientQuotas, *operations: tuple[str, float | None], **names: str | None
) -> str | None:
    """Change one entity; return the error message."""
    entity = {kind.replace("_", "-"): name for kind, name in names.items()}
    changes = [Change(entity, operations)]
    results = result(quotas.alter(changes, {"127.0.0.1": "127.0.0.1"}, validate_only=False))
    ((code, message),) = results.values()
    assert (code is ErrorCode.NONE) == (message is None)
    return message


def test_quotas_are_kept(disk: MemoryDisk) -> None:
    """Quotas survive a restart, including default quotas."""
    quotas = kept(disk)
    follower = Follower()
    quotas.followers.add(follower)
    assert alter(quotas, *RATE, user=None) is None
    assert alter(quotas, (CONTROLLER_MUTATION_RATE, 0.5), client_id="c", user="u") is None
    assert alter(quotas, ("connection_creation_rate", 3.0), ip=None) is None
    assert alter(quotas, ("connection_creation_rate", 4.0), ip="127.0.0.1") is None
    assert alter(quotas, ("connection_creation_rate", None), ip="127.0.0.1") is None
    assert follower.changes == 5
    again = kept(disk)
    assert again
    assert result(again.describe([], strict=False)) == [
        ((("user", None),), {PRODUCER_BYTE_RATE: 5.0}),
        ((("client-id", "c"), ("user", "u")), {CONTROLLER_MUTATION_RATE: 0.5}),
        ((("ip", None),), {"connection_creation_rate": 3.0}),
    ]
    limits = again.limits(PRODUCER_BYTE_RATE)
    assert limits.limit(limits.tags("any", "c")) == 5.0
    limits = again.limits(CONTROLLER_MUTATION_RATE)
    assert limits.limit(limits.tags("u", "d")) == UNLIMITED
    assert again.of_addresses() == {None: 3.0}
    again.clear()
    again.clear()
    assert result(kept(disk).describe([], strict=False)) == []


def test_nobody_is_told_of_what_changes_nothing(disk: MemoryDisk) -> None:
    """Followers are not called for changes without effect.

    Such changes are the same value, an unset key, and validate_only.
    """
    quotas = kept(disk)
    alter(quotas, *RATE, user="u")
    follower = Follower()
    quotas.followers.add(follower)
    alter(quotas, *RATE, user="u")
    alter(quotas, ("nothing", None), user="u")
    checked = [Change({"user": "v"}, RATE)]
    assert result(quotas.alter(checked, {}, validate_only=True)) == {(("user", "v"),): NO_ERROR}
    assert follower.changes == 0
    alter(quotas, (PRODUCER_BYTE_RATE, None), user="u")
    assert follower.changes == 1
    assert result(quotas.describe([], strict=False)) == []


def test_addresses_are_those_of_hosts(disk: MemoryDisk) -> None:
    """IP quotas apply to the addresses of hosts; a host that no longer resolves has no quota."""
    quotas = kept(disk)
    change = [Change({"ip": "host.example"}, [("connection_creation_rate", 7.0)])]
    result(quotas.alter(change, {"host.example": "10.0.0.1"}, validate_only=False))
    assert quotas.of_addresses() == {"10.0.0.1": 7.0}
    change = [Change({"ip": "127.0.0.1"}, [("connection_creation_rate", 8.0)])]
    result(quotas.alter(change, {"127.0.0.1": "127.0.0.1"}, validate_only=False))
    assert kept(disk).of_addresses()["127.0.0.1"] == 8.0
    assert address_of("no.such.host.invalid") is None


@pytest.mark.parametrize(
    ("names", "operations", "message"),
    [
        ({}, RATE, "Invalid empty client quota entity"),
        ({"topic": "t"}, RATE, "Unhandled client quota entity type: topic"),
        ({"user": ""}, RATE, "Empty user not supported"),
        (
            {"user": "u", "ip": "127.0.0.1"},
            RATE,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId",
        ),
        ({"ip": "nowhere"}, [], "nowhere is not a valid IP or resolvable host."),
        ({"user": "u"}, [("x", 1.0)], "Invalid configuration key x"),
        (
            {"user": "u"},
            [(PRODUCER_BYTE_RATE, 0.5)],
            f"{PRODUCER_BYTE_RATE} cannot be a fractional value.",
        ),
        (
            {"ip": None},
            [("connection_creation_rate", 2.0**31)],
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            {"user": "u"},
            [(PRODUCER_BYTE_RATE, -inf)],
            f"Quota {PRODUCER_BYTE_RATE} must be a finite number",
        ),
        (
            {"user": "u"},
            [("request_percentage", nan)],
            "Quota request_percentage must be a finite number",
        ),
        (
            {"user": "u"},
            [(PRODUCER_BYTE_RATE, 0.0)],
            f"Quota {PRODUCER_BYTE_RATE} must be greater than 0",
        ),
        (
            {"user": None},
            [RATE[0], RATE[0]],
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})",
        ),
    ],
)
def test_bad_changes_are_refused(
    disk: MemoryDisk, names: dict[str, str | None], operations: Any, message: str
) -> None:
    """Invalid quota changes are refused with Kafka's texts, and nothing is changed."""
    quotas = kept(disk)
    assert alter(quotas, *operations, **{key.replace("-", "_"): one for key, one in names.items()})
    results = result(quotas.alter([Change(names, operations)], {}, validate_only=False))
    assert list(results.values()) == [(ErrorCode.INVALID_REQUEST, message)]
    assert result(quotas.describe([], strict=False)) == []


@pytest.mark.parametrize(
    ("component", "text"),
    [
        (Component("", 0, "x"), "Invalid empty entity type."),
        (Component("topic", 0, "x"), "Unsupported entity type topic"),
        (Component("user", 3, None), "Unknown match type 3"),
        (
            Component("user", 0, None),
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            Component("user", 1, "x"),
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            Component("client-id", 2, None),
            "Entity type client-id cannot appear more than once in the filter.",
        ),
        (
            Component("ip", 2, None),
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        ),
    ],
)
def test_bad_filters_are_refused(disk: MemoryDisk, component: Component, text: str) -> None:
    """Invalid quota filters are refused with Kafka's texts."""
    with pytest.raises(FilterError, match=text.replace(".", r"\.")):
        result(kept(disk).describe([Component("client-id", 2, None), component], strict=False))


def test_filters(disk: MemoryDisk) -> None:
    """Filters select by name, by default, by type, and strictly."""
    quotas = kept(disk)
    for user in ("u", "v", None):
        alter(quotas, *RATE, user=user)
    alter(quotas, *RATE, user="u", client_id=None)

    def found(*components: Component, strict: bool = False) -> list[dict[str, str | None]]:
        return [dict(entity) for entity, _ in result(quotas.describe(components, strict=strict))]

    by_name, by_default, any_user = (Component("user", 0, "u"), Component("user", 1, None),
                                     Component("user", 2, None))  # fmt: skip
    assert found(by_name) == [{"user": "u"}, {"user": "u", "client-id": None}]
    assert found(by_name, strict=True) == [{"user": "u"}]
    assert found(by_default) == [{"user": None}]
    assert len(found(any_user)) == 4
    assert found(any_user, Component("client-id", 1, None)) == [{"user": "u", "client-id": None}]
    assert found(strict=True) == []
    assert len(found()) == 4


def test_what_is_no_number_can_be_read(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored NaN, which releases before Kafka 4.4 accepted, can be read."""
    quotas = kept(disk)
    monkeypatch.setattr(entities, "_value_error", lambda *_: None)
    assert alter(quotas, (PRODUCER_BYTE_RATE, nan), user="u") is None
    ((_, values),) = result(kept(disk).describe([], strict=False))
    assert isnan(values[PRODUCER_BYTE_RATE])


def test_entities_have_one_order() -> None:
    """Quota entities are listed in one order, whatever the order of the request."""
    assert entity_of({"x": "1", "client-id": "c", "user": "u"}) == (
        ("client-id", "c"),
        ("user", "u"),
        ("x", "1"),
    )


def test_too_many_changes_at_once_are_refused(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with too many changes is refused; unchanged values are not counted."""
    monkeypatch.setattr(entities, "MOST_CHANGES", 2)
    quotas = kept(disk)
    changes = [Change({"user": name}, RATE) for name in "ab"]
    result(quotas.alter(changes, {}, validate_only=False))
    changes = [Change({"user": name}, RATE) for name in "abcd"]
    result(quotas.alter(changes, {}, validate_only=True))
    with pytest.raises(TooManyChangesError):
        result(quotas.alter([*changes, Change({"user": "e"}, RATE)], {}, validate_only=False))
    assert len(result(quotas.describe([], strict=False))) == 2


@pytest.mark.parametrize(
    "entry",
    [
        {}, {"entity": {}, "quotas": {}}, {"entity": [], "quotas": {}},
        {"entity": {"user": 5}, "quotas": {}}, {"entity": {"user": "a"}, "quotas": []},
        {"entity": {"user": "a"}, "quotas": {"producer_byte_rate": "x"}},
        {"entity": {"user": "a"}, "quotas": {"producer_byte_rate": 10**400}},
        {"entity": {"ip": "h"}, "quotas": {}}, {"entity": {"ip": "h"}, "address": 5, "quotas": {}},
    ],
)  # fmt: skip
def test_a_damaged_quota_is_told(entry: dict[str, Any]) -> None:
    """A damaged quota stops the start of the broker, so that no quota is lost silently."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    state = SecurityState(disk, "/d")
    state.change("quotas", put=[entry])
    with pytest.raises(StorageError, match=r"a quota in the data directory is damaged"):
        ClientQuotas(state)


def test_a_long_change_comes_to_an_end(disk: MemoryDisk) -> None:
    """A long change of quotas finishes, even if other requests change quotas all the time."""
    quotas = kept(disk)
    long = quotas.alter(
        [Change({"user": str(number)}, RATE) for number in range(5)], {}, validate_only=False
    )
    turns = 0
    for turns, _ in enumerate(long, start=1):
        alter(quotas, (PRODUCER_BYTE_RATE, float(turns)), user="other")
    assert 5 * 3 < turns < 30
    assert len(result(quotas.describe([], strict=False))) == 6


def test_changes_may_overlap(disk: MemoryDisk) -> None:
    """If two changes overlap, each in several steps, neither change is lost."""
    quotas = kept(disk)
    first = quotas.alter(
        [Change({"user": name}, RATE) for name in ("a", "b", "c")], {}, validate_only=False
    )
    for _ in range(4):
        next(first)
    assert alter(quotas, (PRODUCER_BYTE_RATE, 7.0), user="d") is None
    assert alter(quotas, (CONTROLLER_MUTATION_RATE, 9.0), user="a") is None
    assert set(result(first).values()) == {NO_ERROR}
    a = {PRODUCER_BYTE_RATE: 5.0, CONTROLLER_MUTATION_RATE: 9.0}
    for one in (quotas, kept(disk)):
        found = dict(result(one.describe([], strict=False)))
        assert found.pop(entity_of({"user": "a"})) == a
        assert found.pop(entity_of({"user": "d"})) == {PRODUCER_BYTE_RATE: 7.0}
        assert set(found) == {entity_of({"user": "b"}), entity_of({"user": "c"})}


KEYS = {
    "p": PRODUCER_BYTE_RATE,
    "c": CONSUMER_BYTE_RATE,
    "r": REQUEST_PERCENTAGE,
    "m": CONTROLLER_MUTATION_RATE,
}


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ("p r", "pr"),
        ("r p", "rp"),
        ("pr", "rp"),
        ("pc", "cp"),
        ("pm", "mp"),
        ("cm", "cm"),
        ("rm", "mr"),
        ("pcr", "crp"),
        ("p c r", "cpr"),
        ("r c p", "crp"),
        ("pcrm", "pcmr"),
        ("m r c p", "pcmr"),
        ("p c r m -c", "mpr"),
        ("r p -r r", "pr"),
        ("pcrm -m -c -p p", "rp"),
        ("p cr p -pm p", "pcmr"),
    ],
)
def test_values_are_in_the_order_of_a_java_hash_map(changes: str, order: str) -> None:
    """Quotas are described in the order of Kafka 4.4.0 after the same changes.

    A word is one request, and "-" before a letter removes a quota.
    """
    quotas: dict[str, float] = {}
    for change in changes.split():
        gone = change[change.find("-") + 1] if "-" in change else ""
        wanted = {KEYS[one]: None if one == gone else 5.0 for one in change if one != "-"}
        quotas = changed(quotas, wanted)
    assert list(quotas) == [KEYS[one] for one in order]
