"""The choice of a client's quota, and the clients that share it."""

from __future__ import annotations

import pytest

from coordinator_server.security.quotas.limits import DEFAULT, Limits, Part, Tags
from coordinator_server.security.quotas.rates import UNLIMITED

ORDER: list[tuple[tuple[Part, Part], Tags]] = [
    (("u", "c"), Tags("u", "c")),
    (("u", DEFAULT), Tags("u", "c")),
    (("u", None), Tags("u", "")),
    ((DEFAULT, "c"), Tags("u", "c")),
    ((DEFAULT, DEFAULT), Tags("u", "c")),
    ((DEFAULT, None), Tags("u", "")),
    ((None, "c"), Tags("", "c")),
    ((None, DEFAULT), Tags("", "c")),
]
"""From the most specific entity to the least specific, with the clients that share its quota."""


def limits(*entities: tuple[Part, Part]) -> Limits:
    """Return limits for these entities; the limit of an entity is its position in ORDER."""
    made = Limits()
    places = [entity for entity, _ in ORDER]
    for entity in entities:
        place = places.index(entity) if entity in places else 99
        made.put(*entity, float(place))
    return made


@pytest.mark.parametrize("place", range(8))
def test_the_most_specific_quota_is_the_clients(place: int) -> None:
    """A client has the most specific quota that is set for it."""
    made = limits(*(entity for entity, _ in ORDER[place:]))
    tags = made.tags("u", "c")
    assert tags == ORDER[place][1]
    assert made.limit(tags) == place


@pytest.mark.parametrize("place", range(8))
def test_each_alone_is_found(place: int) -> None:
    """A quota is found if no other quota is set, also by the fast path for a single type."""
    made = limits(ORDER[place][0])
    assert made
    assert made.limit(made.tags("u", "c")) == place


def test_others_have_no_quota() -> None:
    """Quotas of other users and client ids do not apply."""
    made = limits(("v", "c"), ("v", None), (None, "d"))
    assert made.tags("u", "c") == Tags("", "c")
    assert made.limit(made.tags("u", "c")) == UNLIMITED
    assert not Limits()
    assert Limits().limit(Limits().tags("u", "c")) == UNLIMITED


def test_without_a_client_id_only_quotas_of_users_hold() -> None:
    """Without a client id only user quotas apply, not a default client-id quota, as in Kafka."""
    assert limits((None, DEFAULT)).limit(Tags("", None)) == UNLIMITED
    both = limits(("u", DEFAULT))
    assert both.limit(both.tags("u", None)) == UNLIMITED
    of_user = limits(("u", None), (None, DEFAULT))
    assert of_user.limit(of_user.tags("u", None)) == 2


def test_an_empty_client_id_has_the_users_quota_alone() -> None:
    """An empty client id has no quota of its own, as in Kafka."""
    made = limits(("u", "c"), ("u", DEFAULT))
    assert made.limit(Tags("u", "")) == UNLIMITED
    assert limits((None, DEFAULT)).limit(Tags("", "")) == UNLIMITED


def test_the_default_prints_well() -> None:
    """The default entity prints as DEFAULT in a failing test."""
    assert repr(DEFAULT) == "DEFAULT"
