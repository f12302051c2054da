"""Every view opens in light and dark, wide and narrow, without errors; axe-core finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.page.browser import NARROW, WIDE, View
from tests.page.workload import SETTINGS, VIEWS, workload
from tests.support import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with clients of every kind."""
    with Broker(SETTINGS) as broker, workload(broker):
        yield broker


def faults(view: View, *rules: str) -> list[str]:
    """Open every view, and return what is wrong with each."""
    wrong: list[str] = []
    for parts in VIEWS:
        view.go(*parts)
        name = "/".join(parts)
        wrong += [f"{name}: {text}" for text in view.violations(*rules)]
        if view.overflow() > 0:
            wrong.append(f"{name}: {view.overflow()} px wider than the window")
        assert view.page.title().endswith("coordinator-server")
    return wrong


def test_every_view_opens_without_a_fault(broker: Broker, open_view: Callable[..., View]) -> None:
    """No view has an error, a violation of axe-core, or is wider than the window."""
    assert faults(open_view(broker.control.address)) == []


def test_every_view_opens_in_the_dark(broker: Broker, open_view: Callable[..., View]) -> None:
    """In dark colors and a narrow window, texts have enough contrast and nothing overflows."""
    view = open_view(broker.control.address, scheme="dark", size=NARROW)
    assert faults(view, "color-contrast") == []


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(
    broker: Broker, open_view: Callable[..., View], scheme: str, size: tuple[int, int]
) -> None:
    """All rules of axe-core hold in each view, in both colors and sizes, with all details open."""
    view = open_view(broker.control.address, scheme=scheme, size=size)
    wrong: list[str] = []
    for parts in VIEWS:
        view.go(*parts)
        view.page.locator("details").evaluate_all("all => all.forEach(part => (part.open = true))")
        wrong += [f"{'/'.join(parts)}: {text}" for text in view.violations()]
    assert not wrong, "\n".join(wrong)
