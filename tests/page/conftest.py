"""Fixtures of the tests of the page: a browser for each module, and views."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.left_out import leave_out
from tests.page.browser import View, chromium, missing

FOLDER = "tests/page/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests if Chromium or npm is missing; in CI they fail instead."""
    own = [item for item in items if item.nodeid.startswith(FOLDER)]
    reason = missing() if own and not os.environ.get("CI") else None
    if reason is not None:
        leave_out(config, items, own, f"{len(own)} tests of the page left out: {reason}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of all tests of a module."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_view(browser: Browser) -> Iterator[Callable[..., View]]:
    """A function that opens a view: `open_view(address, "groups", "billing", query={...})`.

    At the end of the test each view is checked for errors; `refusals` are expected statuses.
    """
    with ExitStack() as stack:

        def open_view(
            address: tuple[str, int],
            *parts: str,
            query: Mapping[str, object] | None = None,
            refusals: tuple[int, ...] = (),
            **options: Any,
        ) -> View:
            view = stack.enter_context(View(browser, address, **options))
            stack.callback(view.check, refusals=refusals)
            view.open(*parts, query=query)
            return view

        yield open_view
